"""`specworth observe` says of a real server under load what the load's own client knows, and `advise` takes it."""

import json
import subprocess
import sys
import threading

import pytest

from tests.real_vllm.conftest import K
from tests.real_vllm.load import TEXTS, prompts, send

CONCURRENCY = 2


def specworth(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "api.main", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def observe(server, out, *more):
    """Observe while prompts are sent again and again, until the window is over; the saved observation."""
    over = threading.Event()
    waves = []

    def load():
        while not over.is_set():
            waves.append(send(server.url, prompts(*TEXTS, max_tokens=16), concurrency=CONCURRENCY))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        done = specworth("observe", server.url, "--for", "8s", "--every", "500ms", "--out", out, *more)
    finally:
        over.set()
        thread.join(120)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), done.stdout, waves


@pytest.fixture(scope="module")
def speculative(ngram_server, tmp_path_factory):
    out = tmp_path_factory.mktemp("observed") / "observed.json"
    return *observe(ngram_server, out, "--method", "ngram"), out


@pytest.fixture(scope="module")
def plain(baseline_server, tmp_path_factory):
    return observe(baseline_server, tmp_path_factory.mktemp("observed") / "observed.json")


def test_a_speculative_server_is_described(speculative):
    """Lengths, running requests and acceptance are those of the load that was sent."""
    seen, printed, waves, _ = speculative
    served = [s for wave in waves for s in wave.whole]
    longest, shortest = max(s.input_tokens for s in served), min(s.input_tokens for s in served)
    assert seen["model"] == "smollm"
    assert seen["engine_version"].startswith("0.32.0")
    assert shortest <= seen["input_tokens"]["mean"] <= longest
    assert 0 < seen["output_tokens"]["mean"] <= 16
    assert 1 <= seen["running"]["busy_mean"] <= CONCURRENCY
    assert seen["running"]["most"] == CONCURRENCY
    assert seen["rates"]["output_tokens_per_s"] > 0
    assert seen["ttft_ms"]["mean"] > 0
    assert seen["tpot_ms"]["mean"] > 0
    assert seen["kv_tokens"] > 2048
    assert 0 < seen["kv_usage"]["most"] < 1
    speculation = seen["speculation"]
    assert speculation["drafts"] > 0
    assert 1.0 < speculation["tokens_per_step"] <= speculation["acceptance_length"] <= K + 1
    assert len(speculation["position_rates"]) == K
    assert "acceptance length" in printed


def test_a_server_without_speculation_is_described(plain):
    """The same, without an acceptance that it does not have."""
    seen, printed, _ = plain
    assert seen["speculation"] is None
    assert seen["tpot_ms"]["count"] > 0
    assert "It does not speculate" in printed


def test_advice_takes_what_was_observed(speculative, tmp_path):
    """Concurrency, lengths and prefix share become the traffic, counts the evidence, and the answer says so."""
    seen, _, _, observed = speculative
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(TEXTS))
    done = specworth(
        "advise", file, "--target", "HuggingFaceTB/SmolLM2-135M-Instruct", "--gpu", "L40S", "--traffic", observed,
        "--method", "ngram", "-k", K, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["workload"]["concurrency"] == round(seen["running"]["busy_mean"])
    assert answer["workload"]["input_tokens"] == pytest.approx(seen["input_tokens"]["mean"])
    assert answer["acceptance"]["basis"] == "measured"
    said = " ".join(answer["workload"]["estimated"])
    for field in ("concurrency", "input_tokens", "output_tokens", "cached_prefix_share", "evidence"):
        assert f"{field}: " in said
