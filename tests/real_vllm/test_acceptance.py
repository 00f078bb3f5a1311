"""Real servers, with and without speculation: the same text, and counts that agree with each other."""

import pytest

from profiler.metrics import request_speculation
from tests.real_vllm.conftest import K
from tests.real_vllm.load import TEXTS, send

SPECULATIVE = ["draft_model_server", "ngram_server", "suffix_server"]


@pytest.fixture(scope="module")
def baseline_wave(baseline_server):
    return send(baseline_server.url)


@pytest.fixture(scope="module", params=SPECULATIVE)
def speculative_wave(request, baseline_wave):
    return send(request.getfixturevalue(request.param).url)


def test_greedy_text_is_the_baselines_word_for_word(baseline_wave, speculative_wave):
    """At temperature 0 in float32 no drafter changes a single character."""
    assert [s.error for s in (*baseline_wave.served, *speculative_wave.served)] == [None] * 2 * len(TEXTS)
    assert [s.text for s in speculative_wave.served] == [s.text for s in baseline_wave.served]


def test_the_baseline_has_no_acceptance(baseline_wave):
    """A server without a drafter shows no counters, and one token per step."""
    assert baseline_wave.window is not None
    assert baseline_wave.window.speculation is None
    assert baseline_wave.window.tokens_per_step == 1.0


def test_counters_count_what_the_client_was_served(baseline_wave, speculative_wave):
    """Requests, prompt tokens and generated tokens of the window are the client's own sums."""
    for wave in (baseline_wave, speculative_wave):
        window = wave.window
        assert window is not None
        assert window.requests == len(TEXTS)
        assert window.prompt_tokens == sum(s.input_tokens for s in wave.served)
        assert window.generation_tokens == sum(s.output_tokens for s in wave.served)
        assert window.output_tokens.count == len(TEXTS)
        assert window.output_tokens.sum == window.generation_tokens


def test_acceptance_holds_together(speculative_wave):
    """Per-position counts fall and sum to what was accepted; a draft has at most k tokens."""
    counted, window = speculative_wave.window.speculation, speculative_wave.window
    assert counted.drafts > 0
    assert counted.drafts <= counted.drafted_tokens <= K * counted.drafts
    assert 0 < counted.accepted_tokens == sum(counted.accepted_per_position)
    assert counted.drafts >= counted.accepted_per_position[0]
    assert list(counted.accepted_per_position) == sorted(counted.accepted_per_position, reverse=True)
    assert 1.0 < window.tokens_per_step <= counted.acceptance_length <= K + 1


def test_each_response_tells_its_own_share(speculative_wave):
    """What the responses say of themselves adds up to the server's counters."""
    told = [request_speculation(s.speculation) for s in speculative_wave.served]
    counted = speculative_wave.window.speculation
    assert sum(t.drafted_tokens for t in told) == counted.drafted_tokens
    assert sum(t.accepted_tokens for t in told) == counted.accepted_tokens
    assert sum(t.drafts for t in told) == counted.drafts
    positions = [sum(position) for position in zip(*(t.accepted_per_position for t in told), strict=True)]
    assert positions == list(counted.accepted_per_position)


def test_latencies_of_client_and_server_agree(baseline_wave):
    """The client's clock adds HTTP and a small server's own queue, no more than 30 ms or a tenth."""
    window = baseline_wave.window
    for theirs, ours in (
        (window.ttft_ms.mean, [s.ttft_ms for s in baseline_wave.served]),
        (window.tpot_ms.mean, [s.tpot_ms for s in baseline_wave.served]),
        (window.end_to_end_ms.mean, [s.end_to_end_ms for s in baseline_wave.served]),
    ):
        assert sum(ours) / len(ours) == pytest.approx(theirs, rel=0.1, abs=30.0)
