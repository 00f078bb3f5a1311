"""`specworth train`: rebuilds the artefacts, tells where they are, how good they are, and what own rows changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from api.commands.run_evaluate import print_aims, table_of_own_rows
from api.report.terminal import print_table
from models.artefact import FOLDER
from models.training.train import train


def run_train(data: Sequence[Path], out: Path | None) -> int:
    """Train, and print the aims beside what was reached; 0."""
    begin = time.monotonic()
    folder = FOLDER if out is None else out
    trained = train(data, folder)
    print_aims(trained.card["step_cost"]["aims"])
    if trained.own_rows is not None:
        print_table("\nYour own speculative rows, each predicted without it", table_of_own_rows(trained.own_rows))
    print(
        f"\n{len(trained.card['artefacts'])} artefacts and MODEL_CARD.md in {folder}, {time.monotonic() - begin:.0f} s"
    )
    return 0
