"""What does it take to make the shipped models from measured tables? One call, the same files for the same tables.

Fit, leave each target out, calibrate intervals on what that leaves, write the numbers and their manifest. Nothing is
drawn at random and nothing is dated, so that training twice gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.artefact import write_numbers
from models.step_cost.constants import ARTEFACT, CONSTANTS
from models.training.acceptance import evaluate_acceptance, train_acceptance
from models.training.benefit import evaluate_benefit, train_benefit
from models.training.benefit_card import benefit_part, write_benefit_card
from models.training.card import build_card, step_cost_card, write_card
from models.training.cells import Cells
from models.training.evaluation import evaluate
from models.training.held_out import target_out_residuals
from models.training.intervals import calibrate
from models.training.own_rows import OwnRows, compare_own_rows
from models.training.step_cost import fit
from models.training.step_cost_numbers import step_cost_numbers
from profiler.measurements.table import CELLS_FILE


def data_digest(folders: Sequence[Path]) -> str:
    """SHA-256 over the cost cells of all folders."""
    return hashlib.sha256(b"".join((folder / CELLS_FILE).read_bytes() for folder in folders)).hexdigest()


def train_step_cost(cells: Cells, out: Path, *, data_sha256: str) -> None:
    """Fit the step cost, calibrate its intervals and write it to `out`."""
    every = np.ones(len(cells), dtype=np.bool_)
    fitted = fit(cells, every)
    residuals = target_out_residuals(cells, seen=every, start=fitted)
    end_to_end, tpot = (
        calibrate(cells, residual, np.isfinite(residual)) for residual in (residuals.end_to_end, residuals.tpot)
    )
    numbers = step_cost_numbers(cells, fitted, end_to_end, tpot, data_sha256=data_sha256)
    write_numbers(ARTEFACT, numbers, features=tuple(CONSTANTS), folder=out, data_sha256=data_sha256)


@dataclass(frozen=True, slots=True)
class Trained:
    """What training wrote, and what rows of later folders changed (None without any)."""

    card: dict[str, Any]
    own_rows: OwnRows | None


def train(folders: Sequence[Path], out: Path) -> Trained:
    """Rebuild every artefact and the card in `out` from folders of tables. Raises MeasurementsError."""
    cells, digest = Cells.read(*folders), data_digest(folders)
    train_step_cost(cells, out, data_sha256=digest)
    acceptance = train_acceptance(*folders, out=out)
    benefit = evaluate_benefit(cells, folders=folders, artefacts=out)
    train_benefit(benefit, out, data_sha256=digest)
    write_benefit_card(benefit, out)
    parts = _parts(cells, acceptance, benefit_part(benefit, out), folders=folders)
    card = build_card(parts, folders=folders, out=out)
    write_card(card, out)
    return Trained(card, compare_own_rows(cells))


def evaluate_all(cells: Cells, *, folders: Sequence[Path], artefacts: Path) -> dict[str, Any]:
    """The held-out figures of each model, as in the card; artefacts: the folder whose benefit classifier is told of."""
    benefit = evaluate_benefit(cells, folders=folders, artefacts=artefacts)
    return _parts(cells, evaluate_acceptance(*folders), benefit_part(benefit, artefacts), folders=folders)


def _parts(
    cells: Cells, acceptance: dict[str, Any], benefit: dict[str, Any], *, folders: Sequence[Path]
) -> dict[str, Any]:
    cost = step_cost_card(cells, evaluate(cells, folders=folders))
    return {"step_cost": cost, "acceptance": acceptance, "benefit": benefit}
