"""The closed loop of a cell, against an engine simulated on a clock of its own: every number has a known true value."""

import numpy as np
import pytest

from profiler.sweep.closed_loop import Counters, Finished, Limits, measure_cell
from profiler.sweep.grid import Point


class SimulatedEngine:
    """Decodes `tokens_per_step` for every running request in `step_s`; a prefill takes `prefill_s_per_token` more."""

    def __init__(self, *, step_s=0.01, prefill_s_per_token=1e-5, tokens_per_step=1, drafted=0):
        self.step_s, self.prefill_s_per_token, self.tokens_per_step = step_s, prefill_s_per_token, tokens_per_step
        self.drafted = drafted
        self.now, self.waiting, self.running, self.totals = 0.0, {}, {}, dict.fromkeys(_COUNTED, 0)
        self.most_running, self.submitted = 0, []

    def clock(self):
        return self.now

    def submit(self, request_id, prompt, *, output_tokens, temperature):
        self.waiting[request_id] = (len(prompt), output_tokens, self.now)
        self.submitted.append((request_id, len(prompt), output_tokens, temperature))

    def step(self):
        self.now += self.step_s
        self.totals["steps"] += 1
        ended = []
        for request_id, state in list(self.running.items()):
            written = min(self.tokens_per_step, state["left"])
            state["left"] -= written
            self.totals["generation_tokens"] += written
            self.totals["drafts"] += bool(self.drafted)
            self.totals["drafted_tokens"] += self.drafted
            self.totals["accepted_tokens"] += written - 1
            if not state["left"]:
                del self.running[request_id]
                ended.append(Finished(request_id, state["asked"], state["ttft"], self.now - state["first"]))
        if self.waiting:
            request_id = next(iter(self.waiting))
            length, asked, since = self.waiting.pop(request_id)
            self.now += length * self.prefill_s_per_token
            self.totals["prompt_tokens"] += length
            self.totals["first_tokens"] += 1
            self.totals["generation_tokens"] += 1
            state = {"left": asked - 1, "asked": asked, "ttft": self.now - since, "first": self.now}
            if asked == 1:
                ended.append(Finished(request_id, 1, state["ttft"], 0.0))
            else:
                self.running[request_id] = state
        self.most_running = max(self.most_running, len(self.running) + len(self.waiting) + len(ended))
        return ended

    def running_ttft_s(self):
        return {request_id: state["ttft"] for request_id, state in self.running.items()}

    def abort_all(self):
        self.waiting.clear()
        self.running.clear()

    def counters(self):
        return Counters(**self.totals, accepted_per_position=())


_COUNTED = (
    "generation_tokens", "prompt_tokens", "first_tokens", "steps", "drafts", "drafted_tokens", "accepted_tokens",
)  # fmt: skip


def measure(engine, point, limits=None, deadline=1e9):
    return measure_cell(
        engine,
        point,
        vocab_size=1000,
        rng=np.random.default_rng(0),
        limits=limits or Limits(),
        deadline=deadline,
        clock=engine.clock,
    )


@pytest.mark.parametrize("concurrency", [1, 2, 16, 64])
@pytest.mark.parametrize("prefill_s_per_token", [0.0, 1e-5, 1e-4])
def test_throughput_is_the_closed_loops_own(concurrency, prefill_s_per_token):
    """Tokens per second equal c·n / (c·t_prefill + (n − 1)·T) within the quantum of one step per request."""
    engine = SimulatedEngine(prefill_s_per_token=prefill_s_per_token)
    point = Point(concurrency=concurrency, input_tokens=400, output_tokens=64)
    cell = measure(engine, point, Limits(least_cycles=8, longest_s=500.0, limit_cycles=20.0))
    measured = cell.counters.generation_tokens / cell.measured_s
    steps = concurrency if concurrency > 63 else 64  # this engine prefills one request a step
    expected = concurrency * 64 / (concurrency * 400 * prefill_s_per_token + steps * engine.step_s)
    assert measured == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("concurrency", [1, 8, 32])
def test_windows_are_whole_cycles_and_agree_from_the_first_on(concurrency):
    """The loop starts in its steady state: each window holds c requests a cycle, prefilled and ended, at one rate."""
    engine = SimulatedEngine(prefill_s_per_token=1e-4)
    cell = measure(engine, Point(concurrency=concurrency, input_tokens=400, output_tokens=128))
    rates = np.array([tokens / seconds for seconds, tokens in cell.windows])
    assert len(rates) >= 3
    assert np.abs(rates / rates.mean() - 1).max() < 0.03
    assert cell.completions == cell.counters.first_tokens >= 3 * concurrency
    assert cell.completions % concurrency == 0
    assert cell.ended_by == "enough"


def test_a_window_ends_with_a_cycle_where_cycles_are_short():
    """Cycles of 0.27 s are measured two at a time; 0.5 s and the next request's end would be no whole number."""
    engine = SimulatedEngine(prefill_s_per_token=1e-4, step_s=0.002)
    cell = measure(engine, Point(concurrency=8, input_tokens=20, output_tokens=128))
    cycle_s = 8 * 20 * 1e-4 + 128 * 0.002
    assert [seconds / cycle_s for seconds, _ in cell.windows] == pytest.approx([2.0] * len(cell.windows), rel=0.02)
    assert cell.completions % 8 == 0
    assert cell.answer_tokens == 128 * cell.completions


def test_three_cycles_are_measured_however_long_they_are():
    """A cycle of 9 s is measured for 27 s where a fixed limit would have cut it within the first."""
    engine = SimulatedEngine(prefill_s_per_token=1.25e-4)
    cell = measure(engine, Point(concurrency=16, input_tokens=4096, output_tokens=64))
    assert cell.completions >= 48
    assert cell.measured_s == pytest.approx(3 * (16 * 4096 * 1.25e-4 + 0.64), rel=0.05)
    assert cell.ended_by == "enough"


@pytest.mark.parametrize(
    ("longest_s", "completions"),
    [(20.0, 32), (5.0, 9)],  # two whole cycles of 8.8 s; and a part of one, for want of a whole one
)
def test_a_cell_that_its_limit_ends_is_done_and_says_so(longest_s, completions):
    """The limit keeps whole cycles where there are any; such a cell is not measured again."""
    engine = SimulatedEngine(prefill_s_per_token=1.25e-4)
    point = Point(concurrency=16, input_tokens=4096, output_tokens=64)
    cell = measure(engine, point, Limits(longest_s=longest_s))
    assert cell.ended_by == "limit"
    assert cell.completions == pytest.approx(completions, abs=2 if completions < 16 else 0)


def test_the_limit_grows_with_the_cycle():
    """Four cycles, never below 6 s nor above 30 s; the ceiling alone while no cycle was seen."""
    limits = Limits()
    assert [limits.limit_s(cycle_s) for cycle_s in (0.5, 2.5, 9.0, None)] == [6.0, 10.0, 30.0, 30.0]


def test_concurrency_is_held():
    """Never are there more or fewer requests in the engine than asked."""
    engine = SimulatedEngine()
    measure(engine, Point(concurrency=8, input_tokens=50, output_tokens=32))
    assert engine.most_running == 8


@pytest.mark.parametrize("tokens_per_step", [1, 3])
def test_requests_start_evenly_spread_over_an_output(tokens_per_step):
    """When the last slot starts, the others are n/c tokens apart; every request is a whole one from the first on."""

    class Watched(SimulatedEngine):
        def submit(self, request_id, prompt, **more):
            if request_id == "s3-3":
                self.written = [state["asked"] - state["left"] for state in self.running.values()]
            super().submit(request_id, prompt, **more)

    engine = Watched(tokens_per_step=tokens_per_step)
    measure(engine, Point(concurrency=4, input_tokens=100, output_tokens=120))
    assert engine.written == pytest.approx([90, 60, 30], abs=2 * tokens_per_step)
    assert all((length, output) == (100, 120) for _, length, output, _ in engine.submitted)


def test_an_unmatched_share_stays_in_its_slots():
    """Half of the slots sample at temperature 1 all along, so that the share of running requests is constant."""
    engine = SimulatedEngine()
    measure(engine, Point(concurrency=4, input_tokens=100, output_tokens=40, unmatched_share=0.5))
    by_slot = {}
    for request_id, _, _, temperature in engine.submitted:
        by_slot.setdefault(request_id.split("-")[0], set()).add(temperature)
    assert sorted(by_slot.values(), key=str) == [{0.0}, {0.0}, {1.0}, {1.0}]


def test_latencies_are_those_of_requests_begun_while_measuring():
    """TPOT of a timed request is the step, TTFT its own prefill and the step before; none of the fill's are counted."""
    engine = SimulatedEngine(prefill_s_per_token=0.0)
    cell = measure(engine, Point(concurrency=1, input_tokens=100, output_tokens=21))
    assert {round(f.decode_s / 20, 6) for f in cell.timed} == {0.01}
    assert cell.ttft_s == pytest.approx([0.01] * len(cell.ttft_s))
    assert len(cell.timed) == cell.completions  # alone in the engine, each begins as the one before it ends


def test_speculation_is_counted_over_the_measured_span():
    """Drafts and accepted tokens are differences over the windows: 3 tokens a step of 4 drafted give τ near 3."""
    engine = SimulatedEngine(tokens_per_step=3, drafted=4)
    counted = measure(engine, Point(concurrency=8, input_tokens=100, output_tokens=64)).counters
    decode_tokens = counted.generation_tokens - counted.first_tokens
    assert decode_tokens / (decode_tokens - counted.accepted_tokens) == pytest.approx(3.0, rel=0.02)
    assert counted.drafted_tokens == 4 * counted.drafts


def test_a_deadline_cuts_and_says_so():
    """A cell that the deadline cuts is kept with the cycles that it has; one without a request's end is not kept."""
    point = Point(concurrency=4, input_tokens=100, output_tokens=64)
    cell = measure(SimulatedEngine(), point, deadline=2.5)
    assert (cell.ended_by, cell.completions) == ("deadline", 8)
    assert measure(SimulatedEngine(), point, deadline=0.2) is None


def test_the_engine_is_left_idle():
    """After a cell nothing runs or waits."""
    engine = SimulatedEngine()
    measure(engine, Point(concurrency=4, input_tokens=100, output_tokens=64))
    assert not engine.running
    assert not engine.waiting
