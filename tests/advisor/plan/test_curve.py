"""Which demand curves are read, and what is said of those that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.plan.curve import read_curve
from profiler.errors import InputError

HOURS = [f"{hour},{hour / 10}" for hour in range(24)]


def text(*lines: str, header: str = "hour,chat") -> str:
    return "\n".join((header, *lines)) + "\n"


def test_a_day_is_read_in_the_order_of_its_hours():
    """Whatever the order of its lines, with blank ones and a byte order mark."""
    found = read_curve("\ufeff" + text(*reversed(HOURS), "", "  "), ["chat"])
    assert found.rates[:, 0] == pytest.approx(np.arange(24) / 10)


def test_columns_are_the_classes_in_any_order():
    """And one class may be called requests_per_s."""
    rows = [f"{hour},2,1" for hour in range(24)]
    found = read_curve(text(*rows, header="hour, code ,chat"), ["chat", "code"])
    assert found.rates[0].tolist() == [1.0, 2.0]
    assert read_curve(text(*HOURS, header="hour,requests_per_s"), ["chat"]).rates.shape == (24, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected a header and 24 hours; got nothing"),
        ("hour,chat\n", "holds no hours; expected 24 of them; got a header alone"),
        (
            text(*HOURS, header="hour,chta"),
            "line 1; expected the columns hour, chat; got the unknown column 'chta'; did",
        ),
        (text(*HOURS, header="hour,chat,cost"), "got the unknown column 'cost'; name the columns as the classes"),
        (text(*HOURS, header="time,chat"), "got the unknown column 'time'"),
        (text(*HOURS, header="hour,chat,chat"), "expected each column once; got 'chat' again"),
        (text(*(str(h) for h in range(24)), header="hour"), "expected the columns hour, chat; got no column 'chat'"),
        (text(*HOURS[:-1]), "expected the hours 0 to 23, each once; got none for the hour 23"),
        (text(*HOURS[:3], *HOURS[12:]), "got none for the hours 3, 4, 5, 6, 7, 8 and more"),
        (text(*HOURS, "24,1"), "expected the hours 0 to 47, each once"),
        (text(*HOURS, "7,1"), "line 26; expected each hour once; got hour 7 again, as in line 9"),
        (text(*HOURS[:-1], "23,-4"), "line 25; expected requests per second, 0 or more; got '-4' for chat"),
        (text(*HOURS[:-1], "23,many"), "got 'many' for chat"),
        (text(*HOURS[:-1], "23,nan"), "got 'nan' for chat"),
        (text(*HOURS[:-1], "23,inf"), "got 'inf' for chat"),
        (text(*HOURS[:-1], "23"), "line 25; expected 2 cells; got 1"),
        (text(*HOURS[:-1], "11 pm,4"), "expected an hour from 0 to 743; got '11 pm'"),
        (text(*HOURS[:-1], "744,4"), "expected an hour from 0 to 743; got '744'"),
        (text(*(f"{hour},0" for hour in range(24))), "holds no demand; expected requests in at least one hour; got 0"),
    ],
)
def test_a_curve_that_says_nothing_is_refused_with_its_line(content, message):
    """Each message says where, what was expected and what came."""
    with pytest.raises(InputError) as caught:
        read_curve(content, ["chat"])
    assert message in caught.value.line()
    assert caught.value.field == "demand.csv"
