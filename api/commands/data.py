"""`specworth data check` and `specworth data plot`: what they take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from api.commands.group import Group

app = typer.Typer(
    cls=Group,
    help="""The measured data set that the predictions rest on: what it covers, and how its speedups run.

\b
  specworth data check
  specworth data plot --out plots""",
    rich_markup_mode=None,
)
Folder = Annotated[Path, typer.Option("--data", help="Folder of the tables; they are part of a checkout.")]
_HERE = Path("data/measurements")


@app.command("check")
def check(data: Folder = _HERE) -> Callable[[], int]:
    """Coverage, defects, noise, and whether every file satisfies its schema. For example: specworth data check"""

    def job() -> int:
        from api.commands.run_data import run_check

        return run_check(data)

    return job


@app.command("plot")
def plot(
    out: Annotated[Path, typer.Option("--out", help="Folder for the PNG files.")],
    data: Folder = _HERE,
) -> Callable[[], int]:
    """Speedup over concurrency by method, context and class. For example: specworth data plot --out plots"""

    def job() -> int:
        from api.commands.run_data import run_plot

        return run_plot(data, out)

    return job
