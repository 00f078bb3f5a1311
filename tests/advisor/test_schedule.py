"""Draft tokens by batch size."""

import numpy as np

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
