"""How many requests a second does one replica take within the SLO, and so how many replicas does an hour need?

Both percentiles rise with the rate, so that there is a most that a replica takes; it is bisected. Arrivals are split
evenly and at random over the replicas, so that each sees Poisson arrivals at an equal share of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from advisor.plan.passes import Replica
from advisor.plan.queue import PERCENTILE, Load, offered, stable

Bound = Literal["ttft", "tpot", "throughput"]
_PRECISION = 0.003
_BEYOND = 1.02  # so much more than is kept breaks what binds
_ALONE = 1e-6  # requests a second of each: one that meets no other


@dataclass(frozen=True, slots=True)
class Objective:
    """The SLO: 95th percentiles that no class may exceed; infinite where nothing is asked."""

    ttft_p95_ms: float
    tpot_p95_ms: float

    def kept(self, load: Load | None) -> bool:
        """Whether all classes keep it; not where the queue grows without bound."""
        return load is not None and self._first(load) and self._each(load)

    def _first(self, load: Load) -> bool:
        return math.isinf(self.ttft_p95_ms) or bool(load.first_token.below(self.ttft_p95_ms).min() >= PERCENTILE)

    def _each(self, load: Load) -> bool:
        return math.isinf(self.tpot_p95_ms) or bool(load.tpot.below(self.tpot_p95_ms).min() >= PERCENTILE)

    def broken(self, load: Load | None) -> Bound:
        """What is broken first."""
        if load is None:
            return "throughput"
        return "ttft" if not self._first(load) else "tpot"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one replica takes."""

    request_rate: float | None  # within the SLO, a second; None: not even one request alone keeps it
    bound_by: Bound
    saturated: float  # requests a second that it completes at most
    alone: Load  # of a request that meets no other


def replica_capacity(replica: Replica, objective: Objective, *, guess: float | None = None) -> Capacity:
    """The most that keeps the objective, and the most that leaves at all; guess: where the former may lie."""
    alone = offered(replica, _ALONE)
    assert alone is not None  # one request a fortnight leaves before the next comes
    saturated = _largest(lambda rate: stable(replica, rate), guess or 1.0)
    if not objective.kept(alone):
        return Capacity(None, objective.broken(alone), saturated, alone)
    rate = _largest(lambda rate: objective.kept(offered(replica, rate)), guess or saturated / 2.0)
    return Capacity(rate, objective.broken(offered(replica, rate * _BEYOND)), saturated, alone)


def kept_rate(replica: Replica, objective: Objective, *, guess: float) -> float | None:
    """The most that keeps the objective; None where nothing does."""
    if not objective.kept(offered(replica, _ALONE)):
        return None
    return _largest(lambda rate: objective.kept(offered(replica, rate)), guess)


def _largest(holds: Callable[[float], bool], guess: float) -> float:
    """The largest rate that holds, to `_PRECISION` below; it holds up to there and not beyond."""
    low, factor = guess, 1.2
    if holds(guess):
        while holds(high := low * factor):
            low, factor = high, factor**1.5
    else:
        high = guess
        while not holds(low := high / factor):
            high, factor = low, factor**1.5
            if low < _ALONE:
                return _ALONE
    while high > low * (1.0 + _PRECISION):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def replicas_for(rate: float, capacity: float | None, *, least: int) -> int | None:
    """Whole replicas for so many requests a second; None where one keeps the SLO with none."""
    if rate <= 0.0:
        return least
    if not capacity:
        return None
    return max(least, math.ceil(rate / capacity - 1e-9))
