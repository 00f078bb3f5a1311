"""Where to measure next when no prediction tells: double and halve until speculation pays on one side and not on the
other, then go between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

# Concurrencies that were measured, with the speedup found; None for one that only the baseline has seen until now.
Seen = Mapping[int, float | None]
Planner = Callable[[Seen], int | None]


def bracket(seen: Seen, *, threshold: float, most: int) -> int | None:
    """The next concurrency; None where nothing is left to learn by doubling, halving and going between.

    Below the asked concurrency speculation mostly pays more, so the largest that pays and the smallest that does not
    are brought together.
    """
    known = {c: value for c, value in seen.items() if value is not None}
    pays = [c for c, value in known.items() if value >= threshold]
    fails = [c for c, value in known.items() if value < threshold]
    if len(known) == len(seen) and known:
        if pays and fails and max(pays) < min(fails):
            return _between(max(pays), min(fails), seen)
        if not fails:
            return _new(min(2 * max(pays), most), seen)
        if not pays:
            return _new(max(min(fails) // 2, 1), seen)
        return None
    # Before anything is known of the other arm: up first, where the crossover mostly lies, then down.
    asked = next(iter(seen))
    for candidate in (2 * asked, asked // 2, 4 * asked, asked // 4):
        found = _new(min(max(candidate, 1), most), seen)
        if found is not None:
            return found
    return None


def _new(concurrency: int, seen: Seen) -> int | None:
    return None if concurrency in seen or concurrency < 1 else concurrency


def _between(low: int, high: int, seen: Seen) -> int | None:
    """The geometric middle, while the bracket is wider than a quarter."""
    middle = round(math.sqrt(low * high))
    return _new(middle, seen) if high > 1.25 * low and low < middle < high else None
