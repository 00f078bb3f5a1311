"""What an engine is and can do is told before it starts, and what stands behind an address is what it says."""

import asyncio
import sys
from pathlib import Path

import pytest

from profiler.load import Endpoint
from profiler.probe.environment import argument, gpus_of
from profiler.serving.inspection import ServerFacts, count_prompt_tokens, inspect_server, is_local
from profiler.serving.interpreter import Engine, ask_engine
from profiler.serving.launch import serve_prefix
from tests.fake_vllm import Knobs, fake_vllm


def inspected(knobs: Knobs, *, log_text: str = "") -> ServerFacts:
    async def go(url: str) -> ServerFacts:
        async with Endpoint(url).session() as session:
            return await inspect_server(session, url=url, log_text=log_text)

    with fake_vllm(knobs) as server:
        return asyncio.run(go(server.url))


def test_a_server_tells_what_it_is() -> None:
    """Version, model, context, cache and counters, each from where vLLM has it."""
    facts = inspected(Knobs(num_speculative_tokens=3))
    assert (facts.model, facts.root, facts.version) == ("fake", "/models/fake", "0.32.0")
    assert (facts.max_model_len, facts.kv_tokens) == (2048, 1600)
    assert facts.speculates is True
    assert inspected(Knobs()).speculates is False
    assert inspected(Knobs(with_metrics=False)).speculates is None


@pytest.mark.parametrize(
    ("knobs", "log_text", "is_cpu"),
    [
        (Knobs(version="0.32.0+cpu"), "", True),
        (Knobs(), "(Worker pid=2) INFO [cpu_worker.py:260] Explicitly set (1.0/10.84) GiB for KV cache", True),
        (Knobs(block_size=128), "(Worker pid=2) INFO [gpu_worker.py:1] started", False),
        (Knobs(), "", False),
    ],
)
def test_a_cpu_server_is_known_by_its_version_or_its_log(knobs: Knobs, log_text: str, is_cpu: bool) -> None:
    """Nothing else proves it where we have the log."""
    assert inspected(knobs, log_text=log_text).is_cpu is is_cpu


def test_loopback_addresses_are_local() -> None:
    """Where the server runs here, this host's devices tell about it."""
    assert all(map(is_local, ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1")))
    assert not any(map(is_local, ("http://10.0.0.7:1", "http://gpu-host:1")))


@pytest.mark.parametrize(("with_tokenize", "count"), [(True, 3), (False, None)])
def test_prompts_are_counted_by_the_server_where_it_can(with_tokenize: bool, count: int | None) -> None:
    """Without /tokenize the count is unknown, not guessed."""

    async def go(url: str) -> int | None:
        async with Endpoint(url).session() as session:
            return await count_prompt_tokens(session, {"model": "fake", "prompt": "one two three", "stream": True})

    with fake_vllm(Knobs(with_tokenize=with_tokenize)) as server:
        assert asyncio.run(go(server.url)) == count


def test_an_interpreter_is_asked_without_importing_vllm(tmp_path: Path) -> None:
    """Version from the installed distribution, options from the sources; the package itself would fail to import."""
    package, metadata = tmp_path / "vllm", tmp_path / "vllm-0.99.0+cpu.dist-info"
    (package / "entrypoints").mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "entrypoints" / "args.py").write_text("enable_per_request_metrics\nper_request_spec_decode_metrics\n")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.99.0+cpu\n")
    found = ask_engine(serve_prefix(sys.executable), {"PYTHONPATH": str(tmp_path)})
    assert found == Engine("0.99.0+cpu", True)
    assert found.is_cpu
    (package / "entrypoints" / "args.py").write_text("enable_per_request_metrics\n")
    assert not ask_engine(serve_prefix(sys.executable), {"PYTHONPATH": str(tmp_path)}).tells_acceptance_per_request


def test_an_interpreter_without_vllm_is_unknown_not_wrong() -> None:
    """Starting it tells the reason; asking does not."""
    assert ask_engine(serve_prefix(sys.executable)) == Engine(None, False)
    assert ask_engine(("/nowhere/python", "-m", "x")) == Engine(None, False)


def test_a_container_command_is_asked_for_its_help(tmp_path: Path) -> None:
    """Any words that stand for `vllm serve` can say which options they know."""
    command = tmp_path / "serve"
    command.write_text("#!/bin/sh\necho --enable-per-request-metrics --per-request-spec-decode-metrics {detailed}\n")
    command.chmod(0o755)
    assert ask_engine((str(command), "serve")).tells_acceptance_per_request


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("", 1),
        ("--tensor-parallel-size 4", 4),
        ("-tp=2 --pipeline-parallel-size=2", 4),
        ("--tensor_parallel_size 8 -dp 2", 16),
        ("--tensor-parallel-size", 1),
    ],
)
def test_gpus_of_a_server_are_read_off_its_arguments(words: str, count: int) -> None:
    """GPU seconds are seconds times the GPUs that a server holds."""
    assert gpus_of(words.split()) == count


def test_the_last_of_an_option_counts() -> None:
    """As argparse has it."""
    assert argument(["--max-model-len", "1", "--max-model-len=2"], "--max-model-len") == "2"
    assert argument([], "--max-model-len") is None
