"""Which structure does the project's own scorer see in the prompts whose acceptance was measured?

    python -m models.training.acceptance_features own=data/acceptance_prompts.jsonl ... --into data/measurements

Acceptance is learned from what a user's prompts will be known by: the scorer's class probabilities, never the label
that a prompt file gives a prompt. They are kept beside the measurements, without any text, so that sets whose text is
not part of the project can be learned from, too. Each row names the scorer that made it; rows of an older one must be
made anew.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.estimate import Floats
from models.structure import STRUCTURES, structure_probabilities
from models.structure.artefact import NUMBERS, read_card
from profiler.errors import SpecworthError
from profiler.measurements import MeasurementsError
from profiler.prompts import prompts_from_objects
from profiler.sweep.acceptance_grid import AcceptanceGrid, read_asked_prompts

FEATURES_FILE = "acceptance_features.csv"
_HEAD = ("prompt_set", "prompt", "scorer")
_COLUMNS = (*_HEAD, *STRUCTURES)

PromptKey = tuple[str, int]  # prompt set, record of its file


def scorer_version() -> str:
    """The start of the installed scorer's SHA-256."""
    return str(read_card()["sha256"][NUMBERS])[:12]


def score_prompts(prompt_set: str, file: Path) -> dict[PromptKey, Floats]:
    """Class probabilities of each prompt that a sweep would ask of a file."""
    grid = AcceptanceGrid(models={}, prompts={prompt_set: file.name}, prompts_per_class=10**6, engines=())
    asked = [prompt for group in read_asked_prompts(grid, file.parent).values() for prompt in group]
    sample = prompts_from_objects([{"messages": list(prompt.messages)} for prompt in asked])
    if len(sample.prompts) != len(asked):
        raise MeasurementsError(
            f"{file}: prompts that cannot be read", expected=str(len(asked)), got=str(len(sample.prompts))
        )
    scores = structure_probabilities(sample.prompts)
    return {(prompt_set, prompt.number): score for prompt, score in zip(asked, scores, strict=True)}


def write_features(folder: Path, found: dict[PromptKey, Floats]) -> int:
    """Add scores to the folder's table, replacing those of the same prompts; the number of rows then."""
    version = scorer_version()
    kept = {} if not (folder / FEATURES_FILE).exists() else read_features(folder)
    rows = sorted((kept | found).items())
    with (folder / FEATURES_FILE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([*key, version, *(f"{value:.4f}" for value in score)] for key, score in rows)
    return len(rows)


def read_features(folder: Path) -> dict[PromptKey, Floats]:
    """Class probabilities by prompt set and prompt; MeasurementsError where they are another scorer's."""
    path = folder / FEATURES_FILE
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            lines = list(csv.reader(stream))
    except OSError as error:
        raise MeasurementsError(
            f"cannot read {path}", got=str(error.strerror),
            remedy="make it with `python -m models.training.acceptance_features`",
        ) from error  # fmt: skip
    if not lines or tuple(lines[0]) != _COLUMNS:
        raise MeasurementsError(f"{path} has not the columns of this version", expected=", ".join(_COLUMNS))
    version = scorer_version()
    if any(line[2] != version for line in lines[1:]):
        raise MeasurementsError(
            f"{path} was made by another structure classifier", expected=version,
            remedy="make it anew with `python -m models.training.acceptance_features`",
        )  # fmt: skip
    return {(line[0], int(line[1])): _normalised(line[len(_HEAD) :]) for line in lines[1:]}


def _normalised(texts: Sequence[str]) -> Floats:
    values = np.array([float(text) for text in texts])
    scores: Floats = values / values.sum()
    return scores


def main(arguments: list[str] | None = None) -> int:
    """Score prompt files and add them to the table."""
    parser = argparse.ArgumentParser(prog="python -m models.training.acceptance_features", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE", help="prompt sets, named as when they were measured")
    parser.add_argument("--into", type=Path, default=Path("data/measurements"), help="folder of the tables")
    given = parser.parse_args(arguments)
    if any("=" not in named for named in given.files):
        parser.error("name each prompt set: NAME=FILE")
    try:
        found: dict[PromptKey, Floats] = {}
        for named in given.files:
            name, _, file = named.partition("=")
            found |= score_prompts(name, Path(file))
        print(f"{write_features(given.into, found)} prompts in {given.into / FEATURES_FILE}")
    except SpecworthError as error:
        print(error.line(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
