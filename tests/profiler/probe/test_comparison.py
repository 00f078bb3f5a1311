"""The measured speedup, its interval and the decision to stop hold what they promise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtrit

from profiler.load.client import Served
from profiler.probe.comparison import MIN_PAIRS, Pairs, compare, pair, settled


def arm(factor: float, *, n: int = 40, seed: int = 0, noise: float = 0.05, tokens: int = 100) -> list[Served]:
    """Requests whose time is that of their prompt over `factor`, with noise of their own."""
    prompts = np.random.default_rng(99).lognormal(0.0, 0.5, n)
    own = np.random.default_rng(seed).lognormal(0.0, noise, n)
    return [
        Served(
            index=i,
            started_s=0.0,
            ttft_ms=10.0,
            end_to_end_ms=10.0 + 1000.0 * prompts[i] * own[i] / factor,
            output_tokens=tokens,
            text="same",
        )
        for i in range(n)
    ]


def test_the_speedup_is_recovered_and_the_prompts_spread_cancels() -> None:
    """A true TPOT speedup of 1.4 is found within 2 %, though prompts differ by half an e-fold."""
    found = compare(pair(arm(1.0, seed=1), arm(1.4, seed=2)))
    assert found is not None
    assert found.tpot is not None
    assert found.tpot.value == pytest.approx(1.4, rel=0.02)
    assert found.tpot.low < 1.4 < found.tpot.high
    assert found.tpot.high - found.tpot.low < 0.1
    assert found.end_to_end.low <= found.end_to_end.value <= found.end_to_end.high
    assert found.identical_share == 1.0


@pytest.mark.parametrize(
    ("n", "level", "least", "most"), [(40, 0.9, 0.87, 0.96), (8, 0.9, 0.85, 0.96), (8, 0.99, 0.97, 1.0)]
)
def test_the_interval_covers_as_often_as_it_says(n: int, level: float, least: float, most: float) -> None:
    """Over 400 repetitions, also with the fewest pairs that are compared at all."""
    holds = 0
    for seed in range(400):
        found = compare(pair(arm(1.0, n=n, seed=2 * seed + 1), arm(1.2, n=n, seed=2 * seed + 2)), level=level)
        assert found is not None
        assert found.tpot is not None
        holds += found.tpot.low <= 1.2 <= found.tpot.high
    assert least <= holds / 400 <= most


def test_eight_pairs_do_not_settle_by_luck_what_is_asked_with_near_certainty() -> None:
    """At 99.99 % at most two of 400 ties are settled: a percentile bootstrap settles a dozen."""
    decided = 0
    for seed in range(400):
        found = compare(pair(arm(1.0, n=8, seed=2 * seed + 1), arm(1.0, n=8, seed=2 * seed + 2)), level=0.9999)
        decided += settled(found, threshold=1.0, objective="end_to_end") is not None
    assert decided <= 2


def test_answers_that_come_as_one_chunk_have_no_tpot() -> None:
    """With no time between the first token and the last, nothing of decoding is known; end to end is."""
    whole = [replace(served, ttft_ms=served.end_to_end_ms) for served in arm(1.2)]
    found = compare(pair(arm(1.0), whole))
    assert found is not None
    assert found.tpot is None
    assert found.end_to_end.value > 1.0


def test_looking_often_does_not_find_what_is_not_there() -> None:
    """With no true difference, eight looks at growing data settle wrongly in at most 10 % of 100 runs."""
    wrong = 0
    for seed in range(100):
        base, spec = arm(1.0, n=64, seed=1000 + seed), arm(1.0, n=64, seed=5000 + seed)
        looks = [compare(pair(base[: 8 * i], spec[: 8 * i]), looks=8) for i in range(1, 9)]
        wrong += any(settled(look, threshold=1.0, objective="tpot") for look in looks)
    assert wrong <= 10


def test_an_open_question_stays_open() -> None:
    """A threshold inside the interval settles nothing; far outside it settles to its side."""
    found = compare(pair(arm(1.0, seed=1), arm(1.05, seed=2, noise=0.3)))
    assert settled(found, threshold=1.05, objective="tpot") is None
    assert settled(found, threshold=3.0, objective="tpot") == "not faster"
    assert settled(found, threshold=0.3, objective="end_to_end") == "faster"


def test_only_prompts_answered_by_both_arms_count() -> None:
    """A failed request on one arm takes its pair out; too few pairs are no measurement."""
    base, spec = arm(1.0), arm(1.3)
    base[3] = Served(index=3, started_s=0.0, error="HTTP 500")
    assert len(pair(base, spec[1:])) == 38
    assert compare(pair(base[: MIN_PAIRS - 1], spec)) is None


def test_one_token_answers_have_no_tpot() -> None:
    """Where nothing is decoded, TPOT is unknown and cannot decide."""
    found = compare(pair(arm(1.0, tokens=1), arm(2.0, tokens=1)))
    assert found is not None
    assert found.tpot is None
    assert settled(found, threshold=1.05, objective="tpot") is None


def test_slower_pairs_are_counted() -> None:
    """Of 40 prompts, 10 that take twice as long count as slower by both objectives; an answer of one token by none."""
    plain = arm(1.0, noise=0.0)
    mixed = [
        slow if slow.index < 10 else fast for slow, fast in zip(arm(0.5, noise=0.0), arm(1.3, noise=0.0), strict=True)
    ]
    found = compare(pair(plain, mixed))
    assert found is not None
    assert (found.slower_end_to_end, found.slower_tpot) == (10, 10)
    short = compare(pair(arm(1.0, tokens=1), arm(1.0, tokens=1)))
    assert short is not None
    assert short.slower_tpot is None


def test_a_huge_ratio_of_two_measured_times_settles_nothing() -> None:
    """Ten thousandfold by two answers that were not one chunk: the bounds are those of the spread, however wide."""
    ones = np.ones(10)
    few = np.r_[0.02, 0.001, 0.0 * ones[2:]]
    found = compare(Pairs(
        base_tokens=ones * 100, base_ms=ones * 1000, base_ttft_ms=ones * 10,
        spec_tokens=ones * 100, spec_ms=10 + few, spec_ttft_ms=ones * 10, identical=ones > 0,
    ))  # fmt: skip
    assert found is not None
    assert found.tpot is not None
    assert found.tpot.value > 1e4
    assert found.tpot.low < 1e4
    assert found.tpot.low == pytest.approx(
        max(found.tpot.value * np.exp(-stdtrit(9, 0.95) * found.tpot.log_sd), 1e-4), rel=1e-6
    )


def test_equal_times_have_no_spread_at_any_level() -> None:
    """Also where so many looks leave no room for a doubt that floating point could tell from none."""
    ones = np.ones(10)
    same = Pairs(ones * 100, ones * 1000, ones * 10, ones * 100, ones * 500, ones * 10, ones > 0)
    found = compare(same, level=0.999999, looks=10**12)
    assert found is not None
    assert (found.end_to_end.low, found.end_to_end.high) == (pytest.approx(2.0), pytest.approx(2.0))
