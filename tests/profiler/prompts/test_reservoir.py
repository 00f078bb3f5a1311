"""The reservoir keeps a uniform sample."""

from __future__ import annotations

import pytest

from profiler.prompts.reservoir import Reservoir


def test_every_item_is_equally_likely() -> None:
    """Over 2,000 seeds each of 100 items is kept in 10 % of the samples: chi-squared below its 99.9 % point."""
    counts = [0] * 100
    for seed in range(2000):
        reservoir: Reservoir[int] = Reservoir(10, seed)
        for item in range(100):
            reservoir.offer(item)
        for item in reservoir.items():
            counts[item] += 1
    # Sampling without replacement: each count has variance n p (1 - p).
    chi_squared = sum((count - 200) ** 2 / (2000 * 0.1 * 0.9) for count in counts)
    assert chi_squared < 148.2  # chi-squared with 99 degrees of freedom


@pytest.mark.parametrize("size", [None, 1, 5, 20])
def test_short_streams_are_kept_whole_and_in_order(size: int | None) -> None:
    """Up to its size everything is kept, as it came."""
    reservoir: Reservoir[int] = Reservoir(size, 0)
    for item in range(5):
        reservoir.offer(item)
    kept = reservoir.items()
    assert kept == sorted(kept)
    assert len(kept) == min(5, size or 5)
    assert reservoir.offered == 5
