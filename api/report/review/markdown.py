"""How does a review become one Markdown file? Headings, lists, tables and code that every renderer has; no pictures.

Where HTML has a chart, Markdown has what it says in words and the table of its numbers.
"""

from __future__ import annotations

from api.report.content import Points
from api.report.markdown import escaped, fenced, table
from api.report.review.document import Block, Code, Facts, Figure, Grid, Prose, Review


def markdown(review: Review) -> str:
    """The review as one Markdown document."""
    parts = [
        f"# {escaped(review.subject)}",
        f"{escaped(review.kind)}: **{escaped(review.mark)}**",
        escaped(review.decision),
    ]
    for number, section in enumerate(review.sections, start=1):
        parts.append(f"## {number}. {escaped(section.title)}")
        parts += [_block(block) for block in section.blocks]
    made = review.made_at.strftime("%d %B %Y, %H:%M:%S %Z")
    parts.append(f"Made by specworth {review.version} on {made}.")
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Prose):
        return escaped(block.text)
    if isinstance(block, Points):
        return _listed(block.lines)
    if isinstance(block, Facts):
        return "\n\n".join(f"**{escaped(term)}**\n\n{_listed(lines)}" for term, lines in block.entries)
    if isinstance(block, Code):
        return f"{escaped(block.label)}:\n\n{fenced(block.text, block.language)}"
    if isinstance(block, Grid):
        return _grid(block)
    assert isinstance(block, Figure)
    return f"{escaped(block.title)}. {escaped(block.description)}\n\n{_grid(block.numbers)}"


def _listed(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def _grid(grid: Grid) -> str:
    return f"**{escaped(grid.caption)}**\n\n{table(grid.table)}"
