"""Our load client and vLLM's own, sending the same prompts to the same server, count the same."""

import pytest

from tests.real_vllm.bench_serve import bench_serve
from tests.real_vllm.load import prompts, send


@pytest.fixture(scope="module")
def both(ngram_server, vllm_python, smollm, serve_environment, tmp_path_factory):
    """Our wave and vLLM's result. Drafts by n-gram depend on nothing but the request's own text."""
    sample = prompts(max_tokens=24)
    ours = send(ngram_server.url, sample)
    theirs = bench_serve(
        vllm_python,
        smollm,
        ngram_server.url,
        sample,
        concurrency=2,
        folder=tmp_path_factory.mktemp("bench"),
        environment=serve_environment,
    )
    return ours, theirs


def test_requests_and_tokens_are_the_same(both):
    """As many requests, prompt tokens and output tokens, request by request."""
    ours, theirs = both
    assert theirs["completed"] == len(ours.whole) == len(ours.served)
    assert theirs["total_input_tokens"] == sum(s.input_tokens for s in ours.served)
    assert theirs["output_lens"] == [s.output_tokens for s in ours.served]
    assert theirs["input_lens"] == [s.input_tokens for s in ours.served]


def test_texts_are_the_same(both):
    """The answers agree, so the clients asked for the same thing."""
    ours, theirs = both
    assert theirs["generated_texts"] == [s.text for s in ours.served]


def test_drafts_are_the_same(both):
    """Drafts, drafted and accepted tokens of the window, as each client reads them from /metrics."""
    ours, theirs = both
    counted = ours.window.speculation
    assert theirs["spec_decode_num_drafts"] == counted.drafts
    assert theirs["spec_decode_draft_tokens"] == counted.drafted_tokens
    assert theirs["spec_decode_accepted_tokens"] == counted.accepted_tokens
    assert theirs["spec_decode_acceptance_length"] == pytest.approx(counted.acceptance_length)
    assert theirs["spec_decode_per_position_acceptance_rates"] == pytest.approx(counted.position_rates)
