"""Why a vLLM server did not start, read from the end of its log.

vLLM ends with the traceback of the API server, which says only that the engine core failed; the cause stands further
up, in the engine's own lines. Each known cause has a pattern, a sentence and what to do about it; an unknown one
is quoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import LaunchError


@dataclass(frozen=True, slots=True)
class Cause:
    """One kind of failure: how its log line looks, what it means, what helps."""

    code: str
    pattern: re.Pattern[str]
    meaning: str
    remedy: str


def _cause(code: str, pattern: str, meaning: str, remedy: str) -> Cause:
    return Cause(code, re.compile(pattern, re.IGNORECASE), meaning, remedy)


# Ordered: the more specific first. The patterns are vLLM's, torch's and Python's own messages, of 0.6 to 0.32.
CAUSES: tuple[Cause, ...] = (
    _cause(
        "no_vllm",
        r"No module named '?vllm'?|vllm: (?:command )?not found",
        "the named interpreter has no vLLM",
        "name one that has it with --python PATH",
    ),
    _cause("port_taken", r"address already in use|EADDRINUSE", "the port is taken", "name another with --port"),
    _cause(
        "vocabulary",
        r"(?:vocab(?:ulary)?[_ ]?sizes?|tokenizers?)[^\n]{0,80}"
        r"(?:mismatch|must (?:be the same|match)|differ|not (?:equal|match))"
        r"|(?:same|different) vocab",
        "the drafter's vocabulary is not the target's",
        "take a draft model of the target's family, or set use_heterogeneous_vocab where the engine offers it",
    ),
    _cause(
        "method",
        r"(?:unsupported|unknown|unrecognized|invalid) (?:speculative|spec)[^\n]{0,60}method|"
        r"speculative (?:method|decoding)[^\n]{0,80}not (?:yet )?supported|Input should be 'ngram'|"
        r"method=[^\n]{0,60}not supported",
        "this engine does not know the speculative method, or not with these options",
        "ask specworth advise with this --engine-version: it says what the version lacks",
    ),
    _cause(
        "arctic",
        r"arctic[-_ ]inference[^\n]{0,80}(?:not installed|required|install)|No module named '?arctic_inference'?",
        "suffix decoding needs the package arctic-inference beside vLLM",
        "install it in the server's environment",
    ),
    _cause(
        "kv_cache",
        r"No available memory for the cache blocks|"
        r"KV cache (?:is )?(?:needed|required)[^\n]{0,120}(?:larger|available)|"
        r"max(?:imum)? (?:model|seq)[_ ]?len[^\n]{0,80}larger than the maximum number of tokens",
        "no room is left for the KV cache",
        "lower --max-model-len, raise --gpu-memory-utilization or take more GPUs",
    ),
    _cause(
        "memory_in_use",
        r"Free memory on device[^\n]{0,160}less than desired|available memory on node[^\n]{0,160}less than desired",
        "other processes hold memory that this server was to have",
        "stop them, or lower --gpu-memory-utilization",
    ),
    _cause(
        "out_of_memory",
        r"CUDA out of memory|OutOfMemoryError|HIP out of memory|Cannot allocate memory|MemoryError",
        "out of memory",
        "take a smaller model or drafter, quantised weights, or more GPUs (--tensor-parallel-size)",
    ),
    _cause(
        "model_len",
        r"max_model_len[^\n]{0,80}(?:greater|larger) than the derived",
        "--max-model-len is longer than the model was made for",
        "lower it to the figure in the log",
    ),
    _cause(
        "gated",
        r"gated repo|401 Client Error|403 Client Error|access to model[^\n]{0,60}restricted",
        "the model needs a login or an accepted licence",
        "log in on the server's host, or name a local folder",
    ),
    _cause(
        "model_not_found",
        r"(?:is not a local folder and is not a valid model identifier|Repository ?Not ?Found|"
        r"LocalEntryNotFoundError|couldn't connect to[^\n]{0,80}huggingface|Invalid repository ID or local directory|"
        r"does not appear to have a file named|OfflineModeIsEnabled|"
        r"cannot find the requested files in the local cache|HFValidationError)",
        "the model was not found",
        "check its name, or name a local folder",
    ),
    _cause(
        "architecture",
        r"Model architectures? [^\n]{0,80}(?:not supported|failed to be inspected)|are not supported for now",
        "this engine does not know the model's architecture",
        "take a newer vLLM",
    ),
    _cause(
        "gpu",
        r"Failed to infer device type|No CUDA GPUs are available|no NVIDIA driver|Unable to determine the device type",
        "no GPU was found by vLLM",
        "check nvidia-smi, and CUDA_VISIBLE_DEVICES",
    ),
    _cause(
        "arguments",
        r"error: (?:unrecognized arguments|argument|the following arguments)[^\n]*",
        "`vllm serve` refused its arguments",
        "check --serve-arguments against that version's `vllm serve --help`",
    ),
    _cause("configuration", r"Value error, ", "vLLM refused the configuration", "change what the message names"),
)

# A record below ERROR says nothing about the cause: warnings quote errors that might come ("Too many open files").
_RECORD = re.compile(
    r"^\s*(?:\([^)]*pid=\d+\)\s*)?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)[ :]\S*[^\]]*?\]\s?"
    r"|^\s*\([^)]*pid=\d+\)\s?"
)
# Source lines of a traceback quote the raising code, not the message.
_SOURCE = re.compile(
    r"^\s*(?:File \"|[\^~ ]+$|During handling|The above exception|Traceback|raise |return |await |with |async )"
)
_ERROR = re.compile(r"\b(?:[A-Z]\w*(?:Error|Exception|Exit|Interrupt)): .+|Value error, .+")
_GENERIC = re.compile(r"Engine (?:core|process)[^\n]*failed|See root cause above|EngineDeadError|validation error for")


def explain_failure(log_text: str, *, exit_code: int | None, log: Path, was_ready: bool = False) -> LaunchError:
    """One line for a dead server: the known cause, else the first error of its log that is no mere consequence."""
    lines = _telling_lines(log_text)
    for cause in CAUSES:
        for line in lines:
            if cause.pattern.search(line):
                return LaunchError(
                    f"the server {'died' if was_ready else 'did not start'}: {cause.meaning}",
                    got=_quote(line),
                    remedy=f"{cause.remedy} (log: {log})",
                    code=cause.code,
                )
    ended = "was killed" if exit_code is not None and exit_code < 0 else f"ended with exit code {exit_code}"
    if exit_code == -9:
        ended += " (SIGKILL: often the host ran out of memory)"
    errors = [found.group(0) for line in lines if (found := _ERROR.search(line)) is not None]
    causes = [error for error in errors if not _GENERIC.search(error)]
    quoted = _quote(next(iter(causes or errors), "nothing in its log"))
    when = "while it served" if was_ready else "before it was ready"
    return LaunchError(f"the server {ended} {when}", got=quoted, remedy=f"read {log}", code="unknown")


def _quote(line: str) -> str:
    """A line short enough for a message, without the input that pydantic repeats."""
    return line.split(" [type=")[0].strip()[:300]


def _telling_lines(text: str) -> list[str]:
    """The log's lines without records below ERROR, record prefixes and quoted source lines."""
    lines = []
    for line in text.splitlines():
        record = _RECORD.match(line)
        if record is not None and record.group("level") in ("DEBUG", "INFO", "WARNING"):
            continue
        bare = line[record.end() :] if record is not None else line
        if bare.strip() and not _SOURCE.match(bare):
            lines.append(bare)
    return lines
