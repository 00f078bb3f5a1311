"""One GPU type: what the demand takes without speculation and with the best of it, and what the difference is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.candidates import SPOKEN, find_candidates
from advisor.capacity import plan_capacity
from advisor.configuration import speculative_config
from advisor.deployment import resolve_deployment
from advisor.described import Described
from advisor.plan.answer import GpuPlan, Span
from advisor.plan.arms import mixed_conditions, predict_arm
from advisor.plan.best import Way, best_way
from advisor.plan.fleet import Demand, Fleet, Named, case_capacity, plan_fleet
from advisor.plan.measured import measured_of, with_evidence
from advisor.plan.passes import Replica
from advisor.plan.queue import offered
from advisor.plan.request import GpuPriceSpec, PlanPolicy, PlanRequest
from advisor.plan.sizing import Objective
from advisor.plan.work import Work, resolve_class
from advisor.recommendation import Interval, Warned
from advisor.request import DeploymentSpec
from advisor.speedup import Z_LEVEL, bounds
from advisor.verdict import decide, probability_of
from models.estimate import Floats
from models.step_cost import read_constants
from profiler.deployment import Deployment
from profiler.errors import DeploymentError

_WORST = -99.0  # a saving; no more is told of costs a hundredfold
_FACTORS, _PRECISION = 7.0, 1e-3  # how far the factor is looked for that saves enough, and how closely; logarithms
_LEAST_LOG_SD, _MOST_LOG_SD = 1e-9, 5.0  # of a factor that is known, and of one whose pessimistic case keeps no SLO


@dataclass(frozen=True, slots=True)
class Sized:
    """The plan of one GPU type, and what it says besides."""

    plan: GpuPlan
    deployment: Deployment
    work: tuple[Work, ...]
    warnings: tuple[Warned, ...]


def deployment_on(request: PlanRequest, priced: GpuPriceSpec) -> Deployment:
    """What is served on that GPU type."""
    fields = request.deployment.model_dump(exclude_unset=True)
    fields["gpu"] = priced.gpu.model_dump(exclude_unset=True)
    if priced.tensor_parallel_size is not None:
        fields["tensor_parallel_size"] = priced.tensor_parallel_size
    return resolve_deployment(DeploymentSpec.model_validate(fields))


def plan_gpu(
    request: PlanRequest, priced: GpuPriceSpec, deployment: Deployment, described: Mapping[str, Described | None],
    demand: Demand,
) -> Sized:  # fmt: skip
    """Size both arms. Raises DeploymentError where the GPUs do not hold the target, or not one request of it."""
    policy, objective = request.policy, _objective(request)
    work = tuple(resolve_class(name, spec, described[name], deployment) for name, spec in request.classes.items())
    candidates = find_candidates(deployment, request.deployment.speculation)
    work = with_evidence(request, work, candidates, deployment)
    measured = measured_of(deployment, work, candidates)
    busiest = np.array(demand.mix(demand.busiest))
    memory = plan_capacity(deployment, candidates, mixed_conditions(work, busiest))
    price = priced.price_per_hour * deployment.tensor_parallel_size

    def without(mix: tuple[float, ...]) -> Replica:
        return predict_arm(
            deployment, work, np.array(mix), None, limit=memory.limit_without, measured=measured
        ).replica(0)

    base = predict_arm(deployment, work, busiest, None, limit=memory.limit_without, measured=measured)
    fleet = plan_fleet(
        without, base, Named(), demand, objective, ratio_log_sd=None, price=price, least=policy.min_replicas
    )
    way = best_way(deployment, work, busiest, candidates, memory, objective, load=fleet.operating, measured=measured)
    if way is None:
        plan = _told(request, priced, deployment, fleet, None, None, work)
        return Sized(plan, deployment, work, _warned(work))
    limit = memory.limit(way.candidate)

    def speculating(mix: tuple[float, ...]) -> Replica:
        arm = predict_arm(deployment, work, np.array(mix), way.candidate, limit=limit, ks=way.arm.ks, measured=measured)
        return arm.replica(way.ks(arm))

    named = Named(
        way.candidate.method, way.candidate.draft_name, way.k, way.schedule,
        speculative_config(
            way.candidate, deployment, k=way.k, schedule=way.schedule,
            heterogeneous_vocab=way.preflight.heterogeneous_vocab,
        ),
    )  # fmt: skip
    other = plan_fleet(
        speculating, way.arm, named, demand, objective, ratio_log_sd=_log_sd(way), price=price,
        least=policy.min_replicas,
    )  # fmt: skip
    plan = _told(request, priced, deployment, fleet, other, way, work)
    return Sized(plan, deployment, work, (*way.preflight.warnings, *way.warnings, *_warned(work)))


def _warned(work: Sequence[Work]) -> tuple[Warned, ...]:
    """What the classes' evidence has to say."""
    return tuple(
        Warned(code=warning.code, text=f"{one.name}: {warning.text}")
        for one in work if one.evidence is not None for warning in one.evidence.warnings
    )  # fmt: skip


def _objective(request: PlanRequest) -> Objective:
    slo = request.slo
    return Objective(slo.ttft_p95_ms or math.inf, slo.tpot_p95_ms or math.inf)


def _chosen(way: Way, table: Floats) -> Floats:
    """The row of each concurrency's k, (n,)."""
    rows = np.array([way.arm.ks.index(int(k)) for k in way.ks(way.arm)])
    found: Floats = table[rows, np.arange(rows.size)]
    return found


def _log_sd(way: Way) -> Floats:
    return _chosen(way, way.arm.speedup.log_sd)


def _told(
    request: PlanRequest, priced: GpuPriceSpec, deployment: Deployment, base: Fleet, other: Fleet | None,
    way: Way | None, work: Sequence[Work],
) -> GpuPlan:  # fmt: skip
    policy, objective = request.policy, _objective(request)
    before, after = base.plan.cost.expected, None if other is None else other.plan.cost.expected
    saving, probability = None, None
    if before is not None and after is not None and other is not None and way is not None:
        saving, probability = _saving(way, objective, other, before=before, policy=policy)
    elif before is not None:
        probability = 0.0
    elif after is not None:
        probability = 1.0
    decided = None if probability is None else decide(
        probability=probability, confidence=policy.confidence, measured_here=_rests_on_measurements(base, other, way)
    )  # fmt: skip
    speculate = decided is not None and decided.verdict == "enable"
    verdict = "impossible" if decided is None else "speculate" if speculate else "do not speculate"
    return GpuPlan(
        gpu=deployment.gpu.name,
        gpus_per_replica=deployment.tensor_parallel_size,
        price_per_hour=priced.price_per_hour,
        verdict=verdict,  # type: ignore[arg-type]
        decisive=decided is not None and decided.decisive,
        probability=probability,
        saving=saving,
        acceptance_length=None if way is None else _length(way),
        break_even_acceptance_length=None if way is None else _even_length(way, objective, base.by_case),
        break_even_concurrency=None if way is None else _even_concurrency(way),
        probed_concurrency=sorted(
            {point.concurrency for one in work if one.evidence is not None for point in one.evidence.points}
        ),
        without=base.plan,
        speculative=None if other is None else other.plan,
        text=_text(base, other, way, saving, probability, decisive=decided is not None and decided.decisive),
    )


def _rests_on_measurements(base: Fleet, other: Fleet | None, way: Way | None) -> bool:
    """Whether measurements cover both arms where they run, and every case can be sized."""
    if other is None or way is None:
        return False
    measured = read_constants().measured.concurrency
    sized = all(rate is not None for fleet in (base, other) for rate in fleet.by_case.values())
    near = max(base.operating, other.operating) <= measured
    return sized and near and base.plan.covered and other.plan.covered and not way.preflight.doubtful


def _saving(
    way: Way, objective: Objective, other: Fleet, *, before: float, policy: PlanPolicy
) -> tuple[Interval, float]:
    """Share of the cost that speculation saves, and the probability that it is what the policy asks for.

    before: cost without speculation. Replicas are whole: the cost falls in steps as a replica takes more, and what is
    asked for is reached from one factor on over what it is expected to take.
    """
    replica = way.arm.replica(way.ks(way.arm))
    expected = other.by_case["expected"]
    assert expected is not None  # or there would be no cost
    slow, fast = (
        (
            case_capacity(way.arm, replica, objective, case, ratio_log_sd=_log_sd(way), guess=expected, shared=False)
            or 0.0
        )
        / expected
        for case in ("pessimistic", "optimistic")
    )
    spread = math.log(fast / slow) / (2.0 * Z_LEVEL) if fast > slow > 0.0 else _LEAST_LOG_SD if slow else _MOST_LOG_SD

    def saved(factor: float) -> float:
        cost = other.cost_at(factor)
        return _WORST if cost is None else max(1.0 - cost / before, _WORST)

    low, high = -_FACTORS, _FACTORS  # logarithms of the factor from which enough is saved
    while high - low > _PRECISION:
        middle = (low + high) / 2.0
        low, high = (low, middle) if saved(math.exp(middle)) >= policy.min_saving - 1e-9 else (middle, high)
    reached = saved(math.exp(_FACTORS)) >= policy.min_saving - 1e-9
    probability = probability_of(1.0, spread, min_speedup=math.exp(high)) if reached else 0.0
    return Interval(value=saved(1.0), low=min(saved(slow), saved(1.0)), high=max(saved(fast), saved(1.0))), probability


def _length(way: Way) -> Interval:
    excess = way.arm.acceptance_length(way.k)
    low, high = bounds(excess)
    return Interval(value=1.0 + float(excess.value[0]), low=1.0 + float(low[0]), high=1.0 + float(high[0]))


def _even_length(way: Way, objective: Objective, by_case: Mapping[str, float | None]) -> float | None:
    """AL from which a replica with speculation takes as much as one without; all classes' gains move alike."""
    rate = by_case["expected"]
    if rate is None:
        return None
    ks = way.ks(way.arm)
    excess = float(way.arm.acceptance_length(way.k).value[0])
    most = way.k / max(excess, 1e-6)

    def takes(factor: float) -> bool:
        return objective.kept(offered(way.arm.replica(ks, gain_factor=factor), 0.999 * rate))

    if excess <= 0.0 or not takes(most):
        return None
    low, high = 0.0, most
    for _ in range(10):
        middle = (low + high) / 2.0
        low, high = (low, middle) if takes(middle) else (middle, high)
    return 1.0 + high * excess


def _even_concurrency(way: Way) -> Span:
    """Up to which concurrency throughput is at least that without speculation, by bound."""
    n = np.arange(1.0, way.arm.concurrency[-1] + 1.0)
    value, half = np.log(_chosen(way, way.arm.speedup.value)), Z_LEVEL * _log_sd(way)

    def upto(log_speedup: Floats) -> float | None:
        pays = np.flatnonzero(np.interp(n, way.arm.concurrency, log_speedup) >= 0.0)
        return float(n[pays[-1]]) if pays.size else None

    return Span(pessimistic=upto(value - half), expected=upto(value), optimistic=upto(value + half))


def _text(
    base: Fleet, other: Fleet | None, way: Way | None, saving: Interval | None, probability: float | None, *,
    decisive: bool,
) -> str:  # fmt: skip
    if other is None or way is None:
        return (
            "no way of speculating can run here"
            if base.plan.cost.expected is not None
            else "no number of replicas keeps the SLO"
        )
    spoken = f"{SPOKEN[way.candidate.method]}, k = {way.k}" + (" by a schedule" if way.schedule else "")
    if base.plan.cost.expected is None:
        if other.plan.cost.expected is None:
            return "no number of replicas keeps the SLO, with speculation or without"
        return f"only with {spoken} is the SLO kept at all"
    if saving is None or probability is None:
        return f"with {spoken} no number of replicas keeps the SLO, without speculation it is kept"
    sure = "" if decisive else "; not decisive: measure before you rely on it"
    if saving.value >= 0.0:
        return f"{spoken} saves {saving.value:.0%} ({saving.low:.0%} to {saving.high:.0%}) of the cost{sure}"
    return f"{spoken}, the best, costs {-saving.value:.0%} more{sure}"


def holds_not(error: DeploymentError, priced: GpuPriceSpec, name: str, ranks: int) -> GpuPlan:
    """The plan of a GPU type on which the target cannot be served."""
    return GpuPlan(
        gpu=name, gpus_per_replica=ranks, price_per_hour=priced.price_per_hour, verdict="impossible", decisive=True,
        probability=None, saving=None, acceptance_length=None, break_even_acceptance_length=None,
        break_even_concurrency=None, probed_concurrency=[], without=None, speculative=None, text=error.line(),
    )  # fmt: skip
