"""What do `specworth train` and `specworth evaluate` do for acceptance? Fit, judge by what the fit did not see, write.

Nothing is drawn at random and nothing is dated: the same tables give the same bytes. Without measured acceptance the
published tables alone are written, and the card says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.acceptance.coefficients import AcceptanceCoefficients, write_coefficients
from models.training.acceptance_card import acceptance_text, card_lines
from models.training.acceptance_evaluation import evaluate_rows, structured_table, with_spreads
from models.training.acceptance_features import FEATURES_FILE
from models.training.acceptance_fit import coefficients_of_fit, fit_acceptance
from models.training.acceptance_priors import PRIORS, read_published
from models.training.acceptance_rows import joined_rows, read_rows
from models.training.acceptance_tables import coverage_table
from profiler.measurements.acceptance import CELLS_FILE, PROMPTS_FILE

TEXT = "acceptance.md"


def train_acceptance(*folders: Path, out: Path) -> dict[str, Any]:
    """Rebuild acceptance.json, its entry in the manifest, and acceptance.md in `out`; gives the held-out figures, too.

    folders: of measurements; rows of all are learned from. Raises MeasurementsError.
    """
    coefficients, tables = _judged(folders)
    write_coefficients(coefficients, folder=out, data_sha256=acceptance_digest(*folders))
    (out / TEXT).write_text(acceptance_text(tables, coefficients), encoding="utf-8")
    return _part(tables)


def evaluate_acceptance(*folders: Path) -> dict[str, Any]:
    """Held-out figures: plain tables by family of folds, and the card's section as lines of Markdown under "text"."""
    _, tables = _judged(folders)
    return _part(tables)


def _part(tables: dict[str, Any]) -> dict[str, Any]:
    return tables | {"text": card_lines(tables)}


def acceptance_digest(*folders: Path) -> str:
    """SHA-256 over all tables that acceptance is learned from, the published prior included."""
    names = (CELLS_FILE, PROMPTS_FILE, FEATURES_FILE)
    paths = [PRIORS, *(folder / name for folder in folders for name in names if (folder / name).exists())]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _judged(folders: Sequence[Path]) -> tuple[AcceptanceCoefficients, dict[str, Any]]:
    """What ships and the tables that judge it."""
    rows, published = joined_rows([read_rows(folder) for folder in folders]), read_published()
    fit = fit_acceptance(rows, published)
    evaluated = evaluate_rows(rows, published, fit)
    shipped = with_spreads(coefficients_of_fit(fit, published), evaluated.spreads, published)
    tables: dict[str, Any] = {
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
    }  # fmt: skip
    return shipped, tables
