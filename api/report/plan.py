"""How is a capacity plan told: one table of GPU types and arms, the hours, and what to know before relying on it."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.plan.answer import ArmPlan, CapacityPlan, GpuPlan, HourPlan, Span
from api.report.content import Points, Report, Section, Table
from api.report.wording import as_sentence, chance, method_brief

_SLO = {"ttft": "TTFT", "tpot": "TPOT", "throughput": "throughput"}


def plan_report(plan: CapacityPlan, *, every_gpu: bool = False) -> Report:
    """The report; hours of the cheapest GPU type, or of every one."""
    chosen = [gpu for gpu in plan.gpus if every_gpu or gpu.gpu == plan.cheapest.gpu]
    sections = [
        Section("What it takes", fleet_table(plan)),
        *(Section(f"Hour by hour on {gpu.gpu}", hours_table(gpu)) for gpu in chosen if gpu.without is not None),
        Section("Is speculation worth it?", Points(tuple(worth(plan)))),
        Section("Before you act on it", Points(tuple(to_know(plan)))),
    ]
    return Report(f"{as_sentence(plan.text)}", plan.cheapest.speculation, plan.decisive, tuple(sections))


def fleet_table(plan: CapacityPlan) -> Table:
    """A row for each GPU type and arm."""
    rows, fixed = [], []
    for gpu in plan.gpus:
        if gpu.without is None:
            rows.append((f"{_gpu(gpu)}: impossible", *[""] * 5))
            continue
        for arm in (gpu.without, gpu.speculative):
            if arm is not None:
                busiest = max(arm.hours, key=lambda hour: hour.requests_per_s)
                rows.append((
                    f"{_gpu(gpu)} {arm_name(arm)}", _of_replica(arm), counted(arm.peak_replicas),
                    percent(busiest.utilisation), percent(busiest.headroom), money(arm.cost),
                ))  # fmt: skip
                fixed.append(f"{_gpu(gpu)} {arm_name(arm)} {money(arm.cost_at_peak)}")
    slo = " and ".join(
        f"{name} p95 of {limit:g} ms"
        for name, limit in (("TTFT", plan.slo.ttft_p95_ms), ("TPOT", plan.slo.tpot_p95_ms)) if limit is not None
    )  # fmt: skip
    grown = f", growth {plan.growth:g}" if plan.growth != 1.0 else ""
    hours = len(plan.demand)
    notes = (
        f"Within {slo} for every class{grown}, busiest minutes {plan.peak_to_mean:g} times the hour's mean. Expected "
        f"value, and in brackets the optimistic and the pessimistic case ({plan.level:.0%} interval); cost of "
        f"{hours:,} hour{'s' if hours != 1 else ''}, replicas following the curve.",
        f"With the peak's replicas all along: {'; '.join(fixed)}." if hours > 1 else "",
    )
    header = ("", "req/s a replica", "at peak", "used", "headroom", "cost")
    return Table(header, tuple(rows), tuple(note for note in notes if note))


def hours_table(gpu: GpuPlan) -> Table:
    """Both arms hour by hour."""
    arms = [arm for arm in (gpu.without, gpu.speculative) if arm is not None]
    header = ("hour", "req/s", "without", "used", "headroom", "cost", "with", "used", "headroom", "cost")
    rows = [
        (f"{hours[0].hour:02d}", f"{hours[0].requests_per_s:,.1f}", *(cell for one in hours for cell in _hour(one)))
        for hours in zip(*(arm.hours for arm in arms), strict=True)
    ]
    total = tuple(cell for arm in arms for cell in (counted(arm.replica_hours), "", "", _told(arm.cost)))
    return Table(header[: 2 + 4 * len(arms)], (*rows, ("all", "", *total)))


def _hour(hour: HourPlan) -> tuple[str, str, str, str]:
    return counted(hour.replicas), percent(hour.utilisation), percent(hour.headroom), _told(hour.cost)


def worth(plan: CapacityPlan) -> Iterator[str]:
    """One line a GPU type, with both break-evens."""
    for gpu in plan.gpus:
        text = f"{_gpu(gpu)}: {gpu.text}"
        if gpu.speculative is not None and gpu.speculative.draft is not None:
            text += f". Drafter {gpu.speculative.draft}"
        if gpu.probability is not None and gpu.saving is not None:
            text += f". Probability that it saves enough {chance(gpu.probability)}"
        if gpu.acceptance_length is not None and gpu.speculative is not None:
            found = gpu.acceptance_length
            even = gpu.break_even_acceptance_length
            text += f". Acceptance length {found.value:.2f} ({found.low:.2f} to {found.high:.2f}), break-even "
            text += "at none that there is" if even is None else f"at {even:.2f}"
        if gpu.break_even_concurrency is not None and gpu.speculative is not None:
            upto = gpu.break_even_concurrency
            said = "at no concurrency" if upto.expected is None else f"up to {upto.expected:,.0f} requests at once"
            low = "none" if upto.pessimistic is None else f"{upto.pessimistic:,.0f}"
            text += f". More throughput than without {said} (in the pessimistic case {low})"
            if gpu.speculative.schedule:
                tiers = ", ".join(f"{first} to {last}: k {k}" for first, last, k in gpu.speculative.schedule)
                text += f". Draft tokens by batch size: {tiers}"
        yield f"{text.rstrip('.')}."


def to_know(plan: CapacityPlan) -> Iterator[str]:
    """Warnings, and what was estimated."""
    for warning in plan.warnings:
        yield f"{as_sentence(warning.text)} [{warning.code}]"
    yield from measured(plan)
    if plan.estimated:
        yield f"Not given, so estimated: {'; '.join(line.rstrip('.') for line in plan.estimated)}."
    yield (
        "Times are predictions and the queue is an approximation (docs/plan.md): load a replica with your own traffic "
        "before you buy by it."
    )


def measured(plan: CapacityPlan) -> Iterator[str]:
    """What rests on measurements of the classes, not on predictions alone."""
    known = [name for name, one in plan.classes.items() if one.acceptance == "measured"]
    if known:
        yield f"The acceptance of {', '.join(known)} is measured."
    for gpu in plan.gpus:
        if gpu.probed_concurrency:
            loads = ", ".join(f"{load:,.0f}" for load in gpu.probed_concurrency)
            yield f"Times and speedups on {gpu.gpu} are corrected by what was measured at {loads} requests at once."


def arm_name(arm: ArmPlan) -> str:
    """An arm as a table has it."""
    if arm.method is None:
        return "without"
    return method_brief(arm.method, arm.num_speculative_tokens, None) + (", schedule" if arm.schedule else "")


def _gpu(gpu: GpuPlan) -> str:
    return gpu.gpu if gpu.gpus_per_replica == 1 else f"{gpu.gpus_per_replica} x {gpu.gpu}"


def _of_replica(arm: ArmPlan) -> str:
    span = arm.requests_per_s_of_replica
    if span.expected is None:
        return f"none ({_SLO[arm.bound_by]})"
    return f"{span.expected:,.1f} ({_number(span.pessimistic, 1)}-{_number(span.optimistic, 1)})"


def counted(span: Span) -> str:
    """Replicas: expected, and the range where there is one."""
    if span.expected is None:
        return "none do"
    if span.pessimistic == span.optimistic:
        return f"{span.expected:,.0f}"
    return f"{span.expected:,.0f} ({_number(span.optimistic, 0)}-{_number(span.pessimistic, 0)})"


def money(span: Span) -> str:
    """Costs, likewise."""
    if span.expected is None:
        return "none do"
    if span.pessimistic == span.optimistic:
        return _number(span.expected)
    return f"{_number(span.expected)} ({_number(span.optimistic)}-{_number(span.pessimistic)})"


def _told(span: Span) -> str:
    return "none do" if span.expected is None else _number(span.expected)


def percent(share: float | None) -> str:
    """A share; nothing where there is none."""
    return "" if share is None else f"{share:.0%}"


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return "none"
    return f"{value:,.{(0 if value >= 100 else 2) if digits is None else digits}f}"
