"""How does a Markdown file show a report? Tables, lists and code blocks that every renderer has."""

from __future__ import annotations

import re

from api.report.content import Chart, Command, Points, Report, Section, Table
from api.report.terminal import printable

_BAR_CELLS = 30


def markdown(report: Report) -> str:
    """The report as one Markdown document."""
    parts = [f"# {escaped(report.headline)}"]
    for section in report.sections:
        parts += [f"## {escaped(section.title)}", _body(section)]
    return "\n\n".join(parts) + "\n"


def _body(section: Section) -> str:
    body = section.body
    if isinstance(body, Table):
        return table(body)
    if isinstance(body, Points):
        return "\n".join(f"- {escaped(line)}" for line in body.lines)
    if isinstance(body, Chart):
        return _chart(body)
    assert isinstance(body, Command)
    return fenced(" \\\n".join(body.lines), "sh")


def table(table: Table) -> str:
    """A table, its notes under it."""
    notes = "".join(f"\n\n{escaped(note)}" for note in table.notes)
    rows = [table.header, tuple("---" if i == 0 else "---:" for i in range(len(table.header))), *table.rows]
    return (
        "\n".join(
            "| " + " | ".join(escaped(cell) if cell[:3] != "---" else cell for cell in row) + " |" for row in rows
        )
        + notes
    )


def _chart(chart: Chart) -> str:
    largest = max(bar.value for bar in chart.bars)
    width = max(len(f"{bar.concurrency:,}") for bar in chart.bars)
    lines = []
    for index, bar in enumerate(chart.bars):
        if chart.crosses_before(index):
            lines.append(f"{' ' * width} --- pays up to {chart.crossover:,} ---")
        cells = "█" * round(bar.value / largest * _BAR_CELLS)
        note = f"  {bar.note}" if bar.note else ""
        lines.append(f"{bar.concurrency:>{width},} {cells:<{_BAR_CELLS}} {bar.value:.2f}x{note}")
    return fenced("\n".join(lines), "text") + f"\n\n{escaped(chart.caption)}"


def fenced(text: str, language: str) -> str:
    """Text as it is, in a fence longer than any in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n{printable(text)}\n{fence}"


def escaped(text: str) -> str:
    """Text that stays text: no markup, no HTML, no cell border."""
    return re.sub(r"([\\`*_{}\[\]<>#|&$~])", r"\\\1", printable(text).replace("\n", " "))
