"""`specworth evaluate`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

_HERE = Path("data/measurements")


def evaluate(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder of the measured tables.")] = _HERE,
    json: Annotated[bool, typer.Option("--json", help="Every figure as JSON on standard output.")] = False,
) -> Callable[[], int]:
    """How far off are predictions where the fit did not look? Every figure of the model card, made anew.

    \b
      specworth evaluate
      specworth evaluate --json > held-out.json

    Whole groups are left out, never single cells: one target, one method and k, high concurrency, long contexts,
    traffic points. The same cells are predicted by what a fitted model has to beat.
    """

    def job() -> int:
        from api.commands.run_evaluate import run_evaluate

        return run_evaluate(data, as_json=json)

    return job
