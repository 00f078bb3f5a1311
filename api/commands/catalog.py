"""`specworth catalog models` and `specworth catalog gpus`: what they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from api.commands.group import Group
from api.commands.output_options import AsJson

app = typer.Typer(
    cls=Group,
    help="""What is known by name: models, drafter heads and GPUs, with the source of every number.

\b
  specworth catalog models --search qwen3
  specworth catalog gpus --json""",
    rich_markup_mode=None,
)
Search = Annotated[str, typer.Option("--search", "-s", help="Part of a name; case and separators do not matter.")]


@app.command("models")
def list_models(search: Search = "", json: AsJson = False) -> Callable[[], int]:
    """Models and drafter heads. For example: specworth catalog models --search eagle3"""

    def job() -> int:
        from api.commands.run_catalog import run_models

        return run_models(search, as_json=json)

    return job


@app.command("gpus")
def list_gpus(search: Search = "", json: AsJson = False) -> Callable[[], int]:
    """Accelerators, with dense rates. For example: specworth catalog gpus --search h100"""

    def job() -> int:
        from api.commands.run_catalog import run_gpus

        return run_gpus(search, as_json=json)

    return job
