"""How is a profile told on a terminal: the decision, a table of what was measured, acceptance by class, and notes."""

from __future__ import annotations

from api.report.content import Points, Report, Section, Table
from api.report.terminal import print_report
from profiler.probe.profile import ArmPoint, Counts, Latency, Point, Profile, Ratio


def print_profile(profile: Profile) -> None:
    """Print it."""
    print_report(profile_report(profile))


def profile_report(profile: Profile) -> Report:
    """What is told of a profile, in which order."""
    decision = profile.decision
    verdict = {"enable": "Enable speculation", "disable": "Leave speculation off", None: "No verdict"}[decision.verdict]
    sure = "" if decision.decisive or decision.verdict is None else ", but this is not decided"
    sections = [Section("Measured", _points(profile.points))]
    if profile.acceptance is not None or profile.structure:
        sections.append(Section("Acceptance", acceptance_table(profile)))
    sections.append(Section("Spent", spent_table(profile)))
    lines = [*_crossover(profile), *profile.notes, *(f"{r.count} x {r.what}: {r.why}" for r in profile.refused)]
    if lines:
        sections.append(Section("To know", Points(tuple(lines))))
    return Report(
        headline=f"{verdict}{sure}: {decision.text}",
        enable=decision.verdict == "enable",
        decisive=decision.decisive,
        sections=tuple(sections),
    )


def _points(points: tuple[Point, ...]) -> Table:
    header = ("at once", "end to end", "90 %", "TPOT", "TPOT ms", "TTFT ms", "tokens/s", "AL", "prompts")
    level = next((p.end_to_end.level for p in points if p.end_to_end is not None), 0.9)
    header = (*header[:2], f"{level:.0%}", *header[3:])
    rows = []
    for p in points:
        heat = "" if p.temperature is None else f" T={p.temperature:g}"
        length = p.acceptance.acceptance_length if p.acceptance is not None else None
        rows.append((
            f"{p.concurrency:,}{heat}",
            f"{p.end_to_end.value:.2f}x" if p.end_to_end else "",
            _range(p.end_to_end),
            f"{p.tpot.value:.2f}x" if p.tpot else "",
            _both(p.baseline, p.speculative, "tpot_ms", ".2f"),
            _both(p.baseline, p.speculative, "ttft_ms", ".0f"),
            _rates(p.baseline, p.speculative),
            f"{length:.2f}" if length else "",
            f"{p.pairs:,}",
        ))  # fmt: skip
    return Table(header, tuple(rows))


def _range(ratio: Ratio | None) -> str:
    return f"{ratio.low:.2f} to {ratio.high:.2f}" if ratio else ""


def _both(base: ArmPoint | None, spec: ArmPoint | None, name: str, form: str) -> str:
    def one(arm: ArmPoint | None) -> str:
        found: Latency | None = getattr(arm, name) if arm is not None else None
        return f"{found.median:{form}}" if found is not None else "-"

    return f"{one(base)} / {one(spec)}"


def _rates(base: ArmPoint | None, spec: ArmPoint | None) -> str:
    shown = (f"{a.output_tokens_per_s:,.0f}" if a and a.output_tokens_per_s else "-" for a in (base, spec))
    return " / ".join(shown)


def acceptance_table(profile: Profile) -> Table:
    """What was accepted, of all prompts and by class."""
    rows = [_counts("all", profile.acceptance)] if profile.acceptance is not None else []
    rows += [_counts(name, counts) for name, counts in profile.structure.items()]
    return Table(("prompts", "AL", "tokens/step", "accepted", "drafts"), tuple(rows))


def _counts(name: str, counts: Counts) -> tuple[str, ...]:
    length, per_step = counts.acceptance_length, counts.tokens_per_step
    return (
        name.replace("_", " "),
        f"{length:.2f}" if length else "",
        f"{per_step:.2f}" if per_step else "",
        f"{counts.accepted_tokens / counts.drafted_tokens:.0%}" if counts.drafted_tokens else "",
        f"{counts.drafts:,}",
    )


def spent_table(profile: Profile) -> Table:
    """What each server cost."""
    rows = tuple(
        (arm, f"{s.start_up_s:.0f}", f"{s.warm_up_s:.1f}", f"{s.measuring_s:.1f}", f"{s.gpu_s:.0f}")
        for arm, s in profile.spent.items()
    )
    return Table(("server", "start s", "warm-up s", "measuring s", "GPU s"), rows)


def _crossover(profile: Profile) -> list[str]:
    found = profile.crossover
    if found.pays_at is not None and found.fails_at is not None:
        return [f"It pays up to somewhere between {found.pays_at:,} and {found.fails_at:,} requests at once."]
    return []
