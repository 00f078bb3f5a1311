"""The composition of a speedup from step times, prefill and acceptance, and its spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.speedup import bounds, compare, concurrency_at_rate
from models.estimate import Estimate
from models.step_cost import PassCosts
from models.step_cost.passes import PREFILL_GRID


def of(*values):
    return np.array(values, dtype=np.float64)


def arm(*, running, prefill, step):
    """An arm in which a prefill adds its own time to a pass and nothing else: the design notes' composition."""
    decoding = 1.0 - np.minimum(PREFILL_GRID, running) / running
    lone = step if running > 1 else step * decoding  # a single slot does not decode while it prefills
    return PassCosts(of(running), (lone + PREFILL_GRID * prefill)[None, :], of(1), of(0), of(0))


def speedup(*, tau=2.0, running=1.0, base=5.0, step=6.0, prefill=10.0, spec_prefill=None, n=101.0, gain_sd=0.2,
            end_to_end_sd=0.05, tpot_sd=0.05, output_sd=0.0):  # fmt: skip
    return compare(
        without=arm(running=running, prefill=prefill, step=base),
        speculative=arm(running=running, prefill=prefill if spec_prefill is None else spec_prefill, step=step),
        gain=Estimate(of(tau - 1.0), of(gain_sd)),
        output_tokens=Estimate(of(n), of(output_sd)),
        log_sd_end_to_end=of(end_to_end_sd),
        log_sd_tpot=of(tpot_sd),
    )


def test_without_prefill_the_speedup_is_tau_times_the_step_ratio():
    """Pure decoding: tau T_base / T_step, both end to end and per token."""
    result = speedup(prefill=0.0, tau=2.5, base=5.0, step=6.0, n=10_001.0)
    assert result.end_to_end.value[0] == pytest.approx(2.5 * 5 / 6)
    assert result.tpot.value[0] == pytest.approx(2.5 * 5 / 6)


def test_prefill_dilutes_the_speedup():
    """What prefill takes cannot be sped up: the longer the prompt, the nearer the speedup comes to 1."""
    values = [speedup(prefill=p).end_to_end.value[0] for p in (0.0, 10.0, 100.0, 1e5)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(1.0, abs=0.01)


def test_one_output_token_gains_nothing():
    """A request of one token has no decode steps: only the drafter's prefill is left, a loss."""
    assert speedup(n=1.0, spec_prefill=11.0).end_to_end.value[0] == pytest.approx(10 / 11)


def test_fewer_running_sequences_cost_throughput():
    """Where the drafter's weights leave room for half the sequences, throughput counts the wait of the others."""
    both = {
        "gain": Estimate(of(1.0), of(0.1)),
        "output_tokens": Estimate(of(100.0), of(0.0)),
        "log_sd_end_to_end": of(0.1),
        "log_sd_tpot": of(0.1),
    }
    whole, part = (arm(running=b, prefill=0.0, step=5.0) for b in (64.0, 32.0))
    even = compare(without=whole, speculative=whole, **both)
    half = compare(without=whole, speculative=part, beside=part, **both)
    assert half.end_to_end.value[0] == pytest.approx(even.end_to_end.value[0] / 2)
    assert half.tpot.value[0] == pytest.approx(even.tpot.value[0])


def test_spread_by_the_delta_method_agrees_with_sampling():
    """The standard deviation of log speedup is that of 200,000 draws of the errors, within 5 %."""
    rng = np.random.default_rng(7)
    n = 200_000
    ratio, acceptance = (rng.standard_normal(n) * sd for sd in (0.05, 0.2))
    steps, running = 100.0, 4.0
    passes = 1 + steps / (1 + np.exp(acceptance))
    without = running * 10 + (1 + steps) * 5
    with_ = (running * 10 + passes * 6) * np.exp(ratio)
    result = speedup(running=running)
    assert result.end_to_end.log_sd[0] == pytest.approx(np.log(without / with_).std(), rel=0.05)


def test_what_is_certain_has_no_spread():
    """Without an error of costs, acceptance or length the speedup is certain."""
    result = speedup(gain_sd=0.0, end_to_end_sd=0.0, tpot_sd=0.0)
    assert result.end_to_end.log_sd[0] == result.tpot.log_sd[0] == 0.0


@given(
    tau=st.floats(1.0, 8.0), more=st.floats(1.0, 2.0), running=st.integers(1, 256), prefill=st.floats(0, 1000),
    step=st.floats(1, 50), n=st.floats(1, 4000),
)  # fmt: skip
def test_more_acceptance_never_lowers_the_speedup(tau, more, running, prefill, step, n):
    """At equal costs a longer acceptance length is never worse, and every interval holds its value."""
    less = speedup(tau=tau, running=running, prefill=prefill, step=step, n=n)
    greater = speedup(tau=tau * more, running=running, prefill=prefill, step=step, n=n)
    for one, other in ((less.end_to_end, greater.end_to_end), (less.tpot, greater.tpot)):
        assert other.value[0] >= one.value[0] * (1 - 1e-9)
        low, high = bounds(one)
        assert 0 < low[0] <= one.value[0] <= high[0] < np.inf


def test_littles_law():
    """At 4 requests a second that take 500 ms each, 2 are running; beyond the server's own rate it saturates."""
    concurrency = of(1, 2, 4, 8)
    request = of(500, 500, 500, 1000)  # 2, 4, 8, 8 requests a second
    assert concurrency_at_rate(request_rate=4.0, concurrency=concurrency, request_time_ms=request) == (2.0, False)
    assert concurrency_at_rate(request_rate=6.0, concurrency=concurrency, request_time_ms=request) == (3.0, False)
    assert concurrency_at_rate(request_rate=0.1, concurrency=concurrency, request_time_ms=request) == (1.0, False)
    assert concurrency_at_rate(request_rate=9.0, concurrency=concurrency, request_time_ms=request) == (8.0, True)


def test_an_unsure_answer_length_matters_only_beside_prefill():
    """An answer length within a factor of 2.5 leaves a pure decode ratio as it is, and widens one with long prompts."""
    pure = speedup(prefill=0.0, gain_sd=0.0, end_to_end_sd=0.0, output_sd=0.9, n=10_001.0)
    mixed = speedup(prefill=200.0, gain_sd=0.0, end_to_end_sd=0.0, output_sd=0.9)
    assert pure.end_to_end.log_sd[0] == pytest.approx(0.0, abs=1e-9)
    assert mixed.end_to_end.log_sd[0] > 0.05
