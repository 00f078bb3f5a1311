"""Which way of speculating serves most requests with a replica, under this mix and SLO?

All that apply are priced in every k; those with the highest lower bounds of the speedup are sized with the queue, with
a fixed k and with the schedule that switches it by batch size. The bounds are those at the load that a replica without
speculation takes, and those of a request by itself: where an SLO is too tight for a replica without speculation, one
with it runs few requests at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.candidates import Candidate
from advisor.capacity import Capacity as MemoryCapacity
from advisor.plan.arms import Arm, predict_arm
from advisor.plan.measured import Measured
from advisor.plan.sizing import Capacity, Objective, replica_capacity
from advisor.plan.work import Work
from advisor.preflight import Preflight, inspect_candidate
from advisor.recommendation import Warned
from advisor.schedule import Schedule, batch_size_schedule, resolve_schedule
from advisor.speedup import bounds
from models.estimate import Floats
from models.step_cost import read_constants
from profiler.deployment import Deployment

_SIZED = 3  # candidates of each load that are sized with the queue; the others are behind in every bound


@dataclass(frozen=True, slots=True)
class Way:
    """One way of speculating: a candidate with its k, and what a replica takes so."""

    arm: Arm
    k: int
    schedule: Schedule | None
    preflight: Preflight
    warnings: tuple[Warned, ...]
    capacity: Capacity

    @property
    def candidate(self) -> Candidate:
        """What speculates."""
        assert self.arm.candidate is not None
        return self.arm.candidate

    def ks(self, arm: Arm) -> Floats:
        """The k at each concurrency of an arm's grid."""
        return k_by_batch(arm.concurrency, self.k, self.schedule)


def k_by_batch(concurrency: Floats, k: int, schedule: Schedule | None) -> Floats:
    """The number of draft tokens at each concurrency; the last tier goes on."""
    found = np.full(concurrency.shape, float(k))
    for first, _, tokens in schedule or ():
        found[concurrency >= first] = tokens
    return found


def best_way(
    deployment: Deployment, work: Sequence[Work], share: Floats, candidates: Sequence[Candidate],
    memory: MemoryCapacity, objective: Objective, *, load: float, measured: Measured | None = None,
) -> Way | None:  # fmt: skip
    """The best of the candidates; None where none can run. load: concurrency of the baseline at its capacity."""
    longest = max(one.longest_tokens for one in work)
    ranked = []
    for candidate in candidates:
        preflight = inspect_candidate(candidate, deployment, capacity=memory, longest_tokens=longest)
        if preflight.blocked is not None:
            continue
        ks = sorted({0, *candidate.ks})
        arm = predict_arm(deployment, work, share, candidate, limit=memory.limit(candidate), ks=ks, measured=measured)
        lows = bounds(arm.speedup)[0]
        lows[arm.ks.index(0)] = -np.inf
        for column in sorted({0, int(np.abs(arm.concurrency - load).argmin())}):
            k = arm.ks[int(lows[:, column].argmax())]
            ranked.append((float(lows[:, column].max()), arm, k, column, preflight))
    ranked.sort(key=lambda one: -one[0])
    ways: list[Way] = []
    seen: dict[bool, set[tuple[str, float]]] = {True: set(), False: set()}
    for low, arm, k, column, preflight in ranked:
        assert arm.candidate is not None
        alike = seen[column == 0]
        if len(alike) == _SIZED or (arm.candidate.method, low) in alike:
            continue  # another head that is predicted just so
        alike.add((arm.candidate.method, low))
        if any(way.arm is arm and way.k == k for way in ways):
            continue
        ways += _ways(deployment, arm, k, column, preflight, objective)
    return max(ways, key=_rank, default=None)


def _rank(way: Way) -> tuple[float, float]:
    """What a replica takes; where that is nothing, how near a request by itself comes to the SLO."""
    return way.capacity.request_rate or 0.0, -float(way.capacity.alone.tpot_p95_ms.max())


def _ways(
    deployment: Deployment, arm: Arm, k: int, column: int, preflight: Preflight, objective: Objective
) -> Iterator[Way]:
    """The candidate with its fixed k, and with the schedule where there is one."""
    assert arm.candidate is not None
    yield Way(arm, k, None, preflight, (), replica_capacity(arm.replica(k), objective))
    # No schedule rests on batch sizes that nobody has measured; the engine carries its last tier on.
    most = max(read_constants().measured.concurrency, float(arm.concurrency[column]))
    sizes = np.flatnonzero(arm.concurrency <= most)
    schedule = batch_size_schedule(
        batch_size=arm.concurrency[sizes].astype(np.int64), speedup=arm.speedup.value[:, sizes], k=arm.ks, fixed_k=k,
        asked=int(arm.concurrency[column]),
    )  # fmt: skip
    schedule, warnings = resolve_schedule(schedule, deployment, arm.candidate, fixed_k=k)
    if schedule is not None:
        capacity = replica_capacity(arm.replica(k_by_batch(arm.concurrency, k, schedule)), objective)
        yield Way(arm, k, schedule, preflight, warnings, capacity)
