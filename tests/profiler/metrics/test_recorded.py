"""What real servers wrote is read as what their client was served."""

import json
from pathlib import Path

import pytest

from profiler.metrics import read_gauges, read_scrape, read_window, request_speculation

RECORDED = Path(__file__).parent / "recorded"


def scrape(name, at_s=0.0):
    return read_scrape((RECORDED / f"{name}.txt").read_text(), at_s=at_s)


@pytest.fixture
def responses():
    return json.loads((RECORDED / "vllm_0_32_dp2_ngram_responses.json").read_text())


def test_a_baseline_is_read_without_speculation():
    """Four requests: their tokens, one token per step, TPOT by request, no drafts."""
    window = read_window(None, scrape("vllm_0_32_baseline"))
    assert window.speculation is None
    assert (window.requests, window.prompt_tokens, window.generation_tokens) == (4, 182, 84)
    assert (window.tokens_per_step, window.decode_steps, window.decode_tokens) == (1.0, 80, 80)
    assert (window.tpot_ms.count, window.input_tokens.mean, window.output_tokens.mean) == (4, 45.5, 21)
    assert window.tpot_ms.mean == pytest.approx(134.515, abs=0.001)


def test_two_engines_counted_what_their_client_was_served(responses):
    """Tokens, drafts and acceptances of both engines add up to those of the four answers."""
    window = read_window(scrape("vllm_0_32_dp2_ngram_start"), scrape("vllm_0_32_dp2_ngram_end", 10.0))
    told = [request_speculation(response) for response in responses]
    assert window.requests == len(responses)
    assert window.prompt_tokens == sum(r["usage"]["prompt_tokens"] for r in responses)
    assert window.generation_tokens == sum(r["usage"]["completion_tokens"] for r in responses)
    counted = window.speculation
    assert counted.drafts == sum(t.drafts for t in told) == 18
    assert counted.drafted_tokens == sum(t.drafted_tokens for t in told) == 54
    assert counted.accepted_tokens == sum(t.accepted_tokens for t in told) == 19
    assert counted.accepted_per_position == (9, 5, 5)
    # Of 112 decode tokens 19 were accepted drafts, so 93 steps; only 18 of them drafted anything.
    assert window.decode_steps == window.decode_tokens - counted.accepted_tokens == 93
    assert window.tokens_per_step == pytest.approx(112 / 93)
    assert not window.restarted


def test_nothing_drafted_yet_is_no_acceptance():
    """A server that speculates but has served nothing: counters at 0, acceptance unknown."""
    window = read_window(None, scrape("vllm_0_32_dp2_ngram_start"))
    assert window.speculation.drafts == 0
    assert window.speculation.acceptance_length is None
    assert window.tokens_per_step is None


@pytest.mark.parametrize("name", ["vllm_0_32_dp2_ngram_start", "vllm_0_32_dp2_ngram_end"])
def test_each_engine_is_told_and_its_cache_counted_once(name):
    """Each line of two engines states 100 blocks of 128 tokens, which both have together: 12,800 tokens, not 25,600."""
    gauges = read_gauges(scrape(name))
    assert gauges.engines == ("0", "1")
    assert gauges.kv_tokens == 12_800


def test_blocks_of_older_engines_are_a_sum_already():
    """Without the size in tokens the blocks count, once, whichever engine's line states them."""
    text = (RECORDED / "vllm_0_32_dp2_ngram_end.txt").read_text().replace("kv_cache_size_tokens", "not_yet_there")
    assert read_gauges(read_scrape(text)).kv_tokens == 12_800


def test_a_restart_is_seen_by_the_start_time():
    """The same counts from a process that began later are all of the new process; else they are no difference."""
    text = (RECORDED / "vllm_0_32_baseline.txt").read_text()
    start = next(line for line in text.splitlines() if line.startswith("process_start_time_seconds"))
    restarted = read_scrape(text.replace(start, "process_start_time_seconds 1.9e+09"), at_s=10.0)
    window = read_window(scrape("vllm_0_32_baseline"), restarted)
    assert (window.restarted, window.requests) == (True, 4)
    unchanged = read_window(scrape("vllm_0_32_baseline"), scrape("vllm_0_32_baseline", 10.0))
    assert (unchanged.restarted, unchanged.requests) == (False, 0)
