"""Draft tokens by batch size."""

import numpy as np

from advisor import RecommendationRequest, advise
from advisor.candidates import find_candidates
from advisor.deployment import resolve_deployment
from advisor.schedule import batch_size_schedule, resolve_schedule

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


def test_a_larger_batch_never_gets_more_draft_tokens():
    """Where the model turns up again at large batches, the schedule stays with the fewest; the asked one is fixed."""
    speedup = np.array([[1.3, 1.3, 1.2, 1.1, 1.3], [1.6, 1.5, 1.3, 1.0, 1.8], [0.87] * 5])
    tiers = batch_size_schedule(batch_size=SIZES, speedup=speedup, k=[1, 3, 0], fixed_k=3)
    assert tiers == [(1, 63, 3), (64, 128, 1)]
    late = batch_size_schedule(batch_size=SIZES, speedup=speedup, k=[1, 3, 0], fixed_k=3, asked=128)
    assert late is None


def test_an_engine_that_drafts_the_largest_k_gets_none_above_the_verdicts():
    """On the second model runner no tier drafts more than the verdict's k; tiers then alike are one."""
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
    deployment = resolve_deployment(request.deployment)
    candidate = find_candidates(deployment, request.deployment.speculation)[0]
    schedule, warnings = resolve_schedule([(1, 31, 5), (32, 63, 2), (64, 128, 1)], deployment, candidate, fixed_k=2)
    assert schedule == [(1, 63, 2), (64, 128, 1)]
    assert [warning.code for warning in warnings] == ["schedule_drafts_largest_k"]
    assert resolve_schedule([(1, 31, 5), (32, 128, 2)], deployment, candidate, fixed_k=2) == (None, ())

    answer = advise(request)
    config, k = answer.configuration.speculative_config, answer.candidate.num_speculative_tokens
    assert config is not None
    assert config["num_speculative_tokens"] == k
    assert all(tokens <= k for _, _, tokens in answer.configuration.schedule or [])
