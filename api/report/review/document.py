"""What is a review made of? Sections of prose, points, facts, tables, code and figures, the same for every rendering.

A figure holds the numbers that it draws, and beside it stands a table with the same numbers: nothing is told by a
picture alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from api.report.content import Points, Table


@dataclass(frozen=True)
class Prose:
    """One paragraph."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Terms, each with what there is to say of it, one sentence a line."""

    entries: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Code:
    """Text to copy as it is; `label` says what it is."""

    label: str
    text: str
    language: str = "sh"


@dataclass(frozen=True)
class Grid:
    """A table under its caption."""

    caption: str
    table: Table


@dataclass(frozen=True)
class Reading:
    """A value with its bounds; None where it has none."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Curve:
    """Speedups over concurrency: a line with its band, single readings with their bars, and what decides."""

    y_label: str
    level: float  # of the band and of the bars
    line: tuple[tuple[int, Reading], ...]  # predicted
    measured: tuple[tuple[int, Reading], ...]
    threshold: float
    pays: tuple[tuple[int, int], ...] = ()  # ranges of concurrency
    crossover: int | None = None
    here: int | None = None  # the asked concurrency


@dataclass(frozen=True)
class Bars:
    """One reading a label; `upright` bars stand, the others lie."""

    axis: str
    bars: tuple[tuple[str, Reading], ...]
    upright: bool
    form: str = ".2f"
    most: float | None = None  # the end of the axis, where it has one
    start: float = 0.0  # where bars begin


@dataclass(frozen=True)
class Stack:
    """Parts of a whole, one lying bar a row: `parts` has for each part its name and one value a row."""

    axis: str
    rows: tuple[str, ...]
    parts: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class Figure:
    """A chart, what can be seen on it in words, and its numbers."""

    name: str  # in ids: letters and hyphens
    title: str
    description: str
    chart: Curve | Bars | Stack
    numbers: Grid


Block = Prose | Points | Facts | Code | Grid | Figure


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    name: str  # in ids: letters and hyphens
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Review:
    """The whole document."""

    kind: str  # "recommendation", "measurement": what was decided from
    subject: str  # what it is about
    mark: str  # the decision in a word or two
    decision: str  # in a sentence, with its figures
    made_at: datetime
    version: str  # of specworth
    sections: tuple[Section, ...]
