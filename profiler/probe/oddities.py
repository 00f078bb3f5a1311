"""What makes a measurement less than it seems? Told once, of all that was measured, however the session ended."""

from __future__ import annotations

from collections.abc import Iterator

from profiler.load import Wave
from profiler.probe.profile import Arm
from profiler.probe.record import Record
from profiler.probe.settings import Setting

_ALIKE = 0.1  # a tenth more or fewer output tokens is other work, beyond what ties at temperature 0 make of it
_QUEUED = 0.1  # of the asked concurrency
_KEPT_UP = 0.8  # of the asked concurrency; four turnovers keep it above 0.85 (profiler.probe.rounds)
_ARMS: tuple[Arm, Arm] = ("baseline", "speculative")


def oddities(record: Record) -> tuple[str, ...]:
    """One sentence each."""
    return (
        *(note for setting in record.settings_seen() for note in _of_setting(record, setting)),
        *(note for arm in _ARMS for note in _put_off(record, arm)),
    )


def _of_setting(record: Record, setting: Setting) -> Iterator[str]:
    at = f"at {setting.concurrency} at once"
    found, point = record.comparison(setting), record.point(setting)
    if found is not None and abs(found.output_ratio - 1.0) > _ALIKE:
        yield (
            f"with speculation answers were {found.output_ratio:.2f} times as long {at}: the arms did not do the same "
            "work; tokens per second are compared, not latencies"
        )
    if point.identical_share is not None and point.identical_share < 1.0:
        yield (
            f"{point.identical_share:.0%} of the answers at temperature 0 were the same text {at}; the others differ "
            "since sums in another order break ties otherwise (usual in half precision)"
        )
    for arm, measured in (("baseline", point.baseline), ("speculative", point.speculative)):
        in_flight = None if measured is None else measured.mean_in_flight
        if in_flight is not None and in_flight < _KEPT_UP * setting.concurrency:
            waves = [taken.wave for taken in record.waves if taken.arm == arm and taken.setting == setting]
            yield (
                f"{arm}: {in_flight:.1f} requests in flight on average instead of {setting.concurrency}: "
                f"{_why_few(waves)}"
            )
    for arm in _ARMS:
        gauges = [g for t in record.waves if t.arm == arm and t.setting == setting for g in t.wave.gauges]
        waiting = [g.waiting for g in gauges if g.waiting is not None]
        if waiting and sum(waiting) / len(waiting) > _QUEUED * setting.concurrency:
            yield (
                f"{arm}: of {setting.concurrency} requests {sum(waiting) / len(waiting):.1f} waited in the server's "
                "queue on average: it takes fewer at once (--max-num-seqs, or what its KV cache holds), so this is not "
                f"its speed with {setting.concurrency} running"
            )
    counts = point.acceptance
    if counts is not None and counts.drafts and not counts.accepted_tokens:
        yield f"no drafted token at all was accepted {at}: is the drafter of this target, and does it sample rightly?"


def _why_few(waves: list[Wave]) -> str:
    if any(wave.put_off for wave in waves):
        return "requests were put off (see below)"
    answered = sum(len(wave.whole) for wave in waves)
    return f"{answered} answers are too few to keep it up; give more prompts, or a longer --budget if that ended it"


def _put_off(record: Record, arm: Arm) -> Iterator[str]:
    """A limit before the server is what was measured then, where it struck often."""
    served = [s for taken in record.waves if taken.arm == arm for s in taken.wave.served]
    struck = [s for s in served if s.retries or s.retry_after_s is not None]
    if struck:
        answers = sum(taken.wave.put_off for taken in record.waves if taken.arm == arm)
        lost = sum(not s.ok for s in struck)
        waited = sum(s.waited_s for s in struck) / len(struck)
        yield (
            f"{arm}: {len(struck)} of {len(served)} requests were put off (HTTP 429 or 503, {answers} times in all"
            f"{f', {lost} for good' if lost else ''}) and waited {waited:.1f} s on average: latencies are those of the "
            "last sending, but a limit of rate or queue held the concurrency down; raise it, ask the server itself, or "
            "lower --concurrency"
        )
