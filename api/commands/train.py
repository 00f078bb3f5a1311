"""`specworth train`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

_HERE = [Path("data/measurements")]


def train(
    data: Annotated[
        list[Path],
        typer.Option("--data", metavar="DIR", help="Folder of measured tables; again for your own rows."),
    ] = _HERE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Where to write; in place of the installed models if not given."
        ),
    ] = None,
) -> Callable[[], int]:
    """Rebuild the models and their card from measured tables. The same tables give the same files.

    \b
    From a checkout, in about a minute:
      specworth train
    With what you measured by `specworth sweep`, made a table by `python -m profiler.measurements mine --into tables`:
      specworth train --data data/measurements --data tables --out models-with-mine
      SPECWORTH_MODELS=models-with-mine specworth advise prompts.jsonl ...    # and serve, worker

    Rows of a second folder join the first's; the error on your own rows is told before and after, each time on rows
    that the fit did not see.
    """

    def job() -> int:
        from api.commands.run_train import run_train

        return run_train(data, out)

    return job
