"""Why a server did not start is read from its log, not from the consequences that follow the cause."""

from pathlib import Path

import pytest

from profiler.serving.failures import explain_failure

WARNING = (
    "(APIServer pid=7) WARNING 11-30 14:57:54 [system_utils.py:255] Found ulimit of 20000 and failed to automatically "
    "increase. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.\n"
)
CONSEQUENCE = (
    "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)

# Messages as vLLM 0.32 on a CPU and 0.26 on a GPU wrote them.
LINES = [
    (
        "vocabulary",
        "  Value error, Target and draft model should have the same vocabulary size. Target model vocab_size=49152.",
    ),
    (
        "method",
        "  Input should be 'ngram', 'medusa', 'draft_model', 'suffix' or 'eagle' [type=literal_error, input_value='x']",
    ),
    ("arguments", "main.py: error: unrecognized arguments: --no-such-flag 1"),
    (
        "model_len",
        "  Value error, User-specified max_model_len (999999) is greater than the derived max_model_len (8192).",
    ),
    ("model_not_found", "  Value error, Invalid repository ID or local directory specified: 'drafter'"),
    (
        "model_not_found",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name': '/models/none'.",
    ),
    (
        "model_not_found",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
    ),
    (
        "kv_cache",
        "(EngineCore pid=9) ERROR 11-30 14:59:01 [core.py:842] ValueError: No available memory for the cache blocks.",
    ),
    (
        "out_of_memory",
        "(EngineCore pid=9) ERROR 11-30 14:59:01 [core.py:842] torch.OutOfMemoryError: CUDA out of memory.",
    ),
    (
        "memory_in_use",
        "ValueError: Free memory on device (12.1/79.1 GiB) on startup is less than desired GPU memory utilization",
    ),
    ("port_taken", "OSError: [Errno 98] Address already in use"),
    ("no_vllm", "/usr/bin/python3: No module named vllm"),
    (
        "arctic",
        "ImportError: Arctic Inference is required for suffix decoding. Install via `pip install arctic-inference`.",
    ),
    (
        "configuration",
        "  Value error, num_speculative_tokens must be provided with speculative model [type=value_error]",
    ),
]


@pytest.mark.parametrize(("code", "line"), LINES, ids=[f"{c}-{i}" for i, (c, _) in enumerate(LINES)])
def test_known_causes_are_named(code: str, line: str) -> None:
    """Each cause is found between a misleading warning before and the engine's consequence after it."""
    error = explain_failure(WARNING + line + "\n" + CONSEQUENCE, exit_code=1, log=Path("serve.log"))
    assert error.code == code
    assert "Too many open files" not in str(error)
    assert error.remedy is not None
    assert "\n" not in str(error)


def test_an_unknown_cause_is_quoted() -> None:
    """The first error that is no consequence stands in the message, with where to read on."""
    log = WARNING + "ZeroDivisionError: division by zero\n" + CONSEQUENCE
    error = explain_failure(log, exit_code=1, log=Path("serve.log"))
    assert error.code == "unknown"
    assert "division by zero" in str(error)
    assert "serve.log" in str(error)


def test_a_killed_server_says_so() -> None:
    """SIGKILL with an empty log points to the host's memory."""
    assert "SIGKILL" in str(explain_failure("", exit_code=-9, log=Path("serve.log")))
