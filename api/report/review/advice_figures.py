"""Which figures does a recommendation have, and which numbers stand beside each?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from operator import mul

from advisor import Recommendation, RecommendationRequest
from advisor.recommendation import Interval
from api.report.content import Table, cannot_run, crossover_sentence, memory_plan, pays_up_to, spoken_objective
from api.report.review.document import Bars, Block, Curve, Figure, Grid, Prose, Reading, Stack
from api.report.wording import GIB, as_sentence, draft_tokens, times
from profiler.probe.profile import Counts, Profile


def speedup(answer: Recommendation, request: RecommendationRequest) -> Figure:
    """The curve with its band, threshold, crossover, own traffic, and what a probe measured."""
    policy = request.policy
    end_to_end = policy.objective == "end_to_end"
    line = tuple((p.concurrency, _reading(p.end_to_end if end_to_end else p.tpot)) for p in answer.curve)
    measured = tuple(_probed(request))
    level, spoken = answer.speedup.level, spoken_objective(request)
    said = crossover_sentence(answer, policy.min_speedup)
    if answer.configuration.schedule:
        said += f" All of it is with {draft_tokens(answer.candidate.num_speculative_tokens)} at every batch size."
    rows = tuple(
        (
            f"{point.concurrency:,}",
            times(point.end_to_end.value), _bounds(point.end_to_end),
            times(point.tpot.value), _bounds(point.tpot),
            "yes" if shown.value >= policy.min_speedup and not cannot_run(answer) else "no",
        )
        for point, (_, shown) in zip(answer.curve, line, strict=True)
    )  # fmt: skip
    notes = tuple(
        f"Measured at {concurrency:,}: {reading.value:.2f}x ({reading.low:.2f} to {reading.high:.2f})."
        for concurrency, reading in measured
    )
    header = ("at once", "end to end", f"{level:.0%}", "per output token", f"{level:.0%}", f"{policy.min_speedup:g}x")
    return Figure(
        "chart-speedup",
        f"Speedup {spoken} over concurrency, with its {level:.0%} interval",
        f"{said} At {answer.workload.concurrency:,}, your traffic, it is "
        f"{times((answer.speedup.end_to_end if end_to_end else answer.speedup.tpot).value)}.",
        Curve(
            y_label=f"speedup {spoken}", level=level, line=line, measured=measured, threshold=policy.min_speedup,
            pays=tuple(answer.enable_ranges),
            crossover=pays_up_to(answer),
            here=answer.workload.concurrency,
        ),
        Grid("Speedup by concurrency", Table(header, rows, notes)),
    )  # fmt: skip


def _probed(request: RecommendationRequest) -> Iterator[tuple[int, Reading]]:
    profile = request.evidence.profile if request.evidence is not None else None
    if profile is None or not profile.points:
        return
    asked = profile.points[0].temperature
    for point in profile.points:
        ratio = point.end_to_end if request.policy.objective == "end_to_end" else point.tpot
        if ratio is not None and point.temperature == asked:
            yield point.concurrency, Reading(ratio.value, ratio.low, ratio.high)


def acceptance(answer: Recommendation, profile: Profile | None) -> Iterator[Block]:
    """By position, and by class of prompts."""
    found = answer.acceptance
    if found.per_position:
        reached = tuple(accumulate(found.per_position, mul))
        rows = tuple(
            (f"{place}", f"{alpha:.1%}", f"{all_of_them:.1%}")
            for place, (alpha, all_of_them) in enumerate(zip(found.per_position, reached, strict=True), start=1)
        )
        yield Figure(
            "chart-positions",
            "Acceptance by position of the draft token",
            f"{found.basis.capitalize()}. A draft yields {found.length.value:.2f} tokens ({found.length.low:.2f} to "
            f"{found.length.high:.2f}), its accepted ones and the target's own; {found.draft_share:.0%} of the steps "
            "draft.",
            Bars(
                "share accepted",
                tuple((str(i), Reading(alpha)) for i, alpha in enumerate(found.per_position, start=1)),
                upright=True, form=".0%", most=1.05,
            ),
            Grid(
                "Acceptance by position",
                Table(("position", "accepted, if all before were", "this and all before it"), rows),
            ),
        )  # fmt: skip
    if found.by_structure:
        yield _by_class(answer, profile.structure if profile is not None else {})


def _by_class(answer: Recommendation, counted: dict[str, Counts]) -> Figure:
    found, shares = answer.acceptance.by_structure, answer.workload.structure
    rows = tuple(
        (_spoken(name), f"{shares.get(name, 0.0):.0%}", f"{length.value:.2f}", _bounds(length))
        + ((_counted(counted.get(name)),) if counted else ())
        for name, length in found.items()
    )
    best, worst = (pick(found, key=lambda name: found[name].value) for pick in (max, min))
    said = (
        f"Predicted for each kind of prompt alone, most frequent first: {_spoken(best)} gives most "
        f"({found[best].value:.2f}), {_spoken(worst)} least ({found[worst].value:.2f})."
        if best != worst
        else "Predicted; all prompts are of one kind."
    )
    return Figure(
        "chart-classes",
        "Acceptance length by kind of prompt",
        said,
        Bars(
            "acceptance length, tokens a draft",
            tuple((_spoken(name), _reading(length)) for name, length in found.items()),
            upright=False, start=1.0,
        ),
        Grid(
            "Acceptance length by kind of prompt",
            Table(("kind", "share of prompts", "predicted", "90%", *(("counted",) if counted else ())), rows),
        ),
    )  # fmt: skip


def memory(answer: Recommendation) -> Iterator[Block]:
    """What takes which part of each GPU, without and with speculation."""
    plan = answer.memory
    fixed = plan.target_bytes
    others = (
        plan.requested_bytes - fixed - plan.kv_bytes_without,
        plan.requested_bytes - fixed - plan.drafter_bytes - plan.kv_bytes,
    )
    parts = (
        ("target's weights", (fixed / GIB, fixed / GIB)),
        ("drafter", (0.0, plan.drafter_bytes / GIB)),
        ("KV cache", (plan.kv_bytes_without / GIB, plan.kv_bytes / GIB)),
        ("activations, graphs and the rest", tuple(max(0.0, size / GIB) for size in others)),
    )
    lost = plan.kv_tokens_without - plan.kv_tokens
    share = lost / plan.kv_tokens_without if plan.kv_tokens_without else 0.0
    yield Figure(
        "chart-memory",
        "GPU memory without and with speculation",
        f"Of {plan.requested_bytes / GIB:,.1f} GiB on each GPU. Speculation leaves room for {plan.kv_tokens:,} tokens "
        f"of KV cache instead of {plan.kv_tokens_without:,} ({share:.1%} fewer), and for {plan.concurrency:,} requests "
        f"of this length instead of {plan.concurrency_without:,}.",
        Stack("GiB on each GPU", ("without", "with"), parts),
        Grid("Memory plan", memory_plan(answer)),
    )
    if plan.spare_bytes < 0:
        yield Prose(f"This traffic needs {-plan.spare_bytes / GIB:,.2f} GiB of KV cache more than there are.")


def reasons(answer: Recommendation, request: RecommendationRequest) -> Figure:
    """What-ifs by the size of their effect."""
    several = Counter(reason.factor for reason in answer.reasons)
    bars = tuple(
        (f"{place}. {_spoken(reason.factor)}", Reading(reason.effect)) for place, reason in enumerate(answer.reasons, 1)
    )
    rows = tuple(
        (f"{place}. {as_sentence(reason.text)}", f"{reason.effect:+.2f}x")
        for place, reason in enumerate(answer.reasons, 1)
    )
    largest = answer.reasons[0]
    kinds = f"{len(answer.reasons)} what-ifs of {len(several)} kinds" if len(several) > 1 else "One kind of what-if"
    return Figure(
        "chart-reasons",
        f"Effect on the speedup {spoken_objective(request)} of one change at a time",
        f"{kinds}, largest first; the largest is {largest.effect:+.2f}x. Numbers are those of the table.",
        Bars("change of the speedup", bars, upright=False, form="+.2f"),
        Grid("What would change it", Table(("what-if", "effect"), rows)),
    )


def _reading(interval: Interval) -> Reading:
    return Reading(interval.value, interval.low, interval.high)


def _bounds(interval: Interval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}"


def _counted(counts: Counts | None) -> str:
    length = counts.acceptance_length if counts is not None else None
    return "" if length is None else f"{length:.2f}"


def _spoken(name: str) -> str:
    spoken = {"json": "JSON", "sql": "SQL", "num_speculative_tokens": "draft tokens", "cannot_run": "cannot run"}
    return spoken.get(name, name.replace("_", " "))
