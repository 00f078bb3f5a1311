"""How many requests of each class come in each hour? An hourly curve, read from CSV.

    hour,chat,rag
    0,1.5,0.2
    1,1.1,0.1
    ...

`hour` counts from 0 over whole days (24 rows, 168 for a week), the other columns are classes, in requests per second,
the mean of the hour; with one class the column may be called requests_per_s. Semicolons and tabs, as spreadsheets write
them, will do as well, then also with a decimal comma. Refused, with the line: columns that are no class, classes
without a column, hours that are missing or stand twice, rates that are negative or no numbers, and a curve in which
nothing comes.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.estimate import Floats
from profiler.errors import InputError

FIELD = "demand.csv"
ONLY = "requests_per_s"  # the column of a single class
_DAY = 24
_MOST_HOURS = 31 * _DAY
_MOST_RATE = 1e6


@dataclass(frozen=True, slots=True)
class Curve:
    """Requests per second, (hours, classes)."""

    rates: Floats


def read_curve(text: str, classes: Sequence[str]) -> Curve:
    """The curve in CSV text, its columns in the order of `classes`. Raises InputError."""
    text = text.removeprefix("\ufeff")
    separator = _separator(text)
    lines = csv.reader(io.StringIO(text, newline=None), delimiter=separator)
    try:
        rows = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise _wrong("is no CSV", expected="rows of cells between commas", got=str(error)) from None
    if not rows:
        raise _wrong("is empty", expected=f"a header and {_DAY} hours", got="nothing")
    columns = _columns([cell.strip() for cell in rows[0][1]], classes)
    found: dict[int, tuple[int, list[float]]] = {}
    decimal = "," if separator != "," else "."
    for line, row in rows[1:]:
        if len(row) != len(columns):
            raise _wrong(f"line {line}", expected=f"{len(columns)} cells", got=f"{len(row)}")
        hour = _hour(row[columns.index("hour")], line)
        if hour in found:
            raise _wrong(
                f"line {line}", expected="each hour once", got=f"hour {hour} again, as in line {found[hour][0]}"
            )
        found[hour] = (line, [_rate(row[columns.index(name)], name, line, decimal) for name in classes])
    _check_hours(sorted(found))
    rates = np.array([found[hour][1] for hour in sorted(found)])
    if not rates.any():
        raise _wrong("holds no demand", expected="requests in at least one hour", got="0 everywhere")
    return Curve(rates)


def _separator(text: str) -> str:
    """What stands between the cells of the header."""
    header = text.lstrip().partition("\n")[0]
    return next((mark for mark in (",", ";", "\t") if mark in header), ",")


def _columns(header: list[str], classes: Sequence[str]) -> list[str]:
    if len(classes) == 1 and ONLY in header and classes[0] not in header:
        header = [classes[0] if name == ONLY else name for name in header]
    expected = f"hour, {', '.join(classes)}"
    twice = next((name for name, times in Counter(header).items() if times > 1), None)
    if twice is not None:
        raise _wrong("line 1", expected="each column once", got=f"{twice[:40]!r} again")
    known, stated = {"hour", *classes}, set(header)
    unknown = [name for name in header if name not in known]
    missing = [name for name in ("hour", *classes) if name not in stated]
    if unknown:
        from rapidfuzz import process

        nearest = process.extractOne(unknown[0][:200], missing, score_cutoff=50) if missing else None
        hint = f"did you mean {nearest[0]!r}?" if nearest else "name the columns as the classes"
        raise _wrong(
            "line 1", expected=f"the columns {expected}", got=f"the unknown column {unknown[0][:40]!r}", remedy=hint
        )
    if missing:
        raise _wrong("line 1", expected=f"the columns {expected}", got=f"no column {missing[0]!r}")
    return header


def _hour(cell: str, line: int) -> int:
    text = cell.strip()
    if not (text.isascii() and text.isdigit() and int(text[:6]) < _MOST_HOURS and len(text) <= 6):
        raise _wrong(
            f"line {line}", expected=f"an hour from 0 to {_MOST_HOURS - 1}", got=repr(text[:40]),
            remedy="plan a typical day, a week, or the busiest month",
        )  # fmt: skip
    return int(text)


def _rate(cell: str, name: str, line: int, decimal: str) -> float:
    text = cell.strip().replace(decimal, ".")
    try:
        rate = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        rate = math.nan
    if not 0.0 <= rate <= _MOST_RATE:  # nan is not, either
        many = rate > _MOST_RATE
        expected = f"at most {_MOST_RATE:,.0f} requests per second" if many else "requests per second, 0 or more"
        raise _wrong(f"line {line}", expected=expected, got=f"{cell.strip()[:40]!r} for {name}")
    return rate


def _check_hours(hours: list[int]) -> None:
    if not hours:
        raise _wrong("holds no hours", expected=f"{_DAY} of them", got="a header alone")
    whole = -(-(hours[-1] + 1) // _DAY) * _DAY
    missing = [hour for hour in range(whole) if hour not in set(hours)]
    if missing:
        told = ", ".join(map(str, missing[:6])) + (" and more" if len(missing) > 6 else "")
        one = "hour" if len(missing) == 1 else "hours"
        remedy = "hours count from 0" if hours[0] == 1 else None
        got = f"none for the {one} {told}"
        raise _wrong("has gaps", expected=f"the hours 0 to {whole - 1}, each once", got=got, remedy=remedy)


def _wrong(what: str, *, expected: str, got: str, remedy: str | None = None) -> InputError:
    return InputError(f"the demand curve: {what}", expected=expected, got=got, remedy=remedy, field=FIELD)
