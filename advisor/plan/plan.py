"""How many replicas does a demand need under an SLO, on which GPU, and is speculation worth it there?

The whole flow: the demand hour by hour, each class as advice would read it, every GPU type sized with and without
speculation (`gpu`, `fleet`), and what costs least. Refused: a curve that says nothing, GPUs of which none holds the
target, and an SLO that no number of replicas keeps anywhere, with the closest that can be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from advisor.identity import new_id
from advisor.plan.answer import (
    ArmPlan,
    CapacityPlan,
    Cheapest,
    ClassSummary,
    DemandHour,
    GpuPlan,
    Slo,
)
from advisor.plan.curve import read_curve
from advisor.plan.fleet import Demand
from advisor.plan.gpu import Sized, deployment_on, holds_not, plan_gpu
from advisor.plan.measured import adopt_profiles
from advisor.plan.request import PlanRequest, SloSpec
from advisor.plan.work import describe_class
from advisor.predictions import model_version
from advisor.recommendation import INTERVAL_LEVEL, Warned
from profiler.errors import DeploymentError, InputError, SpecworthError
from profiler.prompts.sample import PromptSample


def plan_capacity(request: PlanRequest, *, samples: Mapping[str, PromptSample] | None = None) -> CapacityPlan:
    """The plan. samples: prompts of classes that are already read. Raises InputError with the place in the request."""
    request = adopt_profiles(request)
    demand = _demand(request)
    described = {name: describe_class(name, spec, (samples or {}).get(name)) for name, spec in request.classes.items()}
    plans: list[GpuPlan] = []
    sized: list[Sized] = []
    misfit: SpecworthError | None = None
    for index, priced in enumerate(request.gpus):
        try:
            deployment = deployment_on(request, priced)
        except InputError as error:
            raise _of_gpu(error, index) from None
        try:
            one = plan_gpu(request, priced, deployment, described, demand)
        except DeploymentError as error:
            if (error.field or "").startswith("classes"):
                raise
            misfit = misfit or _of_gpu(error, index)
            plans.append(holds_not(error, priced, deployment.gpu.name, deployment.tensor_parallel_size))
            continue
        sized.append(one)
        plans.append(one.plan)
    if not sized:
        assert misfit is not None
        raise misfit
    cheapest = _cheapest(plans)
    if cheapest is None:
        raise _nowhere(request.slo, plans)
    best, arm = cheapest
    decisive = best.decisive and _alone_cheapest(best, arm, plans)
    return CapacityPlan(
        id=new_id(),
        target=sized[0].deployment.target.name,
        decisive=decisive,
        text=_headline(best, arm, plans, decisive=decisive),
        cheapest=Cheapest(gpu=best.gpu, speculation=arm.method is not None, cost=arm.cost),
        slo=Slo(ttft_p95_ms=request.slo.ttft_p95_ms, tpot_p95_ms=request.slo.tpot_p95_ms),
        growth=request.demand.growth,
        peak_to_mean=request.demand.peak_to_mean,
        demand=[
            DemandHour(hour=hour, requests_per_s=dict(zip(request.classes, rates, strict=True)))
            for hour, rates in enumerate(demand.rates.tolist())
        ],
        classes={
            one.name: ClassSummary(
                input_tokens=one.conditions.input_tokens, output_tokens=one.conditions.output_tokens,
                temperature=one.conditions.temperature, cached_prefix_share=one.conditions.cached_prefix_share,
                overlap=one.conditions.overlap,
                acceptance="measured" if one.evidence is not None and one.evidence.acceptance else "predicted",
            )
            for one in sized[0].work
        },
        gpus=plans,
        estimated=list(dict.fromkeys(line for one in sized[0].work for line in one.estimated)),
        warnings=_warnings(request, sized),
        level=INTERVAL_LEVEL,
        model_version=model_version(),
    )  # fmt: skip


def _demand(request: PlanRequest) -> Demand:
    spec = request.demand
    if spec.csv is not None:
        rates = read_curve(spec.csv, list(request.classes)).rates
    else:
        assert spec.requests_per_s is not None
        rates = np.array([[spec.requests_per_s[name] for name in request.classes]])
    return Demand(rates * spec.growth, spec.peak_to_mean)


def _of_gpu(error: InputError, index: int) -> InputError:
    """The error at the place of the GPU type, where the request has no other for it."""
    field = error.field or ""
    known = field.startswith(("deployment.target", "deployment.speculation", "classes"))
    place = field if known else f"gpus[{index}]" + field.removeprefix("deployment")
    return type(error)(error.what, expected=error.expected, got=error.got, remedy=error.remedy, field=place)


def _arm(plan: GpuPlan) -> ArmPlan | None:
    """The arm that one would run there: speculation where that is the verdict, else none."""
    wanted = plan.speculative if plan.verdict == "speculate" else plan.without
    return wanted if wanted is not None and wanted.cost.expected is not None else None


def _cheapest(plans: Sequence[GpuPlan]) -> tuple[GpuPlan, ArmPlan] | None:
    """The least expected cost among those that keep the SLO in the pessimistic case, too; else among all."""
    arms = [(plan, arm) for plan in plans if (arm := _arm(plan)) is not None]
    safe = [one for one in arms if one[1].cost.pessimistic is not None]
    return min(safe or arms, key=lambda one: one[1].cost.expected or 0.0, default=None)


def _alone_cheapest(best: GpuPlan, arm: ArmPlan, plans: Sequence[GpuPlan]) -> bool:
    """Whether no other GPU type could turn out cheaper within the intervals."""
    most = arm.cost.pessimistic
    if most is None:
        return False
    others = [other for plan in plans if plan is not best and (other := _arm(plan)) is not None]
    return all(other.cost.optimistic is None or other.cost.optimistic > most for other in others)


def _nowhere(slo: SloSpec, plans: Sequence[GpuPlan]) -> InputError:
    """No number of replicas keeps the SLO: the closest that can be kept."""
    arms = [(plan, arm) for plan in plans for arm in (plan.without, plan.speculative) if arm is not None]

    def excess(arm: ArmPlan) -> float:
        return max(
            arm.least_ttft_p95_ms / (slo.ttft_p95_ms or float("inf")),
            arm.least_tpot_p95_ms / (slo.tpot_p95_ms or float("inf")),
        )

    plan, arm = min(arms, key=lambda one: excess(one[1]))
    asked = [
        f"{name} p95 of {limit:g} ms"
        for name, limit in (("TTFT", slo.ttft_p95_ms), ("TPOT", slo.tpot_p95_ms)) if limit is not None
    ]  # fmt: skip
    how = "without speculation" if arm.method is None else f"with {arm.method}, k = {arm.num_speculative_tokens}"
    broken = "ttft_p95_ms" if arm.bound_by == "ttft" else "tpot_p95_ms"
    return InputError(
        "No number of replicas keeps this SLO",
        expected=f"a {' and a '.join(asked)}, which a request that meets no other must keep",
        got=f"at the closest, on {plan.gpu} {how}, TTFT p95 {arm.least_ttft_p95_ms:.0f} ms and TPOT p95 "
        f"{arm.least_tpot_p95_ms:.1f} ms",
        remedy="relax the SLO beyond that, or take faster GPUs or more of them for a replica (tensor_parallel_size)",
        field=f"slo.{broken}",
    )  # fmt: skip


def _headline(best: GpuPlan, arm: ArmPlan, plans: Sequence[GpuPlan], *, decisive: bool) -> str:
    how = "with speculation" if arm.method is not None else "without speculation"
    peak, cost = arm.peak_replicas.expected or 0.0, arm.cost.expected or 0.0
    text = f"{best.gpu} {how}: {peak:,.0f} replica{'s' if peak != 1 else ''} at the peak, cost {cost:,.2f} in all"
    low, high = arm.cost.optimistic, arm.cost.pessimistic
    if low is not None and high is not None:
        text += f" ({low:,.2f} to {high:,.2f})"
    else:
        text += "; in the pessimistic case no number of replicas keeps the SLO"
    others = [(plan, other) for plan in plans if plan is not best and (other := _arm(plan)) is not None]
    below = [plan.gpu for plan, other in others if (other.cost.expected or 0.0) < cost]
    if below:
        text += f". {' and '.join(below)} may cost less, but may as well not keep the SLO"
    return text if decisive else f"not decisive: {text}"


def _warnings(request: PlanRequest, sized: Sequence[Sized]) -> list[Warned]:
    found: list[Warned] = []
    for one in sized:
        gpu = one.plan.gpu
        for arm, how in ((one.plan.without, "without speculation"), (one.plan.speculative, "with speculation")):
            if arm is None:
                continue
            if arm.gaps:
                text = f"{gpu} {how}: {'; '.join(arm.gaps)}: nothing about it is decisive until it is measured"
                found.append(Warned(code="not_measured_here", text=text))
            if arm.requests_per_s_of_replica.expected is not None and arm.requests_per_s_of_replica.pessimistic is None:
                text = f"{gpu} {how}: in the pessimistic case no number of replicas keeps the SLO"
                found.append(Warned(code="slo_at_risk", text=text))
        found += [Warned(code=warning.code, text=f"{gpu}: {warning.text}") for warning in one.warnings]
    for work in sized[0].work:
        found += [Warned(code=warning.code, text=f"{work.name}: {warning.text}") for warning in work.warnings]
    if request.demand.peak_to_mean == 1.0:
        text = "every hour is taken as even: peak_to_mean says how much busier its busiest minutes are than its mean"
        found.append(Warned(code="even_hours", text=text))
    return list(dict.fromkeys(found))
