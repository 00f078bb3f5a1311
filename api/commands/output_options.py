"""Options that say how an answer is shown and where it goes: the same words for every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the HTTP service's answer instead.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE.md", help="Write a Markdown report, too.")]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html|FILE.md", help="Write a report for a review, with charts and how to repeat it."),
]
