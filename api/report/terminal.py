"""How does a terminal show a report? Colours where they are wanted, any width, nothing that could steer the terminal.

Rich decides colours and width: NO_COLOR and output that is no terminal are plain. Text of the user's files can hold
control characters; they are shown, not sent.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from api.report.content import Chart, Command, Points, Report, Section, Table

_WIDEST = 100  # of running text: longer lines are hard to read
_NARROWEST = 20
_NAME_CELLS = 24  # that a table's first column needs to be read
_PIPED = 100  # columns where there is no terminal to ask


def printable(text: str) -> str:
    """Control characters written out, so that no text from a file can move the cursor or change a colour."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def console_for(stream: TextIO | None = None) -> Console:
    """A console on standard output, or on `stream`."""
    stream = stream or sys.stdout
    width = None if _asked_width(stream) else _PIPED
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if console.width < _NARROWEST:
        console.width = _NARROWEST
    return console


def _asked_width(stream: TextIO) -> bool:
    """Is there a terminal, or somebody who names a width?"""
    return stream.isatty() or os.environ.get("COLUMNS", "").isdigit()


def _narrow(stream: TextIO) -> bool:
    """Does the stream's encoding lack block characters?"""
    try:
        "█▏•─".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def print_report(report: Report, stream: TextIO | None = None) -> None:
    """Print all of a report."""
    console = console_for(stream)
    width = min(console.width, _WIDEST)
    plain = _narrow(stream or sys.stdout)
    style = "bold green" if report.enable and report.decisive else "bold yellow" if not report.decisive else "bold red"
    console.print(Text(printable(report.headline), style=style), width=width)
    for section in report.sections:
        console.print()
        console.print(Text(printable(section.title), style="bold"), width=width)
        if isinstance(section.body, Command):
            _print_command(console, section.body)
        else:
            console.print(Padding(_rendered(section, width - 2, plain=plain), (0, 0, 0, 2), expand=False), width=width)


def print_table(title: str, table: Table, notes: tuple[str, ...] = ()) -> None:
    """Print one table of its own, with notes under it."""
    console = console_for()
    console.print(Text(printable(title), style="bold"))
    if not _asked_width(sys.stdout):  # a file or a pipe has any width: a name that is cut cannot be found again
        console.width = max(console.width, _natural_width(table))
    console.print(_table(table, console.width))
    for note in notes:
        console.print(Text(printable(note)))


def _rendered(section: Section, width: int, *, plain: bool) -> RenderableType:
    body = section.body
    if isinstance(body, Table):
        return _table(body, width)
    if isinstance(body, Points):
        return _points(body, plain=plain)
    assert isinstance(body, Chart)
    return _chart(body, width, plain=plain)


def _natural_width(table: Table) -> int:
    """Columns of text that a table takes where nothing is folded."""
    columns = zip(table.header, *table.rows, strict=True)
    widths = [max(map(cell_len, column)) for column in columns]
    return sum(widths) + 2 * len(widths)


def _table(table: Table, width: int) -> RenderableType:
    """A grid; where the width leaves the first column too little, each row as its name and its cells under it."""
    numbers = [max(len(row[i]) for row in (table.header, *table.rows)) for i in range(1, len(table.header))]
    names = max(len(row[0]) for row in (table.header, *table.rows))
    if width - sum(numbers) - 2 * len(numbers) < min(names, _NAME_CELLS):
        return _stacked(table)
    grid = RichTable(box=None, pad_edge=False, show_header=any(table.header), header_style="dim")
    for index, head in enumerate(table.header):
        grid.add_column(
            Text(printable(head)), justify="right" if index else "left", overflow="fold", no_wrap=bool(index)
        )
    for row in table.rows:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    return _with_notes(grid, table)


def _with_notes(shown: RenderableType, table: Table) -> RenderableType:
    return Group(shown, *(Text(printable(note)) for note in table.notes)) if table.notes else shown


def _stacked(table: Table) -> RenderableType:
    lines = []
    for row in table.rows:
        lines.append(Text(printable(row[0]), style="dim"))
        cells = (f"{head} {cell}".strip() for head, cell in zip(table.header[1:], row[1:], strict=True) if cell)
        lines.append(Text(printable("  " + ", ".join(cells))))
    return _with_notes(Group(*lines), table)


def _points(points: Points, *, plain: bool) -> RichTable:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for line in points.lines:
        grid.add_row("-" if plain else "•", Text(printable(line)))
    return grid


def _chart(chart: Chart, width: int, *, plain: bool) -> RenderableType:
    """Bars from 0; a mark stands where the speedup is 1."""
    full, mark = ("#", "|") if plain else ("█", "┃")
    label_width = max(len(f"{bar.concurrency:,}") for bar in chart.bars)
    note_width = max(len(bar.note) for bar in chart.bars) + 3
    cells = max(8, min(40, width - label_width - note_width - 9))
    largest = max(1.25, *(bar.value for bar in chart.bars))
    one = round(cells / largest)
    lines: list[RenderableType] = []
    for index, bar in enumerate(chart.bars):
        if chart.crosses_before(index):
            rule = ("-" if plain else "─") * 3
            lines.append(Text(f"{' ' * label_width} {rule} pays up to {chart.crossover:,} {rule}", style="bold"))
        length = max(0, min(cells, round(bar.value / largest * cells)))
        drawn = list(full * length + " " * (cells - length))
        drawn[min(one, cells - 1)] = mark
        line = Text(f"{bar.concurrency:>{label_width},} ")
        line.append("".join(drawn), style="green" if bar.pays else "red")
        line.append(f" {bar.value:.2f}x")
        if bar.note:
            line.append(f" {'<' if plain else '◀'} {bar.note}", style="bold")
        line.no_wrap = True
        line.overflow = "crop"
        lines.append(line)
    return Group(*lines, Text(f"{mark} marks 1.00x. {chart.caption}"))


def _print_command(console: Console, command: Command) -> None:
    """As it is, whatever the width: it is there to be copied."""
    text = " \\\n".join(f"  {printable(line)}" for line in command.lines)
    console.print(Text(text), soft_wrap=True)
