"""What does a record say in the end: the decision at the asked concurrency, the crossover, and the profile itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from profiler.probe.arm import Spending
from profiler.probe.oddities import oddities
from profiler.probe.profile import (
    Arm,
    Crossover,
    Decision,
    Environment,
    Point,
    Policy,
    Profile,
    Prompts,
    Refused,
    Speculative,
    Spent,
)
from profiler.probe.record import Record
from profiler.probe.settings import ProbeSettings


def build_profile(
    record: Record,
    *,
    status: Literal["complete", "partial"],
    ended: str,
    created: str,
    environment: Environment,
    spending: Mapping[Arm, Spending],
    gpus: int,
    usable: int,
) -> Profile:
    """The profile of what was measured until now."""
    settings, question = record.settings, record.question
    seen = record.settings_seen()
    points = tuple(record.point(setting) for setting in seen)
    sent = {s.index for t in record.waves for s in t.wave.served}
    whole = [s for t in record.waves for s in t.wave.whole]
    return Profile(
        status=status,
        ended=ended,
        created=created,
        target=question.target,
        speculation=_speculative(question.speculation, record),
        environment=environment,
        policy=Policy(
            objective=settings.objective, min_speedup=settings.min_speedup, confidence=settings.confidence
        ),
        prompts=Prompts(
            source=question.source,
            usable=usable,
            sent=len(sent),
            structure=dict(Counter(question.structure[i] for i in sorted(sent)).most_common()),
            max_tokens=settings.max_tokens,
            cut_share=sum(s.finish_reason == "length" for s in whole) / len(whole) if whole else None,
        ),
        decision=decide(record, settings, ended=ended),
        points=points,
        crossover=find_crossover(points, settings),
        acceptance=record.counts(),
        structure=record.structure_counts(),
        waves=record.wave_records(),
        spent={
            arm: Spent(
                start_up_s=s.start_up_s, warm_up_s=s.warm_up_s, measuring_s=s.measuring_s, gpus=gpus,
                gpu_s=gpus * (s.start_up_s + s.warm_up_s + s.measuring_s),
            )
            for arm, s in spending.items()
        },
        refused=(
            *(Refused(what=what, why=why, count=count) for (what, why), count in record.refused.most_common(50)),
            *(Refused(what="a record of the prompts' file", why=why, count=n) for why, n in question.unread.items()),
        ),
        notes=(*record.notes, *oddities(record)),
    )  # fmt: skip


def decide(record: Record, settings: ProbeSettings, *, ended: str) -> Decision:
    """The verdict at the asked concurrency; not decisive where the interval still holds the threshold."""
    setting = settings.main
    deciding = record.deciding(setting)
    if deciding is None:
        counts = record.counts(setting)
        if counts is not None and not record.served("baseline", setting):
            length = counts.acceptance_length
            told = "nothing was drafted" if length is None else f"acceptance length {length:.2f}"
            return Decision(verdict=None, decisive=False, text=f"{told}; without a baseline no speedup is known")
        pairs = len(record.answered("baseline", setting) & record.answered("speculative", setting))
        what = "end to end" if settings.objective == "end_to_end" else "TPOT"
        text = f"no speedup ({what}) can be told from {pairs} prompts answered by both: {ended}"
        return Decision(verdict=None, decisive=False, text=text)
    verdict: Literal["enable", "disable"] = "enable" if deciding.value >= settings.min_speedup else "disable"
    figures = (
        f"{deciding.value:.2f}x ({deciding.low:.2f} to {deciding.high:.2f}) at {setting.concurrency} at once over "
        f"{deciding.pairs} prompts"
    )
    if record.settled(setting) is not None:
        side = "above" if verdict == "enable" else "below"
        return Decision(verdict=verdict, decisive=True, text=f"{figures}: {side} {settings.min_speedup:g}x")
    text = f"{figures}: {settings.min_speedup:g}x is not excluded; {ended}"
    return Decision(verdict=verdict, decisive=False, text=text)


def find_crossover(points: Sequence[Point], settings: ProbeSettings) -> Crossover:
    """The measured concurrencies between which speculation stops to pay end to end."""
    known = sorted(
        (p.concurrency, p.end_to_end.value)
        for p in points
        if p.end_to_end is not None and p.temperature == settings.temperature
    )
    pays = [c for c, value in known if value >= settings.min_speedup]
    largest = max(pays, default=None)
    fails = [c for c, value in known if value < settings.min_speedup and (largest is None or c > largest)]
    return Crossover(pays_at=largest, fails_at=min(fails, default=None))


def speedups_seen(record: Record, settings: ProbeSettings) -> dict[int, float | None]:
    """Concurrency -> deciding speedup at the asked temperature, None where one arm is missing; for planners."""
    return {
        setting.concurrency: record.speedup(setting)
        for setting in record.settings_seen()
        if setting.temperature == settings.temperature
    }


def _speculative(config: Mapping[str, Any] | None, record: Record) -> Speculative:
    counts = record.counts()
    k = None if config is None else config.get("num_speculative_tokens")
    if not isinstance(k, int) and counts is not None and counts.accepted_per_position:
        k = len(counts.accepted_per_position)
    if config is None:
        return Speculative(method=None, num_speculative_tokens=k, draft=None, config=None)
    draft = config.get("model")
    method = config.get("method")
    return Speculative(
        method=method if isinstance(method, str) else "draft_model" if draft else None,
        num_speculative_tokens=k if isinstance(k, int) and 1 <= k <= 64 else None,
        draft=draft if isinstance(draft, str) and method not in ("ngram", "suffix") else None,
        config=dict(config),
    )
