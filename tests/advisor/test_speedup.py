"""The composition of a speedup from step times, prefill and acceptance, and its spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.speedup import Arm, bounds, compare, concurrency_at_rate, request_ms, tpot_ms
from models.estimate import Estimate


def of(*values):
    return np.array(values, dtype=np.float64)


def speedup(*, tau=2.0, running=1.0, base=5.0, step=6.0, prefill=10.0, spec_prefill=None, n=101.0, gain_sd=0.2,
            step_sd=0.1, ratio_sd=0.05, output_sd=0.0):  # fmt: skip
    return compare(
        without=Arm(of(running), of(prefill), of(base)),
        speculative=Arm(of(running), of(prefill if spec_prefill is None else spec_prefill), of(step)),
        gain=Estimate(of(tau - 1.0), of(gain_sd)),
        output_tokens=Estimate(of(n), of(output_sd)),
        log_sd_step=of(step_sd),
        log_sd_ratio=of(ratio_sd),
    )


def test_time_of_a_request_by_hand():
    """16 requests of 91 ms prefill, 191 decode tokens at 5.6 ms: 16 x 91 + 191 x 5.6 ms; TPOT holds 15 prefills."""
    arms = {
        "running": of(16),
        "prefill_ms": of(91),
        "step_ms": of(5.6),
        "tokens_per_step": of(1),
        "output_tokens": of(192),
    }
    assert request_ms(**arms)[0] == pytest.approx(16 * 91 + 191 * 5.6)
    assert tpot_ms(**arms)[0] == pytest.approx((15 * 91 + 191 * 5.6) / 191)


def test_measured_tpot_of_llama_8b_with_long_prompts():
    """Llama-3.1-8B at 16 x 4,000 tokens takes 12.6 ms a token in a closed loop, 5.0 alone: interference says why."""
    prefill = 1e3 * 4000 * 2 * 8.03e9 / (0.71 * 989e12)
    arms = {"prefill_ms": of(prefill), "tokens_per_step": of(1), "output_tokens": of(192)}
    assert tpot_ms(running=of(16), step_ms=of(5.6), **arms)[0] == pytest.approx(12.6, rel=0.05)


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
        "log_sd_step": of(0.1),
        "log_sd_ratio": of(0.1),
    }
    arm = (of(0.0), of(5.0))
    even = compare(without=Arm(of(64.0), *arm), speculative=Arm(of(64.0), *arm), **both)
    half = compare(without=Arm(of(64.0), *arm), speculative=Arm(of(32.0), *arm), **both)
    assert half.end_to_end.value[0] == pytest.approx(even.end_to_end.value[0] / 2)


def test_running_fewer_sequences_is_no_merit_per_token():
    """Time per token is compared at as many sequences as the drafter leaves room for: a queue is no gain."""
    both = {
        "gain": Estimate(of(1.0), of(0.1)),
        "output_tokens": Estimate(of(100.0), of(0.0)),
        "log_sd_step": of(0.1),
        "log_sd_ratio": of(0.1),
    }
    full, half = Arm(of(64.0), of(1.0), of(10.0)), Arm(of(32.0), of(1.0), of(5.0))
    spoken = compare(without=full, speculative=half, beside=half, **both)
    assert spoken.tpot.value[0] == pytest.approx(compare(without=half, speculative=half, **both).tpot.value[0])
    assert spoken.end_to_end.value[0] == compare(without=full, speculative=half, **both).end_to_end.value[0]


def test_spread_by_the_delta_method_agrees_with_sampling():
    """The standard deviation of log speedup is that of 200,000 draws of the errors, within 5 %."""
    rng = np.random.default_rng(7)
    n = 200_000
    shared, prefill, ratio, acceptance = (rng.standard_normal(n) * sd for sd in (0.1, 0.1, 0.05, 0.2))
    steps, running = 100.0, 4.0
    without = running * 10 * np.exp(prefill) + steps * 5 * np.exp(shared)
    with_ = running * 10 * np.exp(prefill) + steps / (1 + np.exp(acceptance)) * 6 * np.exp(shared + ratio)
    result = speedup(running=running)
    assert result.end_to_end.log_sd[0] == pytest.approx(np.log(without / with_).std(), rel=0.05)


def test_shared_errors_cancel():
    """An error of the step time that both arms share leaves a pure decode ratio as it is."""
    result = speedup(prefill=0.0, n=10_001.0, gain_sd=0.0, ratio_sd=0.0, step_sd=0.5)
    assert result.end_to_end.log_sd[0] == pytest.approx(0.0, abs=1e-9)


@given(
    tau=st.floats(1.0, 8.0), more=st.floats(1.0, 2.0), running=st.floats(1, 256), prefill=st.floats(0, 1000),
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
    pure = speedup(prefill=0.0, gain_sd=0.0, ratio_sd=0.0, step_sd=0.0, output_sd=0.9, n=10_001.0)
    mixed = speedup(prefill=200.0, gain_sd=0.0, ratio_sd=0.0, step_sd=0.0, output_sd=0.9)
    assert pure.end_to_end.log_sd[0] == pytest.approx(0.0, abs=1e-9)
    assert mixed.end_to_end.log_sd[0] > 0.05
