"""How much of what was drafted was accepted, from the counters of any engine version.

V1 engines count drafts, drafted tokens and accepted tokens; the acceptance length is AL = 1 + accepted / drafts and the
per-position counts fall with position and sum to `accepted`. V0 engines (up to 0.6 or so) have no drafts counter and
count an accepted position even after a rejection, so 1 + accepted / drafts is wrong there: they count the emitted
tokens instead, AL = emitted / drafts, with drafts = drafted / k and k from the efficiency gauge,
emitted / (drafts (k + 1)).

An acceptance over no drafts is unknown (None), never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.metrics.scrape import Scrape


@dataclass(frozen=True, slots=True)
class SpeculationCounters:
    """Counts since the server's start, or over a window as the difference of two."""

    drafts: float | None  # None for a V0 engine whose k is not known
    drafted_tokens: float
    accepted_tokens: float
    accepted_per_position: tuple[float, ...] = ()
    emitted_tokens: float | None = None  # V0 only: drafted tokens that were emitted, bonus tokens included

    @property
    def counts_after_rejection(self) -> bool:
        """True for V0 counters, whose `accepted_tokens` is no chain of acceptances."""
        return self.emitted_tokens is not None

    @property
    def acceptance_length(self) -> float | None:
        """AL, tokens per drafted step with the bonus token; None where nothing was drafted or k is not known."""
        if not self.drafts:
            return None
        if self.emitted_tokens is not None:
            return self.emitted_tokens / self.drafts
        return 1.0 + self.accepted_tokens / self.drafts

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted tokens; None where nothing was drafted or acceptance is counted after a rejection."""
        if not self.drafted_tokens or self.counts_after_rejection:
            return None
        return self.accepted_tokens / self.drafted_tokens

    @property
    def num_speculative_tokens(self) -> float | None:
        """Mean drafted tokens per draft: k where k is fixed."""
        return self.drafted_tokens / self.drafts if self.drafts else None

    @property
    def position_rates(self) -> tuple[float, ...] | None:
        """Share of drafts in which position i was accepted (unconditional); None without drafts or positions."""
        if not self.drafts or not self.accepted_per_position:
            return None
        return tuple(count / self.drafts for count in self.accepted_per_position)

    def minus(self, before: SpeculationCounters) -> SpeculationCounters:
        """The counts of the window between two scrapes (negative entries mean that the server restarted)."""
        width = max(len(self.accepted_per_position), len(before.accepted_per_position))
        return SpeculationCounters(
            drafts=None if self.drafts is None or before.drafts is None else self.drafts - before.drafts,
            drafted_tokens=self.drafted_tokens - before.drafted_tokens,
            accepted_tokens=self.accepted_tokens - before.accepted_tokens,
            accepted_per_position=tuple(
                a - b for a, b in zip(_padded(self, width), _padded(before, width), strict=True)
            ),
            emitted_tokens=(
                None if self.emitted_tokens is None else self.emitted_tokens - (before.emitted_tokens or 0.0)
            ),
        )

    def is_negative(self) -> bool:
        """True where any count fell between two scrapes."""
        counts: Sequence[float | None] = (
            self.drafts,
            self.drafted_tokens,
            self.accepted_tokens,
            self.emitted_tokens,
            *self.accepted_per_position,
        )
        return any(count is not None and count < 0 for count in counts)


def _padded(counters: SpeculationCounters, width: int) -> tuple[float, ...]:
    return counters.accepted_per_position + (0.0,) * (width - len(counters.accepted_per_position))


def speculation_counters(
    scrape: Scrape, *, model: str | None = None, num_speculative_tokens: int | None = None
) -> SpeculationCounters | None:
    """The counters of one scrape, summed over engines; None where the server does not speculate.

    `num_speculative_tokens` helps a V0 engine that does not show its efficiency gauge.
    """
    drafted = scrape.total("spec_decode_num_draft_tokens", model=model)
    accepted = scrape.total("spec_decode_num_accepted_tokens", model=model)
    if drafted is None or accepted is None:
        return None
    drafts = scrape.total("spec_decode_num_drafts", model=model)
    emitted = scrape.total("spec_decode_num_emitted_tokens", model=model)
    if drafts is None and emitted is not None:
        k = num_speculative_tokens or _k_from_efficiency(scrape, drafted=drafted, emitted=emitted, model=model)
        return SpeculationCounters(drafted / k if k else None, drafted, accepted, emitted_tokens=emitted)
    positions: dict[int, float] = {}
    for line in scrape.lines("spec_decode_num_accepted_tokens_per_pos", model=model):
        position = line.labels.get("position", "")
        if position.isdecimal():
            positions[int(position)] = positions.get(int(position), 0.0) + line.value
    per_position = tuple(positions.get(i, 0.0) for i in range(max(positions, default=-1) + 1))
    return SpeculationCounters(drafts, drafted, accepted, per_position)


def _k_from_efficiency(scrape: Scrape, *, drafted: float, emitted: float, model: str | None) -> int | None:
    """Solve efficiency = emitted / (drafts (k + 1)), drafted = drafts k for k; the gauge is rounded, k is whole."""
    efficiencies = scrape.values("spec_decode_efficiency", model=model)
    if len(efficiencies) != 1 or not efficiencies[0] > 0.0:
        return None
    drafts = emitted / efficiencies[0] - drafted
    k = round(drafted / drafts) if drafts > 0 else 0
    return k if 1 <= k <= 64 and abs(drafted / drafts - k) < 0.2 else None  # else the gauge contradicts
