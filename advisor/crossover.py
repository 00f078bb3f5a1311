"""Up to which concurrency does speculation still pay?

Read off the speedup at many concurrencies, up to what the KV cache holds or max_num_seqs admits; nothing is
extrapolated beyond. Speculation may stop to pay and pay again (a curve need not fall everywhere), hence ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.recommendation import CrossoverReason

# Doublings, and the middles between them where curves bend most on the measured grid (8 to 128 sequences).
GRID = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
FINE = 64  # up to here every whole number is looked at for the crossover; above, steps of about 3 %


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where speculation pays."""

    concurrency: int | None
    reason: CrossoverReason
    ranges: tuple[tuple[int, int], ...]
    everywhere: bool  # whether it pays at every concurrency, or at none


def curve_grid(*, limit: int, asked: int) -> tuple[int, ...]:
    """Concurrencies to show: the grid up to `limit`, the limit itself and the asked one; at least four."""
    points = {b for b in GRID if b <= limit} | {limit, asked}
    for b in range(1, 5):  # a cache that holds one or two sequences still has a curve: the rest waits
        if len(points) < 4:
            points.add(b)
    return tuple(sorted(points))


def fine_grid(*, limit: int) -> NDArray[np.int64]:
    """Concurrencies from 1 to `limit` at which to look for the crossover."""
    fine = set(range(1, min(limit, FINE) + 1))
    if limit > FINE:
        count = int(np.ceil(np.log(limit / FINE) / np.log(1.03))) + 1
        fine.update(np.round(np.geomspace(FINE, limit, count)).astype(np.int64).tolist())
    return np.array(sorted(fine), dtype=np.int64)


def find_crossover(
    *, concurrency: Sequence[int] | NDArray[np.int64], pays: Sequence[bool] | NDArray[np.bool_]
) -> Crossover:
    """The ranges that pay and the largest concurrency that does; `concurrency` rises and ends at the limit."""
    ranges: list[tuple[int, int]] = []
    open_range = False
    for b, pay in zip(concurrency, pays, strict=True):
        if pay and open_range:
            ranges[-1] = (ranges[-1][0], int(b))
        elif pay:
            ranges.append((int(b), int(b)))
        open_range = bool(pay)
    if not ranges:
        return Crossover(None, "none", (), everywhere=True)
    reason: CrossoverReason = "beyond_capacity" if open_range else "found"
    return Crossover(ranges[-1][1], reason, tuple(ranges), everywhere=all(pays))
