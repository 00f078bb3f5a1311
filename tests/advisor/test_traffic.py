"""What each request is like, where the traffic does not say it."""

import pytest

from advisor.traffic import shared_prefix_share
from tests.advisor.deployments import ask, codes

UNKNOWN = {"input_tokens": None, "output_tokens": None, "temperature": None}


def test_shared_beginnings():
    """Ten prompts that begin with the same 640 characters of 800: about 8 of 10 parts less the first's own."""
    system = "You are a helpful assistant of the claims department. " * 12
    texts = [system[:640] + f"{i:03d}" + "x" * 157 for i in range(10)]
    assert shared_prefix_share(texts) == pytest.approx(0.8 * 9 / 10, abs=0.02)


def test_nothing_is_shared_below_a_block():
    """vLLM caches whole blocks: a common word or two is nothing."""
    assert shared_prefix_share(["Write a poem", "Write a story", "Write an essay"]) == 0.0
    assert shared_prefix_share(["alone"]) == 0.0
    assert shared_prefix_share([]) == 0.0


def test_without_prefix_caching_nothing_is_cached():
    """The share is 0 where the engine does not cache, even if the request says otherwise."""
    assert ask(enable_prefix_caching=False, traffic={"cached_prefix_share": 0.9}).workload.cached_prefix_share == 0.0


def test_temperature_of_the_prompts_is_taken():
    """The median of what the prompts state; vLLM's own 1.0 where none does."""
    prompts = [{"prompt": "a", "temperature": t} for t in (0.2, 0.3, 0.9)]
    assert ask(prompts=prompts, traffic=UNKNOWN).workload.temperature == 0.3
    assert ask(prompts=["a"], traffic=UNKNOWN).workload.temperature == 1.0


def test_prompts_that_are_longer_than_the_context():
    """They are left out of the lengths and told; a million characters do not decide for the others."""
    answer = ask(prompts=["word " * 200_000, "Say hello.", "Say goodbye."], traffic=UNKNOWN)
    assert "prompts_exceed_context" in codes(answer)
    assert answer.workload.input_tokens < 50


def test_more_cached_prefix_raises_the_gain():
    """What the prefix cache serves is prefill that dilutes the gain no more."""
    from tests.advisor.deployments import EAGLE3_K3, counts

    values = [
        ask(
            speculation=EAGLE3_K3,
            evidence=counts(2.5),
            traffic={"input_tokens": 4000, "concurrency": 8, "cached_prefix_share": share},
        ).speedup.end_to_end.value
        for share in (0.0, 0.5, 0.95)
    ]
    assert values == sorted(values)
