"""A request that is put off is tried again within bounds, as the server asks."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from profiler.load.patience import Patience, retry_after_s


@dataclass(frozen=True)
class Answer:
    """An attempt's outcome."""

    retry_after_s: float | None


def tried(patience: Patience, answers: list[float | None], *, until_s: float | None = None) -> tuple[int, int, float]:
    """Attempts made, retries told, seconds waited."""
    left = iter(answers)
    made = 0

    async def attempt() -> Answer:
        nonlocal made
        made += 1
        return Answer(next(left))

    _, retries, waited_s = asyncio.run(patience.keep_trying(attempt, until_s=until_s))
    return made, retries, waited_s


def test_an_answer_is_not_asked_for_twice() -> None:
    """What is not put off costs one sending and no waiting."""
    assert tried(Patience(), [None]) == (1, 0, 0.0)


def test_waits_double_and_end_after_some_attempts() -> None:
    """0.01, 0.02 and 0.04 s, each with as much as 0.01 of jitter; then it is given up."""
    made, retries, waited_s = tried(Patience(attempts=4, first_wait_s=0.01), [0.0] * 9)
    assert (made, retries) == (4, 3)
    assert 0.07 <= waited_s <= 0.10


def test_the_servers_own_wait_is_kept() -> None:
    """It comes back neither sooner than asked nor much later."""
    made, retries, waited_s = tried(Patience(first_wait_s=0.01), [0.2, None])
    assert (made, retries) == (2, 1)
    assert 0.2 <= waited_s <= 0.21


def test_a_wait_that_is_too_long_is_not_begun() -> None:
    """An hour is longer than any probe, and a wait beyond the wave's end is for nothing."""
    begun = time.monotonic()
    assert tried(Patience(), [3600.0, None]) == (1, 0, 0.0)
    assert tried(Patience(), [5.0, None], until_s=time.monotonic() + 1.0) == (1, 0, 0.0)
    assert time.monotonic() - begun < 1.0


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        (429, None, 0.0),
        (429, "7", 7.0),
        (429, "soon", 0.0),
        (429, "-1", 0.0),
        (429, "nan", 0.0),
        (429, "Mon, 30 Nov 2015 19:48:01 GMT", 0.0),
        (503, None, 0.0),
        (503, "2.5", 2.5),
        (500, "7", None),
        (200, None, None),
        (404, None, None),
    ],
)
def test_what_an_answer_says_of_trying_again(status: int, header: str | None, seconds: float | None) -> None:
    """Seconds or a date, whatever else a gateway writes; statuses that are no "not now" are final."""
    assert retry_after_s(status, header) == seconds


def test_a_date_is_a_time_from_now() -> None:
    """RFC 9110 allows a date in place of seconds."""
    found = retry_after_s(429, format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True))
    assert found is not None
    assert 15 < found <= 20
