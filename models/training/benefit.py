"""Does a classifier tell better than the composed prediction alone whether speculation pays, and which one ships?

What ships is the composition alone, or the composition with a calibrated slope where that has the lower held-out log
loss with a target out. The other competitors of `benefit_learners` would have to be better by far to be worth that they
contradict the predicted speedup or need a dozen more inputs; the table tells whether they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.acceptance import AcceptanceModel
from models.acceptance.coefficients import ARTEFACT as ACCEPTANCE
from models.acceptance.coefficients import coefficients_of
from models.artefact import MANIFEST, read_manifest, read_numbers, write_numbers
from models.benefit.classifier import ARTEFACT, FEATURES
from models.benefit.classifier import COMPOSITION as COMPOSITION_KIND
from models.benefit.classifier import SLOPE as SLOPE_KIND
from models.estimate import Floats
from models.structure import STRUCTURES
from models.training.benefit_folds import (
    ALL_THRESHOLDS,
    BENEFIT_FAMILIES,
    MODES,
    Scores,
    held_out_scores,
    training_questions,
)
from models.training.benefit_learners import COMPOSITION, LEARNERS, SLOPE, slope_of
from models.training.benefit_rows import THRESHOLDS, Nested, balanced
from models.training.cells import Cells
from models.training.folds import TARGET_OUT
from models.training.held_out import workers_for
from profiler.measurements import read_cells, read_engines
from profiler.measurements.table import CELLS_FILE

EQUAL_LOG_LOSS = 0.005  # below it the simpler of two is kept


@dataclass(frozen=True, slots=True)
class Ablation:
    """Held-out scores of all competitors by family of folds, and how often the questions pay."""

    scores: dict[str, Scores]
    pays: dict[str, float]
    slope: float  # calibrated on everything
    cells: int
    targets: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain mappings of rounded numbers."""
        return {
            "cells": self.cells,
            "targets": list(self.targets),
            "pays": {name: round(share, 4) for name, share in self.pays.items()},
            "families": {
                family: {
                    mode: {
                        asked: {
                            name: {key: round(value, 4) for key, value in asdict(score).items()}
                            for name, score in its.items()
                        }
                        for asked, its in tables.items()
                    }
                    for mode, tables in scores.items()
                }
                for family, scores in self.scores.items()
            },
        }


def train_benefit(found: Ablation, out: Path, *, data_sha256: str) -> None:
    """Choose between the composition alone and its calibrated slope by their scores with a target out; write to `out`.

    The composition alone ships where cells of one target are all there is.
    """
    scores = found.scores.get(TARGET_OUT)
    held_out = {} if scores is None else {name: decisive_log_loss(scores, name) for name in (COMPOSITION, SLOPE)}
    better = bool(held_out) and held_out[SLOPE] < held_out[COMPOSITION] - EQUAL_LOG_LOSS
    numbers = {
        "kind": SLOPE_KIND if better else COMPOSITION_KIND,
        "slope": round(found.slope, 4),
        "held_out_log_loss": {name: round(value, 4) for name, value in held_out.items()},
        "data": {"file": CELLS_FILE, "sha256": data_sha256, "cells": found.cells},
        "thresholds": [round(threshold, 4) for threshold in THRESHOLDS],
    }
    write_numbers(ARTEFACT, numbers, features=FEATURES, folder=out, data_sha256=data_sha256)


def evaluate_benefit(
    cells: Cells, *, folders: Sequence[Path], artefacts: Path, families: Sequence[str] = BENEFIT_FAMILIES,
    processes: int | None = None,
) -> Ablation:  # fmt: skip
    """The held-out table of all competitors.

    folders: those that the cells were read from, for the engines' memory. artefacts: the folder whose acceptance model
    predicts, the shipped one where it has none. Raises MeasurementsError.
    """
    spare, names = spare_memory(cells, folders), [learner.name for learner in LEARNERS]
    acceptance = acceptance_of(artefacts)
    processes = workers_for(cells) if processes is None else processes
    scores = {}
    for family in families:
        found = held_out_scores(cells, family, names, spare=spare, acceptance=acceptance, processes=processes)
        if found is not None:
            scores[family] = found
    everything = training_questions(Nested(cells, acceptance), np.ones(len(cells), dtype=np.bool_), spare=spare)
    pays = {
        "each question alike": float(everything.pays.mean()),
        "each target, method, k and band alike": float((balanced(cells, everything) * everything.pays).sum()),
        "as the workload": float((everything.weight * everything.pays).sum() / everything.weight.sum()),
    }
    targets = tuple(np.unique(cells.target[cells.judged]).tolist())
    return Ablation(scores, pays, slope_of(cells, everything), int(cells.judged.sum()), targets)


def decisive_log_loss(scores: Mapping[str, Mapping[str, Mapping[str, Any]]], name: str) -> float:
    """By which competitors are compared: mean of both ways of knowing acceptance, thresholds 1.0 to 1.5."""
    return float(np.mean([scores[mode][ALL_THRESHOLDS][name].log_loss for mode in MODES]))


def spare_memory(cells: Cells, folders: Sequence[Path]) -> Floats:
    """KV tokens of each cell's engine, as vLLM logged them, over the tokens that its requests hold."""
    found: dict[str, float] = {}
    for folder in folders:
        tokens = {engine["engine_id"]: engine["kv_cache_tokens"] for engine in read_engines(folder)}
        found |= {row["cell_id"]: tokens.get(row["engine_id"]) or np.nan for row in read_cells(folder)}
    known = np.array([found.get(str(cell), np.nan) for cell in cells.cell_id], dtype=np.float64)
    spare = known / (cells.concurrency * (cells.input_tokens + cells.output_tokens))
    return np.where(np.isfinite(spare), spare, np.nanmedian(spare) if np.isfinite(spare).any() else 1.0)


def acceptance_of(folder: Path) -> AcceptanceModel:
    """The acceptance model of a folder of artefacts, read anew; the shipped one where the folder has none."""
    has_one = (folder / MANIFEST).exists() and ACCEPTANCE in read_manifest(folder)
    numbers = read_numbers(ACCEPTANCE, features=STRUCTURES, folder=folder if has_one else None)
    return AcceptanceModel.of(coefficients_of(numbers))
