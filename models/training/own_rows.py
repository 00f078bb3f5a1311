"""What do a user's own rows change for the user? Errors on rows that neither fit saw, before and after they joined.

Before: the constants of the first folder's cells alone. After: those of all cells but the held-out traffic points of
the user's. The held-out rows are the same for both, baseline included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.training.cells import Cells
from models.training.metrics import Score, score
from models.training.step_cost import fit, predict

_PARTS = 5


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Scores on the user's rows by constants that knew none of them, and by constants that knew the other points."""

    before: Score
    after: Score


def compare_own_rows(cells: Cells) -> OwnRows | None:
    """Of cells read from several folders; None where the later ones have no speculative cell with a baseline."""
    own = (cells.folder > 0) & cells.judged
    if not own.any():
        return None
    ours = fit(cells, cells.folder == 0)
    before = predict(cells, ours.constants).end_to_end
    after = np.full(len(cells), np.nan)
    points = np.unique(cells.point[own], return_inverse=True)[1]
    part = np.full(len(cells), -1)
    part[own] = points % _PARTS
    for which in np.unique(part[own]):
        hidden_points = np.unique(cells.point[part == which])
        hidden = (cells.folder > 0) & np.isin(cells.point, hidden_points)
        rows = part == which
        after[rows] = predict(cells, fit(cells, ~hidden, start=ours).constants).end_to_end[rows]
    truth = cells.speedup[own]
    return OwnRows(score(before[own], truth), score(after[own], truth))
