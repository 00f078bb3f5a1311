"""How does the speedup run over concurrency, and where does it fall to 1?

A curve is one target, method, k, engine and band of input lengths; cells of one concurrency within a band are averaged
(geometric mean). Only plain traffic is in it: temperature 0 where both were measured, no imposed misses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from profiler.measurements.coverage import CONTEXT_BANDS, band_of
from profiler.measurements.table import Row


@dataclass(frozen=True, slots=True)
class SpeedupCurve:
    """Speedups of one configuration and context band at rising concurrency."""

    target: str
    engine: str
    method: str
    num_speculative_tokens: int
    context: str  # the band's name, input tokens
    concurrency: tuple[int, ...]
    speedup: tuple[float, ...]

    @property
    def crossovers(self) -> tuple[float, ...]:
        """Concurrencies at which the curve passes 1, on a logarithmic axis between its neighbours."""
        return crossovers(self.concurrency, self.speedup)


def crossovers(concurrency: Sequence[float], speedup: Sequence[float]) -> tuple[float, ...]:
    """Where the line through the points, over log concurrency, crosses a speedup of 1."""
    found = []
    points = list(zip(concurrency, speedup, strict=True))
    for (b0, s0), (b1, s1) in pairwise(points):
        if (s0 - 1.0) * (s1 - 1.0) < 0.0:
            share = (s0 - 1.0) / (s0 - s1)
            found.append(math.exp(math.log(b0) + share * (math.log(b1) - math.log(b0))))
    return tuple(found)


def speedup_curves(rows: Iterable[Row], label: str = "speedup_end_to_end") -> list[SpeedupCurve]:
    """All curves of the rows that have a speedup, in the order of target, engine and context."""
    plain = [row for row in rows if row[label] is not None and not row["unmatched_share"]]
    zero = {(row["engine"], row["concurrency"], row["input_tokens"]) for row in plain if row["temperature"] == 0.0}
    groups: dict[tuple[str, str, str, int, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in plain:
        if row["temperature"] and (row["engine"], row["concurrency"], row["input_tokens"]) in zero:
            continue
        band = band_of(row["input_tokens"], CONTEXT_BANDS)
        key = (row["target"], row["engine"], row["method"], row["num_speculative_tokens"], band)
        groups[key][row["concurrency"]].append(row[label])
    order = [band_of(low, CONTEXT_BANDS) for low, _ in CONTEXT_BANDS]
    return [
        SpeedupCurve(
            *key,
            concurrency=tuple(sorted(points)),
            speedup=tuple(math.exp(sum(map(math.log, points[b])) / len(points[b])) for b in sorted(points)),
        )
        for key, points in sorted(groups.items(), key=lambda item: (*item[0][:2], order.index(item[0][4])))
    ]
