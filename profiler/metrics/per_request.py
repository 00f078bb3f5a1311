"""How much of one request's drafts was accepted, from the metrics that newer servers put into a response.

`--enable-per-request-metrics --per-request-spec-decode-metrics summary|detailed` (about 0.32 on) adds
`metrics.speculative_decoding` to a response, or to the last event of a stream; relays were seen to hand the same object
on as `metrics` itself. Its histogram counts steps by how many of their drafts were accepted, so position i was accepted
in all steps that accepted more than i: the counts per position are sums from there on, not the histogram's own entries.

Refuses nothing: a response without these counts, or with counts that contradict each other, has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from profiler.metrics.speculation import SpeculationCounters


def request_speculation(response: Mapping[str, Any]) -> SpeculationCounters | None:
    """The counts of one request; None where the server does not tell them.

    Args:
        response: a whole response, the last event of a stream, or the object inside that has the counts.
    """
    found = _counts(response)
    if found is None:
        return None
    drafts = _count(found.get("num_spec_steps"))
    drafted = _count(found.get("num_draft_tokens"))
    accepted = _count(found.get("num_accepted_draft_tokens"))
    if drafts is None or drafted is None or accepted is None or accepted > drafted:
        return None
    per_position = _accepted_per_position(found.get("acceptance_histogram"), steps=drafts, accepted=accepted)
    return SpeculationCounters(drafts, drafted, accepted, per_position)


def _counts(response: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for name in ("metrics", "speculative_decoding"):
        inner = response.get(name)
        if isinstance(inner, Mapping):
            response = inner
    return response if "num_draft_tokens" in response else None


def _count(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _accepted_per_position(histogram: object, *, steps: float, accepted: float) -> tuple[float, ...]:
    """Steps that accepted more than i drafts, for each i; empty where the histogram is not of these steps."""
    if not isinstance(histogram, list):
        return ()
    counts = [_count(entry) for entry in histogram]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or sum(known) != steps or sum(i * n for i, n in enumerate(known)) != accepted:
        return ()
    return tuple(math.fsum(known[i + 1 :]) for i in range(len(known) - 1))
