"""What is reviewed of a capacity plan? Replicas and their cost, what speculation saves, hour by hour, how surely."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from advisor.plan import CapacityPlan, PlanRequest
from advisor.plan.answer import ArmPlan, GpuPlan, Span
from api.report.content import Points, Table
from api.report.plan import measured
from api.report.review.document import Bars, Block, Code, Facts, Figure, Grid, Prose, Reading, Review, Section
from api.report.review.predicting import accuracy, coverage
from api.report.review.provenance import Provenance, repeat
from api.report.wording import as_sentence, chance, draft_tokens, method_brief
from api.version import specworth_version

_MOST_HOURS = 48  # that a chart of hours can name; the table has them all
_MOST_OF_LARGEST = 2.5  # of the largest expected cost: an interval beyond that would hide all others


def review_plan(plan: CapacityPlan, request: PlanRequest, provenance: Provenance) -> Review:
    """The review of one plan."""
    sections = [
        Section("decision", "Decision", tuple(_decision(plan, request))),
        Section("evidence", "Evidence", (_evidence(plan),)),
        Section("cost", "Cost by GPU, without and with speculation", tuple(_costs(plan))),
        Section("speculation", "Where speculation pays", tuple(_speculation(plan))),
        Section("hours", "Hour by hour", tuple(_hours(plan))),
        Section("configuration", "Configuration", tuple(_configuration(plan, request))),
        Section("limits", "Limits, and what to know before acting", (_limits(plan),)),
        Section("method", "Method", (_method(plan),)),
        Section("repeat", "How to repeat it", repeat(provenance)),
    ]
    cheapest = plan.cheapest
    return Review(
        kind="Capacity plan",
        subject=f"{plan.target}: replicas under an SLO",
        mark=f"{'' if plan.decisive else 'Not decisive, leaning to '}{cheapest.gpu}, "
        f"{'with' if cheapest.speculation else 'without'} speculation",
        decision=as_sentence(plan.text),
        made_at=provenance.made_at,
        version=specworth_version(),
        sections=tuple(sections),
    )


def _arms(plan: CapacityPlan) -> Iterator[tuple[ArmPlan, str]]:
    """Each GPU type's arms that were sized, with a name."""
    for gpu in plan.gpus:
        for arm, how in ((gpu.without, "without"), (gpu.speculative, "with")):
            if arm is not None:
                yield arm, f"{gpu.gpu} {how}"


def _named(arm: ArmPlan) -> str:
    return "without" if arm.method is None else method_brief(arm.method, arm.num_speculative_tokens, arm.draft)


def _span(span: Span, form: str = ",.0f") -> str:
    """What is expected, and in brackets both ends where they differ as they are told."""
    value, *ends = ("none" if v is None else f"{v:{form}}" for v in (span.expected, span.optimistic, span.pessimistic))
    if span.optimistic is not None and span.pessimistic is not None and span.optimistic > span.pessimistic:
        ends.reverse()
    return value if {value} == set(ends) else f"{value} ({ends[0]} to {ends[1]})"


def _chosen(plan: CapacityPlan) -> tuple[GpuPlan, ArmPlan]:
    """What costs least."""
    gpu = next(gpu for gpu in plan.gpus if gpu.gpu == plan.cheapest.gpu)
    arm = gpu.speculative if plan.cheapest.speculation else gpu.without
    assert arm is not None
    return gpu, arm


def _slo(plan: CapacityPlan) -> str:
    slo = (("TTFT", plan.slo.ttft_p95_ms), ("TPOT", plan.slo.tpot_p95_ms))
    return " and ".join(f"{name} p95 of {limit:,g} ms" for name, limit in slo if limit is not None)


def _decision(plan: CapacityPlan, request: PlanRequest) -> Iterator[Block]:
    gpu, arm = _chosen(plan)
    rows = [
        ("Cheapest", f"{gpu.gpu}, {_named(arm)}"),
        ("Replicas at the peak", _span(arm.peak_replicas)),
        ("GPUs of a replica", str(gpu.gpus_per_replica)),
        ("Cost of the whole curve", _span(arm.cost, ",.2f")),
        ("Cost with the peak's replicas in every hour", _span(arm.cost_at_peak, ",.2f")),
    ]
    if gpu.saving is not None:
        saving = f"{gpu.saving.value:.1%} ({gpu.saving.low:.1%} to {gpu.saving.high:.1%})"
        rows.append(("Share of the cost that speculation saves there", saving))
    if gpu.probability is not None:
        rows.append((f"Probability of saving {request.policy.min_saving:.0%}", chance(gpu.probability)))
    yield Grid("The decision in numbers", Table(("", f"expected ({plan.level:.0%} interval)"), tuple(rows)))
    yield Prose(
        f"Kept by 95% of the requests of every class in every hour: {_slo(plan)}. Costs are in the prices' unit."
    )


def _evidence(plan: CapacityPlan) -> Facts:
    gaps = [f"{name} speculation: {gap}." for arm, name in _arms(plan) for gap in arm.gaps]
    mean = sum(sum(hour.requests_per_s.values()) for hour in plan.demand) / max(len(plan.demand), 1)
    demand = f"{len(plan.demand):,} hours, {mean:,.2f} requests a second on average, growth of {plan.growth:g} included"
    classes = tuple(
        f"{name}: prompts of {one.input_tokens:,.0f} tokens, answers of {one.output_tokens:,.0f}, temperature "
        f"{one.temperature:g}, {one.cached_prefix_share:.0%} of the prompt cached."
        for name, one in plan.classes.items()
    )
    return Facts(
        (
            ("Measured", tuple(measured(plan)) or ("Nothing of this deployment: replicas are sized by predictions.",)),
            ("Demand", (f"{demand}; the busiest minutes at {plan.peak_to_mean:g} times their hour's mean.", *classes)),
            ("Assumed", tuple(as_sentence(line) for line in plan.estimated) or ("Nothing.",)),
            ("Coverage", (coverage(),)),
            ("Accuracy", accuracy()),
            ("Gaps", tuple(dict.fromkeys(gaps)) or ("None: all of it lies inside what was measured.",)),
        )
    )


def _costs(plan: CapacityPlan) -> Iterator[Block]:
    rows = tuple(
        (name, _span(arm.peak_replicas), _span(arm.replica_hours, ",.1f"), _span(arm.cost, ",.2f"))
        for arm, name in _arms(plan)
    )
    bars = tuple(
        (name, Reading(arm.cost.expected, arm.cost.optimistic, arm.cost.pessimistic))
        for arm, name in _arms(plan)
        if arm.cost.expected is not None
    )
    largest = max((reading.value for _, reading in bars), default=0.0)
    cut = any(reading.high is not None and reading.high > _MOST_OF_LARGEST * largest for _, reading in bars)
    yield Figure(
        "chart-cost",
        "Cost of the whole curve by GPU, without and with speculation",
        f"Cheapest is {plan.cheapest.gpu} {'with' if plan.cheapest.speculation else 'without'} speculation, "
        f"{_span(plan.cheapest.cost, ',.2f')}.",
        Bars(
            "cost, in the unit of the prices", bars, upright=False, form=",.2f",
            most=_MOST_OF_LARGEST * largest if cut else None,
        ),
        Grid(
            f"Replicas and cost, expected and {plan.level:.0%} interval",
            Table(("GPU and speculation", "replicas at the peak", "replica hours", "cost"), rows),
        ),
    )  # fmt: skip
    replicas = tuple(
        (
            name, _span(arm.requests_per_s_of_replica, ",.2f"), f"{arm.saturated_requests_per_s:,.2f}", arm.bound_by,
            f"{arm.max_concurrency:,}", f"{arm.least_ttft_p95_ms:,.0f}", f"{arm.least_tpot_p95_ms:,.1f}",
        )
        for arm, name in _arms(plan)
    )  # fmt: skip
    header = (
        "one replica",
        "requests/s in the SLO",
        "at most",
        "bound by",
        "at once",
        "least TTFT ms",
        "least TPOT ms",
    )
    yield Grid("What one replica takes in the busiest hour", Table(header, replicas))


def _speculation(plan: CapacityPlan) -> Iterator[Block]:
    def verdict(gpu: GpuPlan) -> tuple[str, ...]:
        saving = gpu.saving
        return (
            gpu.gpu,
            gpu.verdict + ("" if gpu.decisive else ", not decisive"),
            "" if gpu.probability is None else chance(gpu.probability),
            "" if saving is None else f"{saving.value:.1%} ({saving.low:.1%} to {saving.high:.1%})",
        )

    def even(gpu: GpuPlan) -> tuple[str, ...]:
        length, least = gpu.acceptance_length, gpu.break_even_acceptance_length
        return (
            gpu.gpu if gpu.speculative is None else f"{gpu.gpu}: {_named(gpu.speculative)}",
            "" if length is None else f"{length.value:.2f} ({length.low:.2f} to {length.high:.2f})",
            "never" if least is None else f"{least:.2f}",
            "at none" if gpu.break_even_concurrency is None else _span(gpu.break_even_concurrency),
        )

    yield Grid(
        "Speculation on each GPU",
        Table(("GPU", "verdict", "probability", "share of the cost saved"), tuple(map(verdict, plan.gpus))),
    )
    yield Points(tuple(f"{gpu.gpu}: {as_sentence(gpu.text)}" for gpu in plan.gpus))
    header = ("GPU and method", "acceptance length", "to break even", "pays up to, requests at once")
    yield Grid("Where it breaks even", Table(header, tuple(map(even, plan.gpus))))


def _hours(plan: CapacityPlan) -> Iterator[Block]:
    gpu, arm = _chosen(plan)
    rows = tuple(
        (
            str(hour.hour), f"{hour.requests_per_s:,.2f}", _span(hour.replicas), _span(hour.cost, ",.2f"),
            *("" if v is None else f"{v:{form}}" for v, form in (
                (hour.utilisation, ".0%"), (hour.ttft_p95_ms, ",.0f"), (hour.tpot_p95_ms, ",.1f"),
            )),
        )
        for hour in arm.hours
    )  # fmt: skip
    header = ("hour", "requests/s", "replicas", "cost", "in use", "TTFT p95 ms", "TPOT p95 ms")
    grid = Grid(f"{gpu.gpu}, {_named(arm)}", Table(header, rows))
    bars = tuple(
        (str(hour.hour), Reading(hour.replicas.expected, hour.replicas.optimistic, hour.replicas.pessimistic))
        for hour in arm.hours
        if hour.replicas.expected is not None
    )
    if not 1 < len(bars) <= _MOST_HOURS:
        yield grid
        return
    yield Figure(
        "chart-hours",
        f"Replicas by hour: {gpu.gpu}, {_named(arm)}",
        f"At most {_span(arm.peak_replicas)} in one hour.",
        Bars("replicas", bars, upright=True, form=".0f"),
        grid,
    )


def _configuration(plan: CapacityPlan, request: PlanRequest) -> Iterator[Block]:
    gpu, arm = _chosen(plan)
    if arm.schedule:
        tiers = tuple(f"{first:,} to {last:,} sequences: {draft_tokens(k)}" for first, last, k in arm.schedule)
        yield Facts((("By batch size", tiers),))
    words = ["vllm", "serve", plan.target]
    lines = [shlex.join(words)]
    if gpu.gpus_per_replica > 1:
        lines.append(f"  --tensor-parallel-size {gpu.gpus_per_replica}")
    if arm.speculative_config is not None:
        lines.append(f"  --speculative-config {shlex.quote(json.dumps(arm.speculative_config))}")
    yield Code("vLLM's command of each replica, beside the deployment's own settings", " \\\n".join(lines))
    given = request.deployment.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude={"target"})
    if given:
        yield Code("The deployment's settings", json.dumps(given, indent=2, ensure_ascii=False), "json")


def _limits(plan: CapacityPlan) -> Points:
    told = [f"{as_sentence(warning.text)} [{warning.code}]" for warning in plan.warnings]
    told.append("A replica that is down is not planned for, nor the time that one takes to start.")
    return Points(tuple(told))


def _method(plan: CapacityPlan) -> Points:
    return Points(
        (
            "Each pass of a replica is priced by what it reads and computes, without and with speculation; from that "
            "come the latencies at each rate of arrivals, and the most that a replica takes within the SLO.",
            "Replicas of an hour are its busiest minutes' demand over that, rounded up; costs are replicas times GPUs "
            "times prices.",
            f"Pessimistic and optimistic are the ends of the {plan.level:.0%} interval of the times.",
        )
    )
