"""From the readings of one server to what they say: rates, levels, lengths, latencies, acceptance.

The window lies between the first and the last reading. A restart inside voids all that was read before it, and is said.
Levels (running, waiting, KV use) are over the readings; counts, lengths and latencies are differences of counters and
histograms. The same totals since the server's start stand beside them, for windows in which little happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from profiler.metrics import Distribution, Gauges, Scrape, SpeculationCounters, Window, read_gauges, read_window
from profiler.observe.observation import Levels, Observation, ObservedSpeculation, Rates, Spread, Totals
from profiler.observe.served import choose_model
from profiler.observe.watch import Watched


def summarise(
    watched: Watched, *, model: str | None = None, method: str | None = None, num_speculative_tokens: int | None = None
) -> Observation:
    """The observation; `method` and `num_speculative_tokens` are what the observer knows of the drafter."""
    chosen = choose_model(watched.scrapes[-1], model)
    scrapes, restarted = _since_restart(watched.scrapes, model=chosen)
    last = scrapes[-1]
    window = read_window(
        scrapes[0] if len(scrapes) > 1 else None, last, model=chosen, num_speculative_tokens=num_speculative_tokens
    )
    since_start = read_window(None, last, model=chosen, num_speculative_tokens=num_speculative_tokens)
    gauges = [read_gauges(scrape, model=chosen) for scrape in scrapes]
    counted = _totals(window, method=method)
    return Observation(
        **dict(counted),
        url=watched.url,
        observed_at=datetime.now(UTC).replace(microsecond=0),
        seconds=None if window.seconds is None else round(window.seconds, 3),
        readings=len(watched.scrapes),
        engine_version=watched.engine_version,
        model=chosen,
        engines=gauges[-1].engines,
        adapters=_adapters(gauges),
        restarted=restarted,
        rates=_rates(window),
        running=_levels([g.running for g in gauges]),
        waiting=_levels([g.waiting for g in gauges]),
        kv_usage=_levels([g.kv_usage for g in gauges]),
        kv_tokens=_whole(gauges[-1].kv_tokens),
        since_start=_totals(since_start, method=method),
        notes=tuple(_notes(watched, counted, restarted=restarted)),
    )


def _totals(window: Window, *, method: str | None) -> Totals:
    return Totals(
        requests=_whole(window.requests),
        prompt_tokens=_whole(window.prompt_tokens),
        generation_tokens=_whole(window.generation_tokens),
        input_tokens=_spread(window.input_tokens),
        output_tokens=_spread(window.output_tokens),
        ttft_ms=_spread(window.ttft_ms),
        tpot_ms=_spread(window.tpot_ms),
        end_to_end_ms=_spread(window.end_to_end_ms),
        prefix_hit_share=window.prefix_hit_share,
        preemptions=_whole(window.preemptions),
        speculation=_speculation(window.speculation, window, method=method),
    )


def _since_restart(scrapes: Sequence[Scrape], *, model: str | None) -> tuple[Sequence[Scrape], bool]:
    """The readings from the last restart on, and whether there was one."""
    begin = 0
    for place, (before, after) in enumerate(pairwise(scrapes), start=1):
        if read_window(before, after, model=model).restarted:
            begin = place
    return scrapes[begin:], begin > 0


def _rates(window: Window) -> Rates:
    def rate(count: float | None) -> float | None:
        return None if count is None or not window.seconds else round(count / window.seconds, 4)

    return Rates(
        requests_per_s=rate(window.requests),
        prompt_tokens_per_s=rate(window.prompt_tokens),
        output_tokens_per_s=rate(window.generation_tokens),
    )


def _levels(values: Iterable[float | None]) -> Levels | None:
    known = np.array([value for value in values if value is not None])
    if not known.size:
        return None
    busy = known[known > 0]
    return Levels(
        mean=round(float(known.mean()), 4),
        p95=round(float(np.percentile(known, 95)), 4),
        most=float(known.max()),
        busy_mean=round(float(busy.mean()), 4) if busy.size else None,
    )


def _spread(distribution: Distribution | None) -> Spread | None:
    mean = None if distribution is None else distribution.mean
    if distribution is None or mean is None:
        return None
    p95 = distribution.quantile(0.95)
    return Spread(count=round(distribution.count), mean=round(mean, 3), p95=None if p95 is None else round(p95, 3))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _adapters(gauges: Sequence[Gauges]) -> tuple[str, ...]:
    """Adapters that ran at any reading, or lie loaded at the last."""
    return tuple(sorted({name for g in gauges for name in g.adapters} | set(gauges[-1].adapters_loaded)))


def _speculation(
    counted: SpeculationCounters | None, window: Window, *, method: str | None
) -> ObservedSpeculation | None:
    if counted is None:
        return None
    return ObservedSpeculation(
        method=method,
        drafts=_whole(counted.drafts),
        drafted_tokens=round(counted.drafted_tokens),
        accepted_tokens=None if counted.counts_after_rejection else round(counted.accepted_tokens),
        accepted_per_position=tuple(round(count) for count in counted.accepted_per_position),
        decode_tokens=_whole(window.decode_tokens),
        num_speculative_tokens=counted.num_speculative_tokens,
        acceptance_length=counted.acceptance_length,
        acceptance_rate=counted.acceptance_rate,
        position_rates=counted.position_rates,
        tokens_per_step=window.tokens_per_step,
    )


def _notes(watched: Watched, counted: Totals, *, restarted: bool) -> Iterable[str]:
    if restarted:
        yield "the server restarted inside the window: only what came after is counted"
    if watched.cut_short:
        yield "the window was ended early"
    if watched.failed_readings:
        yield f"{watched.failed_readings} readings failed, the last one so: {watched.last_failure}"
    if counted.output_tokens is None:
        yield "no request ended inside the window, so it tells no lengths"
    if counted.speculation is not None:
        if not counted.speculation.drafted_tokens:
            yield "the server speculates, but drafted nothing inside the window, so it tells no acceptance"
        if counted.speculation.accepted_tokens is None:
            yield "this engine counts acceptances after a rejection, too: only its acceptance length is told"
