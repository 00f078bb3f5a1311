"""How much of the drafts was accepted: by the request's own metrics where the server gives them, else by its counters.

The counters of /metrics are the server's, of all requests; where other requests were answered meanwhile, that is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp

from profiler.errors import EndpointError
from profiler.load import Served
from profiler.load.client import fetch_metrics
from profiler.metrics import Scrape, SpeculationCounters, Window, read_scrape, read_window, request_speculation

_SETTLED_WITHIN_S = 1.0  # counters are written after a step's outputs went out
_LOOK_EVERY_S = 0.1
_MOST_STEPS = 100_000


@dataclass(frozen=True)
class Acceptance:
    """Of one answer, or of the server's whole traffic meanwhile."""

    counters: SpeculationCounters
    source: Literal["request", "metrics"]
    other_traffic: bool = False
    per_step: tuple[int, ...] | None = None  # accepted drafts of each step that drafted

    def told(self) -> dict[str, Any]:
        """As an event has it."""
        counts = self.counters
        return {
            "source": self.source,
            "other_traffic": self.other_traffic,
            "acceptance_length": _rounded(counts.acceptance_length),
            "acceptance_rate": _rounded(counts.acceptance_rate),
            "drafts": counts.drafts,
            "drafted_tokens": counts.drafted_tokens,
            "accepted_tokens": counts.accepted_tokens,
            "position_rates": None if counts.position_rates is None else [round(r, 4) for r in counts.position_rates],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


async def scrape(session: aiohttp.ClientSession) -> Scrape | None:
    """The server's /metrics now; None where there are none."""
    text = await fetch_metrics(session)
    if text is not None:
        with contextlib.suppress(EndpointError):
            return await asyncio.to_thread(read_scrape, text, at_s=time.monotonic())  # a large one takes seconds
    return None


async def acceptance_so_far(session: aiohttp.ClientSession, before: Scrape, *, model: str) -> Acceptance | None:
    """By the counters, while the answer still comes."""
    now = await scrape(session)
    return None if now is None else _by_counters(read_window(before, now, model=model), own_tokens=None)


async def final_acceptance(
    session: aiohttp.ClientSession, before: Scrape | None, served: Served, *, model: str
) -> Acceptance | None:
    """Of a whole answer; None where the server neither tells nor counts, or does not speculate."""
    if served.speculation is not None:
        own = request_speculation(served.speculation)
        if own is not None:
            return Acceptance(own, "request", per_step=_per_step(served.speculation, own))
    if before is None:
        return None
    until, own_tokens = time.monotonic() + _SETTLED_WITHIN_S, served.output_tokens or 0
    while True:
        now = await scrape(session)
        window = None if now is None else read_window(before, now, model=model)
        if window is None or window.speculation is None:
            return None
        generated = window.generation_tokens
        if generated is None or generated >= own_tokens or time.monotonic() > until:
            return _by_counters(window, own_tokens=own_tokens)
        await asyncio.sleep(_LOOK_EVERY_S)


def _by_counters(window: Window, *, own_tokens: int | None) -> Acceptance | None:
    if window.speculation is None or window.restarted:
        return None
    generated = window.generation_tokens
    others = own_tokens is not None and generated is not None and generated > own_tokens
    return Acceptance(window.speculation, "metrics", other_traffic=others)


def _per_step(told: Mapping[str, Any], own: SpeculationCounters) -> tuple[int, ...] | None:
    """The list of detailed metrics, where it agrees with the sums."""
    steps = told.get("per_step_accepted")
    if not isinstance(steps, list) or not 0 < len(steps) <= _MOST_STEPS:
        return None
    if not all(isinstance(step, int) and not isinstance(step, bool) and step >= 0 for step in steps):
        return None
    return tuple(steps) if len(steps) == own.drafts and sum(steps) == own.accepted_tokens else None
