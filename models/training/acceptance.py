"""What do `specworth train` and `specworth evaluate` do for acceptance? Fit, judge by what the fit did not see, write.

Nothing is drawn at random and nothing is dated: the same tables give the same bytes. Without measured acceptance the
published tables alone are written, and the card says so.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from models.acceptance.coefficients import write_coefficients
from models.artefact import FOLDER
from models.training.acceptance_card import acceptance_text, card_lines
from models.training.acceptance_evaluation import evaluate_rows, structured_table, with_spreads
from models.training.acceptance_features import FEATURES_FILE
from models.training.acceptance_fit import AcceptanceFit, coefficients_of_fit, fit_acceptance
from models.training.acceptance_priors import PRIORS, Published, read_published
from models.training.acceptance_rows import AcceptanceRows, joined_rows, read_rows
from models.training.acceptance_tables import coverage_table
from profiler.measurements.acceptance import CELLS_FILE, PROMPTS_FILE

TEXT = "acceptance.md"


def train_acceptance(*folders: Path, out: Path = FOLDER) -> tuple[Path, ...]:
    """Rebuild acceptance.json, its entry in the manifest, and acceptance.md in `out`; the written files.

    folders: of measurements; rows of all are learned from. Raises MeasurementsError.
    """
    rows, published = _read(folders)
    fit = fit_acceptance(rows, published)
    tables = _evaluate(rows, published, fit)
    coefficients = with_spreads(coefficients_of_fit(fit, published), tables.pop("spreads"), published)
    written = write_coefficients(coefficients, folder=out, data_sha256=acceptance_digest(*folders))
    (out / TEXT).write_text(acceptance_text(tables, coefficients), encoding="utf-8")
    return written, out / TEXT


def evaluate_acceptance(*folders: Path) -> dict[str, Any]:
    """Held-out figures: plain tables by family of folds, and the card's section as lines of Markdown under "text"."""
    rows, published = _read(folders)
    tables = _evaluate(rows, published, fit_acceptance(rows, published))
    del tables["spreads"]
    return tables | {"text": card_lines(tables)}


def acceptance_digest(*folders: Path) -> str:
    """SHA-256 over all tables that acceptance is learned from, the published prior included."""
    names = (CELLS_FILE, PROMPTS_FILE, FEATURES_FILE)
    paths = [PRIORS, *(folder / name for folder in folders for name in names if (folder / name).exists())]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _read(folders: tuple[Path, ...]) -> tuple[AcceptanceRows, Published]:
    return joined_rows([read_rows(folder) for folder in folders]), read_published()


def _evaluate(rows: AcceptanceRows, published: Published, fit: AcceptanceFit) -> dict[str, Any]:
    evaluated = evaluate_rows(rows, published, fit)
    spreads = evaluated.spreads
    shipped = with_spreads(coefficients_of_fit(fit, published), spreads, published)
    return {
        "rows": {
            "cells": len(np.unique(rows.cell)), "prompts": len(np.unique(rows.prompt)), "rows": len(rows),
            "drafts": int(rows.drafts.sum()), "kinds": len(np.unique(np.char.add(rows.prompt_set, rows.kind))),
        },
        "families": evaluated.families,
        "kinds": evaluated.kinds,
        "coverage": coverage_table(evaluated.held, shipped),
        "temperatures": evaluated.temperatures,
        "structured": structured_table(rows, published, fit),
        "published": published.document["left_out"],
        "published_lookup": published.document["lookup_left_out"],
        "spreads": spreads,
    }  # fmt: skip
