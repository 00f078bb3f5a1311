"""Which figures and tables does a profile have?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from operator import mul

from api.report.content import Table
from api.report.profile import acceptance_table, spent_table
from api.report.review.document import Bars, Block, Curve, Figure, Grid, Reading
from profiler.probe.profile import Arm, ArmPoint, Counts, Latency, Point, Profile, Ratio

_MOST_WAVES = 200  # rows; the profile has them all
_MOST_BARS = 24  # kinds of prompts in the chart; the table has them all
_ARMS: tuple[tuple[Arm, str], ...] = (("baseline", "without"), ("speculative", "with"))


def numbers(profile: Profile) -> Grid:
    """The point that was asked for."""
    point = profile.points[0]
    length = point.acceptance.acceptance_length if point.acceptance is not None else None
    rows = [
        (name, f"{ratio.value:.2f}x", f"{ratio.low:.2f} to {ratio.high:.2f}", f"{ratio.level:.0%}", f"{ratio.pairs:,}")
        for name, ratio in (
            ("Speedup end to end", point.end_to_end),
            ("Speedup of time per output token", point.tpot),
        )
        if ratio is not None
    ]
    if length is not None and point.acceptance is not None:
        rows.append(("Acceptance length", f"{length:.2f}", "", "", f"{point.acceptance.drafts:,} drafts"))
    caption = f"Measured at {point.concurrency:,} requests at once{_heat(point)}"
    return Grid(caption, Table(("", "measured", "interval", "level", "prompts"), tuple(rows)))


def _heat(point: Point) -> str:
    return "" if point.temperature is None else f", temperature {point.temperature:g}"


def _deciding(profile: Profile, point: Point) -> Ratio | None:
    return point.end_to_end if profile.policy.objective == "end_to_end" else point.tpot


def speedup(profile: Profile) -> Figure | None:
    """Measured speedups at the asked temperature; None without any."""
    asked = profile.points[0].temperature if profile.points else None
    ratios = [(p, _deciding(profile, p)) for p in profile.points]
    known = sorted(
        ((p, ratio) for p, ratio in ratios if ratio is not None and p.temperature == asked),
        key=lambda pair: pair[0].concurrency,
    )
    if not known:
        return None
    spoken = "end to end" if profile.policy.objective == "end_to_end" else "per output token"
    level, found, threshold = known[0][1].level, profile.crossover, profile.policy.min_speedup
    if found.pays_at is not None and found.fails_at is not None:
        said = f"It pays at {found.pays_at:,} and no longer at {found.fails_at:,} requests at once."
    elif found.pays_at is not None:
        said = f"It pays up to {found.pays_at:,} requests at once, and no larger load was measured that fails."
    else:
        said = f"It reaches {threshold:g}x at no measured concurrency."
    rows = tuple(_row(point) for point, ratio in ratios if ratio is not None)
    header = ("at once", "end to end", "interval", "per output token", "interval", "prompts", "identical answers")
    return Figure(
        "chart-speedup",
        f"Measured speedup {spoken} over concurrency, with {level:.0%} intervals",
        said,
        Curve(
            y_label=f"speedup {spoken}", level=level, line=(), threshold=threshold,
            measured=tuple((p.concurrency, Reading(r.value, r.low, r.high)) for p, r in known),
            here=profile.points[0].concurrency,
        ),
        Grid("Measured speedups", Table(header, rows)),
    )  # fmt: skip


def _row(point: Point) -> tuple[str, ...]:
    cells = [_load(point)]
    for ratio in (point.end_to_end, point.tpot):
        cells += ["", ""] if ratio is None else [f"{ratio.value:.2f}x", f"{ratio.low:.2f} to {ratio.high:.2f}"]
    same = "" if point.identical_share is None else f"{point.identical_share:.0%}"
    return (*cells, f"{point.pairs:,}", same)


def _load(point: Point) -> str:
    return f"{point.concurrency:,}{'' if point.temperature is None else f' (T={point.temperature:g})'}"


def latencies(profile: Profile) -> Grid:
    """What requests saw, by server."""
    rows = []
    for point in profile.points:
        for name, spoken in _ARMS:
            arm: ArmPoint | None = getattr(point, name)
            if arm is None:
                continue
            rate = "" if arm.output_tokens_per_s is None else f"{arm.output_tokens_per_s:,.0f}"
            times = (_latency(arm.ttft_ms, ".0f"), _latency(arm.tpot_ms, ".2f"), _latency(arm.end_to_end_ms, ",.0f"))
            rows.append((f"{_load(point)} {spoken}", rate, *times))
    header = ("at once", "tokens/s", "TTFT ms", "TPOT ms", "whole ms")
    return Grid("Latencies, median / 95th percentile", Table(header, tuple(rows)))


def _latency(found: Latency | None, form: str) -> str:
    return "" if found is None else f"{found.median:{form}} / {found.p95:{form}}"


def acceptance(profile: Profile) -> Iterator[Block]:
    """By position, and by class of prompts."""
    counts = profile.acceptance
    if counts is not None and counts.accepted_per_position and counts.drafts:
        yield _by_position(counts)
    lengths = {name: c.acceptance_length for name, c in profile.structure.items()}
    known = {name: length for name, length in lengths.items() if length is not None}
    grid = Grid("Acceptance as counted", acceptance_table(profile))
    if known:
        yield Figure(
            "chart-classes",
            "Acceptance length by kind of prompt",
            "As the server counted it.",
            Bars(
                "acceptance length, tokens a draft",
                tuple((name.replace("_", " "), Reading(length)) for name, length in [*known.items()][:_MOST_BARS]),
                upright=False, start=1.0,
            ),
            grid,
        )  # fmt: skip
    elif counts is not None:
        yield grid


def _by_position(counts: Counts) -> Figure:
    before = (counts.drafts, *counts.accepted_per_position)
    alphas = [now / then if then else 0.0 for then, now in zip(before, counts.accepted_per_position, strict=False)]
    reached = tuple(accumulate(alphas, mul))
    rows = tuple(
        (str(place), f"{alpha:.1%}", f"{whole:.1%}", f"{count:,}")
        for place, (alpha, whole, count) in enumerate(
            zip(alphas, reached, counts.accepted_per_position, strict=True), start=1
        )
    )
    length = counts.acceptance_length
    return Figure(
        "chart-positions",
        "Acceptance by position of the draft token",
        f"Counted over {counts.drafts:,} drafts; a draft yields {length:.2f} tokens, its accepted ones and the "
        "target's own.",
        Bars(
            "share accepted", tuple((str(i), Reading(alpha)) for i, alpha in enumerate(alphas, start=1)),
            upright=True, form=".0%", most=1.05,
        ),
        Grid(
            "Acceptance by position",
            Table(("position", "accepted, if all before were", "this and all before it", "tokens"), rows),
        ),
    )  # fmt: skip


def memory(profile: Profile) -> Grid:
    """What the servers and the driver told of memory, without and with speculation."""
    there = profile.environment
    tokens = (there.kv_tokens_baseline, there.kv_tokens_speculative)
    rows = [("KV cache, tokens", *("not told" if n is None else f"{n:,.0f}" for n in tokens))]
    for name, attribute, form, unit in (
        ("Largest share of it in use", "kv_usage", ".1%", 1.0),
        ("Largest number of waiting requests", "waiting", ",.0f", 1.0),
        ("Largest GPU memory in use, GiB", "gpu_bytes", ",.2f", 2.0**30),
    ):
        most = [
            max((v for w in profile.waves if w.arm == arm and (v := getattr(w, attribute)) is not None), default=None)
            for arm, _ in _ARMS
        ]
        rows.append((name, *("not told" if value is None else f"{value / unit:{form}}" for value in most)))
    return Grid("Memory as the servers told it", Table(("", "without", "with speculation"), tuple(rows)))


def spent(profile: Profile) -> Grid:
    """What the session cost."""
    return Grid("Spent", spent_table(profile))


def waves(profile: Profile) -> Grid:
    """Every wave: some prompts at constant concurrency on one server."""
    rows = tuple(
        (
            f"{place} {wave.arm}: {wave.structure.replace('_', ' ')}",
            f"{wave.concurrency:,}", f"{wave.answered:,} / {wave.prompts:,}", f"{wave.seconds:.1f}",
            "" if wave.output_tokens_per_s is None else f"{wave.output_tokens_per_s:,.0f}",
            "" if wave.tpot_ms is None else f"{wave.tpot_ms.median:.2f}",
        )
        for place, wave in enumerate(profile.waves[:_MOST_WAVES], start=1)
    )  # fmt: skip
    left = len(profile.waves) - len(rows)
    notes = (f"{left:,} more are in the profile itself.",) if left > 0 else ()
    header = ("wave", "at once", "answered", "seconds", "tokens/s", "TPOT ms")
    return Grid("Waves in the order in which they ran", Table(header, rows, notes))
