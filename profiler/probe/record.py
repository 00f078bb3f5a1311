"""What a session has measured so far, and what it says: waves, points paired by prompt, acceptance by class.

Acceptance comes from per-request metrics where the server gives them, else from the counters' difference over a wave; a
wave during which the server restarted has none. Decode tokens are the client's count (the server's usage less each
request's first token), since the counters of a wave with failed requests include what nobody received.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from profiler.load import Served, Wave
from profiler.metrics import request_speculation
from profiler.metrics.speculation import SpeculationCounters
from profiler.probe.comparison import Comparison, RatioInterval, compare, pair, settled
from profiler.probe.profile import Arm, ArmPoint, Counts, Latency, Point, Ratio, WaveRecord
from profiler.probe.rounds import MIXED, WavePlan
from profiler.probe.settings import ProbeSettings, Question, Setting


@dataclass(frozen=True)
class Taken:
    """One wave with where it belongs."""

    arm: Arm
    setting: Setting
    planned: WavePlan
    wave: Wave


@dataclass
class Record:
    """Everything measured; grows wave by wave."""

    question: Question
    settings: ProbeSettings
    waves: list[Taken] = field(default_factory=list)
    looks: dict[Setting, int] = field(default_factory=dict)  # planned looks at each point
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, taken: Taken) -> None:
        """Keep a wave, and count what failed in it by reason."""
        self.waves.append(taken)
        for served in taken.wave.served:
            if served.error is not None:
                what = "a prompt" if served.refused else "a request"
                reason = "longer than the server's context" if served.too_long else served.error[:200]
                self.refused[f"{what} ({taken.arm})", reason] += 1

    def note(self, text: str) -> None:
        """Something that a reader must know, once."""
        if text not in self.notes:
            self.notes.append(text)

    def settings_seen(self) -> list[Setting]:
        """In the order in which they were measured."""
        return list(dict.fromkeys(taken.setting for taken in self.waves))

    def served(self, arm: Arm, setting: Setting) -> list[Served]:
        """All requests of one arm at one setting."""
        return [s for t in self._of(arm, setting) for s in t.wave.served]

    def answered(self, arm: Arm, setting: Setting) -> set[int]:
        """Prompts that this arm answered whole."""
        return {s.index for s in self.served(arm, setting) if s.ok}

    def comparison(self, setting: Setting) -> Comparison | None:
        """Both arms, with intervals widened for the looks planned there."""
        pairs = pair(self.served("baseline", setting), self.served("speculative", setting))
        return compare(pairs, level=self.settings.level, looks=self.looks.get(setting, 1))

    def settled(self, setting: Setting) -> str | None:
        """What the interval says of the threshold."""
        return settled(self.comparison(setting), threshold=self.settings.min_speedup, objective=self.settings.objective)

    def deciding(self, setting: Setting) -> RatioInterval | None:
        """The speedup that the policy asks for; None where it is not known."""
        found = self.comparison(setting)
        if found is None:
            return None
        return found.end_to_end if self.settings.objective == "end_to_end" else found.tpot

    def speedup(self, setting: Setting) -> float | None:
        """Its value; None where it is not known."""
        deciding = self.deciding(setting)
        return None if deciding is None else deciding.value

    def counts(self, setting: Setting | None = None) -> Counts | None:
        """Acceptance over the speculative waves of one setting, or of all at the asked temperature."""
        waves = [
            t
            for t in self.waves
            if t.arm == "speculative"
            and (t.setting == setting if setting else t.setting.temperature == self.settings.temperature)
        ]
        return _joined(wave_counts(t.wave) for t in waves)

    def structure_counts(self) -> dict[str, Counts]:
        """Acceptance by class: of each request where the server tells it, else of waves that hold one class."""
        found: dict[str, list[Counts | None]] = {}
        for taken in self.waves:
            if taken.arm != "speculative" or taken.setting.temperature != self.settings.temperature:
                continue
            by_request = [(self.question.structure[s.index], request_counts(s)) for s in taken.wave.whole]
            if by_request and all(counts is not None for _, counts in by_request):
                for name, counts in by_request:
                    found.setdefault(name, []).append(counts)
            elif taken.planned.structure != MIXED:
                found.setdefault(taken.planned.structure, []).append(wave_counts(taken.wave))
        joined = {name: _joined(counts) for name, counts in sorted(found.items())}
        return {name: counts for name, counts in joined.items() if counts is not None}

    def point(self, setting: Setting) -> Point:
        """What was measured at one setting."""
        base, spec = self.served("baseline", setting), self.served("speculative", setting)
        found, both = self.comparison(setting), pair(base, spec)
        indices = {s.index for s in base if s.ok} & {s.index for s in spec if s.ok} if base else set()
        of_spec = [s for s in spec if s.ok and (s.index in indices or not base)]
        plan = self.settings.plan("", setting.temperature)
        sent = [plan.sent_temperature(self.question.prompts[s.index]) for s in of_spec]
        known = [t for t in sent if t is not None]
        greedy = bool(sent) and len(known) == len(sent) and max(known) == 0.0
        inputs = [float(s.input_tokens) for s in of_spec if s.input_tokens]
        outputs = [float(s.output_tokens) for s in of_spec if s.output_tokens]
        looks = self.looks.get(setting, 1)
        verdict = self.settled(setting)
        return Point(
            concurrency=setting.concurrency,
            temperature=setting.temperature,
            sent_temperature=float(np.median(known)) if known and len(known) == len(sent) else None,
            pairs=len(both),
            input_tokens=float(np.mean(inputs)) if inputs else None,
            output_tokens=float(np.mean(outputs)) if outputs else None,
            end_to_end=None if found is None else _ratio(found.end_to_end, looks),
            tpot=None if found is None or found.tpot is None else _ratio(found.tpot, looks),
            settled="faster" if verdict == "faster" else "not faster" if verdict == "not faster" else None,
            identical_share=found.identical_share if found is not None and greedy else None,
            output_ratio=None if found is None else found.output_ratio,
            slower_end_to_end=None if found is None else found.slower_end_to_end,
            slower_tpot=None if found is None else found.slower_tpot,
            baseline=self._arm_point("baseline", setting, indices),
            speculative=self._arm_point("speculative", setting, indices or {s.index for s in of_spec}),
            acceptance=self.counts(setting),
        )

    def wave_records(self) -> tuple[WaveRecord, ...]:
        """Every wave as the profile has it."""
        return tuple(wave_record(taken) for taken in self.waves)

    def _of(self, arm: Arm, setting: Setting) -> list[Taken]:
        return [t for t in self.waves if t.arm == arm and t.setting == setting]

    def _arm_point(self, arm: Arm, setting: Setting, indices: set[int]) -> ArmPoint | None:
        waves = [t.wave for t in self._of(arm, setting)]
        whole = [s for wave in waves for s in wave.whole if s.index in indices]
        if not whole:
            return None
        rates = [rate for wave in waves if (rate := wave.output_tokens_per_s) is not None]
        seconds = sum(wave.seconds for wave in waves)
        in_flight = sum((wave.mean_in_flight or 0.0) * wave.seconds for wave in waves)
        return ArmPoint(
            waves=len(waves),
            output_tokens_per_s=float(np.median(rates)) if rates else None,
            mean_in_flight=in_flight / seconds if seconds > 0 else None,
            ttft_ms=latency(s.ttft_ms for s in whole),
            tpot_ms=latency(s.tpot_ms for s in whole),
            end_to_end_ms=latency(s.end_to_end_ms for s in whole),
        )


def request_counts(served: Served) -> Counts | None:
    """What the server tells of one request's drafts."""
    if served.speculation is None or served.output_tokens is None:
        return None
    found = request_speculation(served.speculation)
    return None if found is None else _counts(found, served.output_tokens - 1)


def wave_counts(wave: Wave) -> Counts | None:
    """Acceptance of one wave; None where nobody tells it."""
    whole = wave.whole
    told = [request_counts(s) for s in whole]
    if whole and all(counts is not None for counts in told):
        return _joined(told)
    window = wave.window
    if window is None or window.speculation is None or window.restarted:
        return None
    if (len(whole) == len(wave.served) and not wave.abandoned) or window.decode_tokens is None:
        decode = float(sum(max((s.output_tokens or 0) - 1, 0) for s in whole))
    else:
        decode = window.decode_tokens
    return _counts(window.speculation, decode)


def _counts(found: SpeculationCounters, decode_tokens: float) -> Counts | None:
    if found.drafts is None or found.counts_after_rejection or found.is_negative():
        return None
    return Counts(
        drafts=round(found.drafts),
        drafted_tokens=round(found.drafted_tokens),
        accepted_tokens=round(found.accepted_tokens),
        accepted_per_position=tuple(round(count) for count in found.accepted_per_position),
        decode_tokens=round(max(decode_tokens, 0.0)),
    )


def _joined(counts: Iterable[Counts | None]) -> Counts | None:
    known = [c for c in counts if c is not None]
    if not known:
        return None
    width = max(len(c.accepted_per_position) for c in known)
    complete = all(c.accepted_per_position or not c.accepted_tokens for c in known)
    positions = np.zeros(width, dtype=np.int64)
    for c in known:
        positions[: len(c.accepted_per_position)] += np.array(c.accepted_per_position, dtype=np.int64)
    return Counts(
        drafts=sum(c.drafts for c in known),
        drafted_tokens=sum(c.drafted_tokens for c in known),
        accepted_tokens=sum(c.accepted_tokens for c in known),
        accepted_per_position=tuple(positions.tolist()) if complete else (),
        decode_tokens=sum(c.decode_tokens for c in known),
    )


def latency(values_ms: Iterable[float | None]) -> Latency | None:
    """Mean, median and 95th percentile of what is known; None without any."""
    known = [value for value in values_ms if value is not None]
    if not known:
        return None
    median, p95 = np.percentile(known, [50, 95])
    return Latency(mean=float(np.mean(known)), median=float(median), p95=float(p95))


def _ratio(found: RatioInterval, looks: int) -> Ratio:
    return Ratio(
        value=found.value, low=found.low, high=found.high, level=found.level, looks=looks, log_sd=found.log_sd,
        pairs=found.pairs,
    )  # fmt: skip


def wave_record(taken: Taken) -> WaveRecord:
    """A wave as the profile has it."""
    wave, whole = taken.wave, taken.wave.whole
    return WaveRecord(
        arm=taken.arm,
        concurrency=taken.setting.concurrency,
        temperature=taken.setting.temperature,
        structure=taken.planned.structure,
        prompts=len(taken.planned.prompts),
        answered=len(whole),
        failed=len(wave.served) - len(whole),
        put_off=wave.put_off,
        seconds=wave.seconds,
        mean_in_flight=wave.mean_in_flight,
        output_tokens=sum(s.output_tokens or 0 for s in whole),
        output_tokens_per_s=wave.output_tokens_per_s,
        ttft_ms=latency(s.ttft_ms for s in whole),
        tpot_ms=latency(s.tpot_ms for s in whole),
        end_to_end_ms=latency(s.end_to_end_ms for s in whole),
        running=_mean([g.running for g in wave.gauges]),
        waiting=max((g.waiting for g in wave.gauges if g.waiting is not None), default=None),
        kv_usage=max((g.kv_usage for g in wave.gauges if g.kv_usage is not None), default=None),
        gpu_bytes=max(wave.gpu_bytes, default=None),
        speculation=wave_counts(wave) if taken.arm == "speculative" else None,
        stopped_early=wave.stopped_early,
        notes=wave.notes,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
