"""What must a fit not see when it predicts a cell? Groups of cells, never random ones.

Cells of one target share its baseline, cells of one method and k its drafting; random folds would leave both in the
fit. With a target out its baseline rows are out too, so that both arms of its speedups are extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.training.cells import Cells, Mask

TARGET_OUT = "one target out"
METHOD_OUT = "one method and k out"
POINTS_OUT = "traffic points out"
HIGH_OUT = "concurrency >= 128 out"
LONG_OUT = "context >= 4096 out"
FAMILIES = (TARGET_OUT, METHOD_OUT, HIGH_OUT, LONG_OUT, POINTS_OUT)
_HIGH, _LONG, _PARTS = 128, 4096, 5


@dataclass(frozen=True, slots=True)
class Fold:
    """One group: the rows to predict, and those that the fit must not see (they include the former)."""

    name: str
    rows: Mask
    hidden: Mask


def folds(cells: Cells) -> dict[str, list[Fold]]:
    """The folds of each family; every judged cell is in at most one fold of a family."""

    def fold(name: str, rows: Mask) -> Fold:
        return Fold(name, rows, rows)

    pairs = sorted(set(zip(cells.method[cells.judged], cells.num_speculative_tokens[cells.judged], strict=True)))
    found = {
        TARGET_OUT: [fold(str(target), cells.target == target) for target in np.unique(cells.target)],
        METHOD_OUT: [
            fold(f"{method} k={k:g}", (cells.method == method) & (cells.num_speculative_tokens == k))
            for method, k in pairs
        ],
        HIGH_OUT: [fold(f">= {_HIGH} sequences", cells.concurrency >= _HIGH)],
        LONG_OUT: [fold(f">= {_LONG} tokens", cells.input_tokens >= _LONG)],
        POINTS_OUT: [fold(f"part {part + 1} of {_PARTS}", cells.point % _PARTS == part) for part in range(_PARTS)],
    }
    return {family: [part for part in parts if part.rows.any()] for family, parts in found.items()}
