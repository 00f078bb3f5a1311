"""Draft tokens by batch size."""

import numpy as np

from advisor import RecommendationRequest, advise
from advisor.schedule import batch_size_schedule

SIZES = np.array([1, 8, 32, 64, 128])


def test_no_schedule_where_the_fixed_k_is_as_good():
    """Differences below what predictions tell apart make no tiers."""
    speedup = np.array([[1.50, 1.4, 1.3, 1.2, 1.1], [1.52, 1.41, 1.29, 1.19, 1.08], [0.85] * 5])
    assert batch_size_schedule(batch_size=SIZES, speedup=speedup, k=[3, 4, 0], fixed_k=3) is None


def test_fewer_draft_tokens_for_larger_batches():
    """Where a smaller k wins clearly at larger batches, tiers follow each other without a gap."""
    speedup = np.array([[1.5, 1.4, 1.0, 0.9, 0.8], [1.2, 1.2, 1.2, 1.1, 1.05], [0.87] * 5])
    tiers = batch_size_schedule(batch_size=SIZES, speedup=speedup, k=[3, 1, 0], fixed_k=3)
    assert tiers == [(1, 31, 3), (32, 128, 1)]


def test_a_tier_without_drafts_must_earn_its_cost():
    """k = 0 costs what the loaded drafter costs: it is chosen only where even one draft token loses more."""
    speedup = np.array([[1.5, 1.3, 0.9, 0.7, 0.7], [0.87] * 5])
    tiers = batch_size_schedule(batch_size=SIZES, speedup=speedup, k=[3, 0], fixed_k=3)
    assert tiers == [(1, 63, 3), (64, 128, 0)]


def test_the_largest_batch_alone_is_no_tier():
    """A tier that only a full server would enter is noise in a configuration."""
    speedup = np.array([[1.5, 1.3, 0.95, 0.9, 0.7], [0.87] * 5])
    assert batch_size_schedule(batch_size=SIZES, speedup=speedup, k=[3, 0], fixed_k=3) is None


def test_what_is_served_at_the_asked_batch_size_is_what_was_predicted():
    """The verdict's k, chosen by its lower bound, stands at the batch size that the verdict is of."""
    speedup = np.array([[1.3, 1.3, 1.2, 1.1, 1.0], [1.6, 1.5, 1.3, 1.12, 0.8], [0.87] * 5])
    tiers = batch_size_schedule(batch_size=SIZES, speedup=speedup, k=[1, 3, 0], fixed_k=1, asked=32)
    assert tiers == [(1, 31, 3), (32, 128, 1)]


def test_an_engine_that_drafts_the_largest_k_gets_none_above_the_verdicts():
    """A 70B target at 64 requests: one draft token is predicted there, and no tier drafts more."""
    request = RecommendationRequest.model_validate(
        {
            "prompts": ["Why is the sky blue?"],
            "deployment": {
                "target": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "H100 SXM", "tensor_parallel_size": 4,
                "speculation": {"method": "eagle3"},
            },
            "traffic": {"concurrency": 64, "temperature": 1.0, "input_tokens": 16, "output_tokens": 200},
        }
    )  # fmt: skip
    answer = advise(request)
    k = answer.candidate.num_speculative_tokens
    assert answer.verdict == "enable"
    assert answer.configuration.speculative_config is not None
    assert answer.configuration.speculative_config["num_speculative_tokens"] == k
    schedule = answer.configuration.schedule or []
    assert [tokens for first, last, tokens in schedule if first <= 64 <= last] == [k]
    assert max(tokens for _, _, tokens in schedule) == k
    assert "schedule_drafts_largest_k" in {warning.code for warning in answer.warnings}
