"""A server is kept running only as long as that is cheaper than to start it again where it turns out to be needed."""

import math
from itertools import pairwise

import pytest

from profiler.probe.comparison import RatioInterval, compare, pair
from profiler.probe.effort import another_round_pays, half_width, pairs_needed, probability_open
from tests.profiler.probe.test_comparison import arm


def found(value: float, log_sd: float, pairs: int, level: float = 0.9) -> RatioInterval:
    return RatioInterval(value, value * math.exp(-log_sd), value * math.exp(log_sd), level, pairs, log_sd)


def test_the_interval_shrinks_with_the_root_of_the_pairs() -> None:
    """1.645 times the spread over the root of n at 90 %; more looks widen it."""
    assert half_width(64, level=0.9, looks=1, pair_log_sd=0.4) == pytest.approx(1.645 * 0.4 / 8, rel=1e-3)
    assert half_width(64, level=0.9, looks=4) > half_width(64, level=0.9, looks=1)


def test_an_open_question_becomes_rarer_and_is_never_more_than_certain() -> None:
    """Two pairs leave it open whatever comes; each doubling helps, by less and less."""
    chances = [probability_open(2**i, level=0.9, looks=1) for i in range(1, 10)]
    assert chances[0] <= 1.0
    assert all(later < earlier for earlier, later in pairwise(chances[1:]))


@pytest.mark.parametrize(
    ("round_s", "start_s", "pays"),
    [
        (60.0, 60.0, False),  # a round as long as a start: never
        (0.5, 60.0, True),  # half a second against a minute
        (6.5, 75.0, False),  # an 8B on an H200: 64 prompts more against its start-up
        (6.5, 600.0, True),  # a model that loads for ten minutes
        (0.1, 0.0, False),  # a server that starts at once
    ],
)
def test_a_round_pays_where_starting_again_would_be_dearer(round_s: float, start_s: float, pays: bool) -> None:
    """64 pairs are there and 64 more would be asked."""
    assert another_round_pays(64, 64, round_s=round_s, start_s=start_s, level=0.9, looks=3) is pays


def test_a_clear_case_needs_few_pairs_and_a_tie_all_of_them() -> None:
    """Twice the gap needs a quarter; at the threshold itself no number suffices."""
    near, far = (pairs_needed(found(value, 0.05, 64), 1.0, looks=1) for value in (math.exp(0.1), math.exp(0.2)))
    assert near == pytest.approx(4 * far)
    assert pairs_needed(found(1.05, 0.05, 64), 1.05, looks=1) == math.inf


def test_the_pairs_that_are_said_to_suffice_do_so_in_four_of_five_cases() -> None:
    """From a first look at 64 prompts, 8 % faster with 0.3 of own spread: fresh pairs of that number then decide."""
    first = compare(pair(arm(1.0, n=64, seed=1, noise=0.2), arm(1.08, n=64, seed=2, noise=0.2)))
    assert first is not None
    spread = found(1.08, first.end_to_end.log_sd, 64)
    needed = round(pairs_needed(spread, 1.0, looks=1))
    decided = 0
    for seed in range(100):
        base = arm(1.0, n=needed, seed=2 * seed + 11, noise=0.2)
        fresh = compare(pair(base, arm(1.08, n=needed, seed=2 * seed + 12, noise=0.2)))
        assert fresh is not None
        decided += fresh.end_to_end.excludes(1.0)
    assert 65 <= decided <= 95
