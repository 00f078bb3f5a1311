"""The throughput of a span that is no whole number of cycles."""

import pytest

from profiler.measurements.estimate import balanced_tokens_per_s, prefill_seconds, row_flags, tpot_by_little_ms


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.55, 0.8, 1.0])
@pytest.mark.parametrize("cycles", [1, 3])
def test_every_span_of_a_bunched_loop_gives_the_rate_of_its_cycle(cut, cycles):
    """A loop that prefills 8 requests for 4 s, then decodes 64 tokens each in 2 s: 512 tokens in 6 s, wherever cut."""
    prefill_s, decode_s, tokens, requests = 4.0, 2.0, 512, 8
    seconds = min(cut * (prefill_s + decode_s), prefill_s)
    decoding = max(0.0, cut * (prefill_s + decode_s) - prefill_s)
    rate = balanced_tokens_per_s(
        tokens=cycles * tokens + tokens * decoding / decode_s,
        seconds=cycles * (prefill_s + decode_s) + seconds + decoding,
        prefills=cycles * requests + requests * seconds / prefill_s,
        output_tokens=64,
        prefill_s=prefill_s / requests,
    )
    assert rate == pytest.approx(512 / 6.0, rel=1e-9)


def test_a_span_without_tokens_has_no_rate():
    """Nothing is made of nothing."""
    with pytest.raises(ValueError, match="no rate"):
        balanced_tokens_per_s(tokens=0, seconds=1.0, prefills=3, output_tokens=10, prefill_s=0.1)


def test_tpot_follows_from_littles_law():
    """4 requests of 11 tokens at 100 tok/s take 440 ms each; 40 of them until the first token: 40 ms a token."""
    assert tpot_by_little_ms(concurrency=4, output_tokens=11, tokens_per_s=100, ttft_ms=40) == pytest.approx(40.0)
    assert tpot_by_little_ms(concurrency=4, output_tokens=1, tokens_per_s=100, ttft_ms=40) is None


def alone(input_tokens, ttft_ms, concurrency=1):
    return {"concurrency": concurrency, "input_tokens": input_tokens, "ttft_ms_p50": ttft_ms, "step_ms_p50": 5.0}


def test_a_prefill_costs_what_it_adds_to_a_step():
    """In proportion below the shortest long prompt, on the line between two, from requests alone in the engine."""
    rows = [alone(128, 15.0), alone(4096, 105.0), alone(16384, 485.0), alone(4096, 900.0, concurrency=16)]
    assert prefill_seconds(rows, 4096) == pytest.approx(0.1)
    assert prefill_seconds(rows, 1024) == pytest.approx(0.025)
    assert prefill_seconds(rows, 10240) == pytest.approx(0.29)
    assert prefill_seconds(rows, 128) == pytest.approx(0.1 / 32)
    assert prefill_seconds(rows[:1], 128) is None


FINE = {
    "cycles": 3.0, "imbalance": 0.0, "little_gap": 0.01, "output_tokens_per_s_cv": 0.02, "tpot_ms_mean": 5.0,
    "repeat_output_tokens_per_s": (100.0, 101.0, 99.0), "unmatched_share": 0.0, "ended_by": "enough", "preemptions": 0,
    "protocol": 2, "method": "none", "concurrency": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"cycles": 0.7}, "short"),
        ({"imbalance": -0.38}, "imbalanced"),
        ({"little_gap": 0.41}, "disagreeing"),
        ({"output_tokens_per_s_cv": 0.76, "method": "ngram"}, "spread"),
        ({"output_tokens_per_s_cv": 0.07}, "unsteady"),
        ({"protocol": 1}, "clumped"),
        ({"repeat_output_tokens_per_s": (50.0, 101.0, 99.0)}, "unsettled"),
        ({"tpot_ms_mean": None}, "no_latencies"),
        ({"unmatched_share": 0.5}, "mixed_latencies"),
        ({"ended_by": "limit"}, "limit"),
        ({"ended_by": "deadline"}, "deadline"),
        ({"preemptions": 3}, "preempted"),
    ],
)
def test_each_defect_has_its_flag(change, flag):
    """One defect, one word; a row without any has none."""
    assert row_flags(FINE) == ()
    assert row_flags(FINE | change) == (flag,)


def test_few_requests_of_protocol_1_are_sound_and_luck_in_acceptance_is_no_disturbance():
    """Groups of prefills need many requests; windows of speculative cells differ by what happened to be accepted."""
    assert row_flags(FINE | {"protocol": 1, "concurrency": 4}) == ()
    assert row_flags(FINE | {"method": "eagle3", "output_tokens_per_s_cv": 0.07}) == ()
