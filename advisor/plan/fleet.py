"""How many replicas, hour by hour, and what do they cost: one arm on one GPU type along the curve.

The expected case is sized for every mix of classes that the curve has; the pessimistic and the optimistic one for the
busiest hour, and what they take there over what is expected there holds for the other hours, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.plan.answer import ArmPlan, HourPlan, Span
from advisor.plan.arms import Arm
from advisor.plan.passes import Replica
from advisor.plan.queue import Load, offered
from advisor.plan.sizing import Capacity, Objective, kept_rate, replica_capacity, replicas_for
from advisor.plan.uncertainty import CASES, factors
from advisor.schedule import Schedule
from models.estimate import Floats
from models.step_cost import gap_names
from models.step_cost.coverage import GAPS
from profiler.deployment import Method

_PARTS = 20  # shares of classes are told apart in twentieths


@dataclass(frozen=True, slots=True)
class Demand:
    """What comes: (hours, classes) requests a second with growth, and the busiest minutes over the mean."""

    rates: Floats
    peak_to_mean: float

    @property
    def totals(self) -> Floats:
        """Of all classes, (hours,)."""
        totals: Floats = self.rates.sum(axis=1)
        return totals

    @property
    def busiest(self) -> int:
        """The hour with the most requests."""
        return int(self.totals.argmax())

    def mix(self, hour: int) -> tuple[float, ...]:
        """Shares of the classes in an hour, rounded, so that like hours are one case."""
        total = float(self.totals[hour])
        rates = self.rates[hour] if total > 0.0 else self.rates[self.busiest]
        parts = np.round(_PARTS * rates / rates.sum())
        # A class that comes at all is there: its SLO is kept, too.
        parts = np.where((rates > 0.0) & (parts == 0.0), 1.0, parts)
        return tuple((parts / parts.sum()).tolist())


@dataclass(frozen=True, slots=True)
class Named:
    """What an arm is called."""

    method: Method | None = None
    draft: str | None = None
    k: int | None = None
    schedule: Schedule | None = None
    config: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """An arm sized: what one replica takes in each case, and the plan that follows."""

    by_case: dict[str, float | None]  # requests a second in the busiest hour's mix
    operating: float  # requests at once in a replica at its capacity
    plan: ArmPlan
    cost_at: Callable[[float], float | None]  # in all, were a replica to take that many times what is expected


def case_capacity(
    arm: Arm, replica: Replica, objective: Objective, case: str, *, ratio_log_sd: Floats | None, guess: float,
    shared: bool = True,
) -> float | None:  # fmt: skip
    """What a replica takes in a case; guess: what it takes where all is as expected."""
    passes, first = factors(case, gaps=arm.gaps, ratio_log_sd=ratio_log_sd, shared=shared)
    return kept_rate(replica.scaled(passes, first_token=first), objective, guess=guess)


def plan_fleet(
    replica_of: Callable[[tuple[float, ...]], Replica],
    arm: Arm,
    named: Named,
    demand: Demand,
    objective: Objective,
    *,
    ratio_log_sd: Floats | None,
    price: float,
    least: int,
) -> Fleet:
    """Size an arm. replica_of: the replica under a mix; arm: that of the busiest hour; price: of a replica's hour."""
    busiest = demand.mix(demand.busiest)
    mixes = {demand.mix(hour) for hour in range(demand.totals.size)}
    replicas = {mix: replica_of(mix) for mix in mixes}
    peak = replica_capacity(replicas[busiest], objective)
    guess = peak.request_rate or peak.saturated / 2.0
    capacities = {
        mix: peak if mix == busiest else replica_capacity(replica, objective, guess=guess)
        for mix, replica in replicas.items()
    }
    by_case = {case: case_capacity(arm, replicas[busiest], objective, case, ratio_log_sd=ratio_log_sd, guess=guess)
               for case in CASES if case != "expected"}  # fmt: skip
    by_case["expected"] = peak.request_rate
    relative = {case: _over(rate, peak.request_rate) for case, rate in by_case.items()}
    hours = [
        _hour(
            hour, demand, replicas[demand.mix(hour)], capacities[demand.mix(hour)], relative, price=price, least=least
        )
        for hour in range(demand.totals.size)
    ]
    loaded = offered(replicas[busiest], 0.999 * (peak.request_rate or 0.7 * peak.saturated))
    operating = float(loaded.concurrency) if loaded is not None else float(arm.concurrency[-1])
    peaks = _span(lambda case: _largest([getattr(hour.replicas, case) for hour in hours]))
    plan = ArmPlan(
        method=named.method,
        draft=named.draft,
        num_speculative_tokens=named.k,
        schedule=named.schedule,
        speculative_config=named.config,
        covered=arm.gaps == 0,
        gaps=[GAPS[name] for name in gap_names(arm.gaps)],
        max_concurrency=int(arm.concurrency[-1]),
        requests_per_s_of_replica=_span(lambda case: by_case[case]),
        saturated_requests_per_s=peak.saturated,
        bound_by=peak.bound_by,
        least_ttft_p95_ms=max(float(c.alone.first_token_p95_ms.max()) for c in capacities.values()),
        least_tpot_p95_ms=max(float(c.alone.tpot_p95_ms.max()) for c in capacities.values()),
        peak_replicas=peaks,
        replica_hours=_span(lambda case: _sum([getattr(hour.replicas, case) for hour in hours])),
        cost=_span(lambda case: _sum([getattr(hour.cost, case) for hour in hours])),
        cost_at_peak=_span(lambda case: _times(getattr(peaks, case), price * len(hours))),
        hours=hours,
    )

    def cost_at(factor: float) -> float | None:
        counts = []
        for hour, mean in enumerate(demand.totals.tolist()):
            rate = _times(capacities[demand.mix(hour)].request_rate, factor)
            counts.append(replicas_for(mean * demand.peak_to_mean, rate, least=least))
        return _sum([_times(count, price) for count in counts])

    return Fleet(by_case, operating, plan, cost_at)


def _hour(
    hour: int, demand: Demand, replica: Replica, capacity: Capacity, relative: dict[str, float | None], *,
    price: float, least: int,
) -> HourPlan:  # fmt: skip
    mean = float(demand.totals[hour])
    busy = mean * demand.peak_to_mean
    needed: dict[str, int | None] = {}
    for case in CASES:
        share = relative[case]
        rate = None if share is None or capacity.request_rate is None else share * capacity.request_rate
        needed[case] = replicas_for(busy, rate, least=least)
    count = needed["expected"]
    load = _load(replica, busy, count)
    room = None if count is None or capacity.request_rate is None or busy <= 0.0 else count * capacity.request_rate
    return HourPlan(
        hour=hour,
        requests_per_s=mean,
        replicas=_span(lambda case: needed[case]),
        cost=_span(lambda case: _times(needed[case], price)),
        utilisation=None if count is None else mean / (count * capacity.saturated),
        headroom=None if room is None else room / busy - 1.0,
        ttft_p95_ms=None if load is None else float(load.first_token_p95_ms.max()),
        tpot_p95_ms=None if load is None else float(load.tpot_p95_ms.max()),
        concurrency=None if load is None else float(load.concurrency),
    )


def _load(replica: Replica, rate: float, count: int | None) -> Load | None:
    return None if count is None or rate <= 0.0 else offered(replica, rate / count)


def _over(rate: float | None, expected: float | None) -> float | None:
    return None if rate is None or expected is None else rate / expected


def _span(of: Callable[[str], float | None]) -> Span:
    return Span(**{case: of(case) for case in CASES})


def _times(count: float | None, price: float) -> float | None:
    return None if count is None else count * price


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None
