"""Speeds and the running speedup are arithmetic of when tokens came, and unknown where that is."""

import pytest

from api.comparisons.pace import Pace, running_speedup
from profiler.load import Piece


def pace(*arrivals, started_s=100.0):
    """From (seconds after sending, tokens so far)."""
    made = Pace(started_s)
    for at_s, tokens in arrivals:
        made.take(Piece("text", started_s + at_s, tokens))
    return made


def test_speed_is_that_after_the_first_piece():
    """The wait for the first token is no part of it, and a piece of several tokens counts as several."""
    found = pace((0.5, 1), (0.6, 4), (0.7, 5))
    assert found.tokens_per_s == pytest.approx(20.0)
    assert found.tokens_per_piece == pytest.approx(2.0)
    assert found.told()["ttft_ms"] == pytest.approx(500.0)
    assert found.told()["elapsed_ms"] == pytest.approx(700.0)


def test_the_speedup_is_at_the_same_number_of_tokens():
    """Who is further by now makes no difference: 3 tokens took 0.4 and 0.2 seconds, 0.3 and 0.1 from the first on."""
    slow = pace((0.1, 1), (0.25, 2), (0.4, 3))
    fast = pace((0.1, 1), (0.2, 4), (0.3, 7))
    found = running_speedup(slow, fast)
    assert (found.tokens, found.end_to_end, found.decode) == (3, pytest.approx(2.0), pytest.approx(3.0))
    assert running_speedup(fast, slow).end_to_end == pytest.approx(0.5)


@pytest.mark.parametrize(
    "unknown",
    [(), ((0.1, None), (0.2, None)), ((0.1, None), (0.2, 7)), ((0.1, 1),)],
    ids=["nothing came", "not counted", "counted at the end", "one token"],
)
def test_without_counts_there_is_no_speedup(unknown):
    """Not 0, not 1: None."""
    known = pace((0.1, 1), (0.2, 2))
    assert running_speedup(known, pace(*unknown)) is None
    assert running_speedup(pace(*unknown), known) is None
    assert pace(*unknown).told()["tokens_per_s"] is None


def test_a_first_piece_of_several_tokens_has_no_decode_speedup_yet():
    """What came with the first piece was not timed apart."""
    found = running_speedup(pace((0.2, 5), (0.3, 6)), pace((0.1, 5), (0.2, 9)))
    assert found.end_to_end == pytest.approx(0.3 / 0.2)
    assert running_speedup(pace((0.2, 5), (0.3, 6)), pace((0.1, 1), (0.2, 5))).decode is None
