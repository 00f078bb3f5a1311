"""`specworth features`: what it takes and what it does; small enough for one module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def features(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Prompts in any shape that advise reads; - for standard input.")
    ],
    format: Annotated[str | None, typer.Option(help="Read FILE as that; a wrong name lists all.")] = None,
    column: Annotated[str | None, typer.Option(help="Column of a CSV or Parquet file that holds the prompts.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="The target's tokenizer.json; without it tokens are estimated.")
    ] = None,
    sample_size: Annotated[int, typer.Option(min=1, max=10_000, help="Prompts to draw from FILE.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of that draw.")] = 0,
) -> Callable[[], int]:
    """What do predictions need to know of the prompts in FILE? Prints it as JSON, without any of their text.

    \b
    Where nobody else is to see the prompts: choose the file in the explorer, or post it as `workload`.
      specworth features prompts.jsonl > features.json

    Shares of tasks, lengths, overlap, languages and a few counts: an answer with them is that with the prompts.
    """

    def job() -> int:
        from advisor.described import describe_sample, features_of
        from profiler.errors import InputError
        from profiler.prompts import read_prompts

        if tokenizer is not None and not tokenizer.is_file():
            got = f"{tokenizer}, which is no file"
            raise InputError("--tokenizer: cannot be read", expected="a tokenizer.json", got=got)
        sample = read_prompts(file, format=format, column=column, sample_size=sample_size, seed=seed)
        print(features_of(describe_sample(sample, tokenizer=tokenizer)).model_dump_json(indent=1))
        return 0

    return job
