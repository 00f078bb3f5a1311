"""A wave: some prompts at constant concurrency (closed loop), with the server's counters before and after it.

Each worker sends its next prompt as soon as its last answer is whole, so `concurrency` requests are in flight until the
prompts run out. Throughput is taken over the steady part: from the moment when all workers are busy to the first moment
when one has nothing left to send; a wave too short for that takes its whole length, and says so. A wave that something
breaks into (Ctrl-C, a listener that fails) hands over what was answered until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import numpy as np

from profiler.errors import EndpointError
from profiler.load.client import Served, fetch_metrics, serve_one
from profiler.load.patience import Patience
from profiler.load.request import RequestPlan
from profiler.metrics import Gauges, Scrape, Window, read_gauges, read_scrape, read_window
from profiler.prompts.sample import Prompt

RESTARTED = "the server restarted during the wave, or several answer at its address"
BUDGET_ENDED = "the budget ended"
INTERRUPTED = "interrupted"  # why a wave that was broken into stopped early
_LAST_LOOK_S = 2.0  # for the counters of a wave that was broken into: whoever stops us does not want to wait
SAMPLE_EVERY_S = 1.0  # how often gauges are read during a wave; a scrape of a busy vLLM takes 5 to 20 ms


@dataclass(frozen=True)
class Wave:
    """What one wave measured. `served` is in the order of the prompts, failed requests included."""

    concurrency: int
    served: tuple[Served, ...]
    started_s: float
    seconds: float
    window: Window | None = None  # the server's counters over the wave; None without /metrics
    gauges: tuple[Gauges, ...] = ()  # sampled while it ran
    stopped_early: str | None = None  # why prompts were left unsent
    notes: tuple[str, ...] = field(default=())
    gpu_bytes: tuple[int, ...] = ()  # GPU memory in use, sampled while it ran
    abandoned: int = 0  # requests that were in flight when the wave was broken into: in the counters, not in `served`

    never_taken: int = 0  # answers "not now" to requests that the budget's end left untaken

    @property
    def put_off(self) -> int:
        """Answers "not now" (HTTP 429, 503), each followed by another sending of the request or by its failure."""
        return self.never_taken + sum(s.retries + (s.retry_after_s is not None) for s in self.served)

    @property
    def whole(self) -> list[Served]:
        """The requests that were answered to the end."""
        return [s for s in self.served if s.ok]

    @property
    def output_tokens_per_s(self) -> float | None:
        """Output tokens per second over the steady part, each answer's tokens spread evenly over its decoding."""
        whole = [s for s in self.whole if s.output_tokens]
        if not whole:
            return None
        begin, end = self.steady_span()
        if end <= begin:
            begin, end = self.started_s, self.started_s + self.seconds
        tokens = 0.0
        for s in whole:
            first = s.started_s + (s.ttft_ms or 0.0) / 1000.0
            last = s.finished_s or first
            inside = max(0.0, min(last, end) - max(first, begin))
            count = float(s.output_tokens or 0)
            tokens += count * (inside / (last - first)) if last > first else count * (begin <= first < end)
        return tokens / (end - begin) if end > begin else None

    @property
    def mean_in_flight(self) -> float | None:
        """Requests in flight on average: below `concurrency` by what the ramp and the tail of the wave cost."""
        times = [s.end_to_end_ms for s in self.served if s.end_to_end_ms is not None]
        return sum(times) / 1000.0 / self.seconds if times and self.seconds > 0 else None

    def steady_span(self) -> tuple[float, float]:
        """Monotonic times between which all workers were busy; empty (end <= begin) for a single round."""
        starts = np.sort([s.started_s for s in self.served])
        finishes = np.sort([s.finished_s for s in self.served if s.finished_s is not None])
        if len(starts) <= self.concurrency or not len(finishes):
            return self.started_s, self.started_s
        # The last start marks the last moment at which a worker found something to send.
        return float(starts[self.concurrency - 1]), float(starts[-1])


async def run_wave(
    session: aiohttp.ClientSession,
    plan: RequestPlan,
    prompts: Sequence[tuple[int, Prompt]],
    *,
    concurrency: int,
    deadline_s: float | None = None,
    max_failures: int = 5,
    on_served: Callable[[Served], None] | None = None,
    with_metrics: bool = True,
    answer_limits: Mapping[int, int] | None = None,
    read_gpu_bytes: Callable[[], int | None] | None = None,
    on_sample: Callable[[Gauges, Window], None] | None = None,
    on_cut: Callable[[Wave], None] | None = None,
    patience: Patience | None = None,
) -> Wave:
    """Send the prompts, `concurrency` at a time, and read the counters around them.

    Args:
        session: from `Endpoint.session()`.
        plan: how prompts become requests.
        prompts: (index in the sample, prompt), sent in this order.
        concurrency: requests in flight.
        deadline_s: monotonic time after which nothing new is sent; what is in flight is finished.
        max_failures: failures in a row after which the wave stops: the server is gone or refuses everything.
        on_served: called with each finished request.
        with_metrics: read /metrics before, during and after.
        answer_limits: index of a prompt -> longest answer that the context leaves for it.
        read_gpu_bytes: GPU memory in use now; None where it cannot be told.
        on_sample: called about once a second with the gauges and the counters since the wave's start.
        on_cut: called with what was measured until then where an exception or a cancellation ends the wave.
        patience: with requests that the server puts off.
    """
    before = await _scrape(session) if with_metrics else None
    queue, limits = iter(prompts), answer_limits or {}
    served: list[Served] = []
    patience = patience or Patience()
    failures = put_off = sent = 0
    stopped: str | None = None
    started = time.monotonic()

    async def worker() -> None:
        nonlocal failures, put_off, sent, stopped
        for index, prompt in queue:  # one iterator shared by all workers: each prompt is sent once
            if stopped is not None:
                return
            if deadline_s is not None and time.monotonic() > deadline_s:
                stopped = BUDGET_ENDED
                return
            sent += 1
            record = await serve_one(
                session, plan, prompt, index=index, max_tokens=limits.get(index), patience=patience, until_s=deadline_s
            )
            if patience.ran_out_of_time(record, record.retries):
                sent -= 1  # it was never taken on
                put_off += 1 + record.retries
                stopped = BUDGET_ENDED
                return
            served.append(record)
            if not record.refused:  # a bad request says nothing about the server
                failures = 0 if record.ok else failures + 1
            if on_served is not None:
                on_served(record)
            if failures >= max_failures:
                stopped = f"{failures} requests failed in a row: {record.error}"
                return

    gauges: list[Gauges] = []
    gpu_bytes: list[int] = []

    async def sample() -> None:
        while True:
            await asyncio.sleep(SAMPLE_EVERY_S)
            used = read_gpu_bytes() if read_gpu_bytes is not None else None
            if used is not None:
                gpu_bytes.append(used)
            scrape = await _scrape(session) if before is not None else None
            if scrape is None:
                continue
            gauges.append(read_gauges(scrape))
            if on_sample is not None:
                on_sample(gauges[-1], read_window(before, scrape))

    def wave(after: Scrape | None, *, ended_s: float, stopped_early: str | None) -> Wave:
        window = read_window(before, after) if before is not None and after is not None else None
        return Wave(
            concurrency=concurrency,
            served=tuple(sorted(served, key=lambda s: s.index)),
            started_s=started,
            seconds=ended_s - started,
            window=window,
            gauges=tuple(gauges),
            gpu_bytes=tuple(gpu_bytes),
            stopped_early=stopped_early,
            notes=(RESTARTED,) if window is not None and window.restarted else (),
            abandoned=sent - len(served),
            never_taken=put_off,
        )

    sampler = asyncio.create_task(sample())
    workers = [asyncio.create_task(worker()) for _ in range(min(concurrency, len(prompts)))]
    try:
        await asyncio.gather(*workers)
    except BaseException:
        await _cancel(*workers, sampler)
        ended_s = time.monotonic()
        if on_cut is not None:
            after = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_LOOK_S):
                    after = await _scrape(session) if before is not None else None
            on_cut(wave(after, ended_s=ended_s, stopped_early=INTERRUPTED))
        raise
    await _cancel(sampler)
    ended_s = time.monotonic()
    return wave(await _scrape(session) if before is not None else None, ended_s=ended_s, stopped_early=stopped)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    """End tasks and take what they raise."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _scrape(session: aiohttp.ClientSession) -> Scrape | None:
    text = await fetch_metrics(session)
    if text is None:
        return None
    with contextlib.suppress(EndpointError):
        return read_scrape(text, at_s=time.monotonic())
    return None
