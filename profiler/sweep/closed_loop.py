"""What does one cell cost? Requests at constant concurrency, measured while the loop is steady.

The loop keeps c requests in flight: whenever one ends, the next is submitted at once. A loop that starts with c fresh
requests stays in step for good (all prefill together, all end together), which no real server does. So they start one
by one, each when those before it have together written what they would have at ages n/c tokens apart (n is the length
of an output): the loop is full after about one cycle, and requests then end one after the other, evenly spread.

1. Fill. The c first requests are submitted one by one and prefilled; they warm the kernels of this shape.
2. Settle. On until `settle_s` has passed since the last of them had its first token, and a request ends.
3. Measure. In windows of whole cycles, a cycle being c requests ended: a part of a cycle holds too many or too few
   prefills for its tokens. A window lasts at least `window_s` and ends as a cycle ends. Enough are `least_windows`,
   `least_s` and `least_cycles` together. A cell that takes longer than its time limit ends with what it has: `most_s`,
   or `limit_cycles` cycles where those take longer, but never above `longest_s`.

Every window is a repeat, and their spread is kept. Per-request latencies are those of requests submitted after step 3
began. Counters are differences over step 3. Step times are the intervals between the engine's outputs as the caller
sees them: their median is a decode step undisturbed by prefill wherever fewer than half of the steps carry one.

What a slot asks next is the traffic's (traffic.py): random tokens of one length, or real prompts. `ended_by` says why a
cell ended: "enough", its own "limit", or the sweep's "deadline". When not one whole cycle was through by then, the part
is returned as the only window; None when no request ended at all. Nothing is refused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from profiler.sweep.grid import Point
from profiler.sweep.traffic import RandomPrompts, Request, Traffic

PROTOCOL_VERSION = 2


@dataclass(frozen=True, slots=True)
class Finished:
    """One request's end; times in seconds from its submission (TTFT) and from first to last token (decode)."""

    request_id: str
    output_tokens: int
    ttft_s: float
    decode_s: float
    token_ids: Sequence[int] = ()  # the answer, where the engine keeps it


@dataclass(frozen=True, slots=True)
class Counters:
    """The engine's running totals; accepted_per_position is empty without speculation."""

    generation_tokens: int = 0
    prompt_tokens: int = 0
    first_tokens: int = 0
    steps: int = 0  # engine steps that put out a token
    decode_steps: int = 0  # steps of each request after its first token, over all requests; 0 where not counted
    drafts: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: tuple[int, ...] = ()
    preemptions: int = 0
    cached_prompt_tokens: int = 0

    def minus(self, before: Counters) -> Counters:
        """What was counted since `before`."""
        pairs = zip(self.accepted_per_position, before.accepted_per_position, strict=True)
        return Counters(
            generation_tokens=self.generation_tokens - before.generation_tokens,
            prompt_tokens=self.prompt_tokens - before.prompt_tokens,
            first_tokens=self.first_tokens - before.first_tokens,
            steps=self.steps - before.steps,
            decode_steps=self.decode_steps - before.decode_steps,
            drafts=self.drafts - before.drafts,
            drafted_tokens=self.drafted_tokens - before.drafted_tokens,
            accepted_tokens=self.accepted_tokens - before.accepted_tokens,
            accepted_per_position=tuple(now - then for now, then in pairs),
            preemptions=self.preemptions - before.preemptions,
            cached_prompt_tokens=self.cached_prompt_tokens - before.cached_prompt_tokens,
        )


class LoadedEngine(Protocol):
    """What the loop needs of an engine."""

    def submit(self, request_id: str, prompt: list[int], *, output_tokens: int, temperature: float) -> None:
        """Queue one request that writes `output_tokens`; at most, where the engine lets the model end an answer."""

    def step(self) -> list[Finished]:
        """Wait for the engine's next output; the requests that it ended."""

    def running_ttft_s(self) -> dict[str, float]:
        """TTFT of the requests that have a first token and still run."""

    def abort_all(self) -> None:
        """Drop everything in flight."""

    def counters(self) -> Counters:
        """Totals since the engine started."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a cell may take; the defaults measure three cycles, or 1.5 s where those are shorter."""

    settle_s: float = 0.1
    window_s: float = 0.5
    least_windows: int = 3
    least_s: float = 1.5
    most_s: float = 6.0
    least_cycles: int = 3
    limit_cycles: float = 4.0
    longest_s: float = 30.0

    def limit_s(self, cycle_s: float | None) -> float:
        """The time limit of a cell whose cycles take that long; None while no cycle was seen."""
        return self.longest_s if cycle_s is None else min(max(self.most_s, self.limit_cycles * cycle_s), self.longest_s)


@dataclass(slots=True)
class CellMeasurement:
    """All that was seen of one cell. Arrays in seconds; one entry per request, window or step."""

    ended_by: Literal["enough", "limit", "deadline"]
    fill_s: float
    measured_s: float
    completions: int
    counters: Counters
    answer_tokens: int = 0  # written by the requests that ended, from their beginning
    windows: list[tuple[float, int]] = field(default_factory=list)  # seconds, generated tokens
    ttft_s: list[float] = field(default_factory=list)
    timed: list[Finished] = field(default_factory=list)
    e2e_s: list[float] = field(default_factory=list)
    step_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


def measure_cell(
    engine: LoadedEngine, point: Point, *, vocab_size: int, rng: np.random.Generator, limits: Limits,
    deadline: float = math.inf, clock: Callable[[], float] = time.monotonic, on_step: Callable[[], None] = lambda: None,
) -> CellMeasurement | None:  # fmt: skip
    """Measure random prompts; see `measure_traffic`."""
    traffic = RandomPrompts(point, vocab_size=vocab_size, rng=rng)
    return measure_traffic(engine, traffic, limits=limits, deadline=deadline, clock=clock, on_step=on_step)


def measure_traffic(
    engine: LoadedEngine, traffic: Traffic, *, limits: Limits, deadline: float = math.inf,
    clock: Callable[[], float] = time.monotonic, on_step: Callable[[], None] = lambda: None,
) -> CellMeasurement | None:  # fmt: skip
    """Run one cell on an idle engine and leave it idle; `deadline` is a reading of `clock`."""
    loop = _Loop(engine, traffic, clock, on_step)
    try:
        fill_s = loop.fill(deadline)
        if not loop.settle(limits.settle_s, deadline):
            return None
        return loop.measure(fill_s, limits, deadline)
    finally:
        engine.abort_all()


class _Loop:
    """The slots of one cell."""

    def __init__(
        self, engine: LoadedEngine, traffic: Traffic, clock: Callable[[], float], on_step: Callable[[], None]
    ) -> None:
        self.engine, self.traffic, self.clock, self.on_step = engine, traffic, clock, on_step
        self.submitted: dict[str, tuple[int, float, Request]] = {}  # slot and time of each in flight
        self.ids = count()

    def submit(self, slot: int) -> None:
        request_id = f"s{slot}-{next(self.ids)}"
        request = self.traffic.next_request(slot)
        self.submitted[request_id] = (slot, self.clock(), request)
        self.engine.submit(
            request_id, request.prompt, output_tokens=request.output_tokens, temperature=request.temperature
        )

    def step(self) -> list[tuple[Finished, float]]:
        """One engine output; ended requests are replaced at once. Gives each with its submission time."""
        ended = []
        for finished in self.engine.step():
            if finished.request_id not in self.submitted:
                continue  # left over from the cell before
            slot, since, request = self.submitted.pop(finished.request_id)
            ended.append((finished, since))
            self.traffic.ended(request, finished.token_ids, finished.output_tokens)
            self.submit(slot)
        self.on_step()
        return ended

    def fill(self, deadline: float) -> float:
        began = self.clock()
        before = self.engine.counters().generation_tokens
        for slot in range(self.traffic.concurrency):
            # At ages apart by n/c the slots so far have written n/c · (1 + 2 + ... + slot) tokens.
            due = self.traffic.output_tokens / self.traffic.concurrency * slot * (slot + 1) / 2
            while self.engine.counters().generation_tokens - before < due and self.clock() < deadline:
                self.step()
            self.submit(slot)
        first = set(self.submitted)
        while first & set(self.submitted) - set(self.engine.running_ttft_s()) and self.clock() < deadline:
            self.step()
        return self.clock() - began

    def settle(self, settle_s: float, deadline: float) -> bool:
        began = self.clock()
        while self.clock() < deadline:
            if self.step() and self.clock() - began >= settle_s:
                return True
        return False

    def measure(self, fill_s: float, limits: Limits, deadline: float) -> CellMeasurement | None:
        c, window = self.traffic.concurrency, self.traffic.window_requests
        start = opened = last = self.clock()
        before = window_before = self.engine.counters()
        cell = CellMeasurement(ended_by="deadline", fill_s=fill_s, measured_s=0.0, completions=0, counters=before)
        intervals: list[float] = []
        completions = answer_tokens = 0
        due = window  # the window that is open may close when so many requests have ended
        while True:
            ended = self.step()
            now = self.clock()
            intervals.append(now - last)
            last = now
            completions += len(ended)
            answer_tokens += sum(finished.output_tokens for finished, _ in ended)
            for finished, since in ended:
                if since >= start:
                    cell.timed.append(finished)
                    cell.e2e_s.append(now - since)
            cycle_s = (now - start) * c / completions if completions >= c else None
            over = now - start >= limits.limit_s(cycle_s) or now >= deadline
            whole = False
            if completions >= due:
                whole = now - opened >= limits.window_s
                due = (completions // window + 1) * window
            if ended and (whole or (over and not cell.windows)):
                seen = self.engine.counters()
                cell.windows.append((now - opened, seen.generation_tokens - window_before.generation_tokens))
                cell.measured_s, cell.completions, cell.counters = now - start, completions, seen.minus(before)
                cell.answer_tokens = answer_tokens
                opened, window_before = now, seen
                last = self.clock()  # reading the counters is not the engine's time
                if (
                    len(cell.windows) >= limits.least_windows and now - start >= limits.least_s
                    and completions >= limits.least_cycles * c
                ):  # fmt: skip
                    cell.ended_by = "enough"
                    break
            if over and (cell.windows or now >= deadline or now - start >= 2 * limits.longest_s):
                cell.ended_by = "deadline" if now >= deadline else "limit"
                break
        if not cell.windows:
            return None
        running = self.engine.running_ttft_s()
        cell.ttft_s = [f.ttft_s for f in cell.timed] + [
            running[request]
            for request, (_, since, _) in self.submitted.items()
            if since >= start and request in running
        ]
        cell.step_s = np.asarray(intervals)
        return cell
