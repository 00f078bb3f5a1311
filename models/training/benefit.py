"""Does a classifier tell better than the composed prediction alone whether speculation pays, and which one ships?

Every competitor of `benefit_learners` is trained on the questions of what a fold leaves and judged on the fold, whose
compositions come from a fit without it. What ships is the composition alone, or the composition with a calibrated slope
where that has the lower held-out log loss with a target out. The others would have to be better by far to be worth that
they contradict the predicted speedup or need a dozen more inputs; the table shows that they are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.artefact import write_numbers
from models.benefit.classifier import ARTEFACT, FEATURES
from models.benefit.classifier import COMPOSITION as COMPOSITION_KIND
from models.benefit.classifier import SLOPE as SLOPE_KIND
from models.estimate import Floats
from models.training.benefit_learners import COMPOSITION, LEARNERS, SLOPE, Learner, slope_of
from models.training.benefit_rows import GIVEN, PREDICTED, THRESHOLDS, Nested, Questions, balanced, questions
from models.training.cells import Cells, Mask
from models.training.folds import FAMILIES, TARGET_OUT, Fold, folds
from profiler.measurements import read_cells, read_engines
from profiler.measurements.table import CELLS_FILE

MODES = (GIVEN, PREDICTED)
DECIDED_AT = 1.05  # the policy's default min_speedup
ALL_THRESHOLDS = "1.0 to 1.5"
ASKED: dict[str, tuple[float, ...]] = {ALL_THRESHOLDS: THRESHOLDS, f"{DECIDED_AT:g}": (DECIDED_AT,)}
EQUAL_LOG_LOSS = 0.005  # below it the simpler of two is kept
_BINS = 10


@dataclass(frozen=True, slots=True)
class BenefitScore:
    """How well probabilities hold on weighted questions that no fit saw."""

    questions: int
    log_loss: float
    brier: float
    calibration_error: float  # mean |share that pays - told|, ten equally wide bins
    balanced_accuracy: float
    regret: float  # share of the speed lost against always choosing right; the threshold is what enabling must earn
    contradicting: float  # share of the questions decided against the side of the composed prediction


@dataclass(frozen=True, slots=True)
class Ablation:
    """family -> mode -> thresholds ("1.0 to 1.5" or "1.05") -> competitor -> score."""

    scores: dict[str, dict[str, dict[str, dict[str, BenefitScore]]]]
    pays: dict[str, float]  # share of the questions that pays: as measured, balanced, as weighted
    cells: int
    targets: tuple[str, ...]


def train_benefit(cells: Cells, out: Path, *, data_sha256: str) -> None:
    """Choose between the composition alone and its calibrated slope with each target out, fit, and write to `out`."""
    nested = Nested(cells)
    learners = [learner for learner in LEARNERS if learner.name in (COMPOSITION, SLOPE)]
    scores = _family(nested, _judged_parts(cells, TARGET_OUT), learners, spare=np.ones(len(cells)))
    held_out = {learner.name: decisive_log_loss(scores, learner.name) for learner in learners}
    better = held_out[SLOPE] < held_out[COMPOSITION] - EQUAL_LOG_LOSS
    slope = slope_of(_training(nested, np.ones(len(cells), dtype=np.bool_), spare=np.ones(len(cells))))
    numbers = {
        "kind": SLOPE_KIND if better else COMPOSITION_KIND,
        "slope": round(slope, 4),
        "held_out_log_loss": {name: round(value, 4) for name, value in held_out.items()},
        "data": {"file": CELLS_FILE, "sha256": data_sha256, "cells": int(cells.judged.sum())},
        "thresholds": [round(threshold, 4) for threshold in THRESHOLDS],
    }
    write_numbers(ARTEFACT, numbers, features=FEATURES, folder=out, data_sha256=data_sha256)


def evaluate_benefit(cells: Cells, *, folders: Sequence[Path]) -> Ablation:
    """The held-out table of all competitors; folders: those that the cells were read from, for the engines' memory."""
    nested, spare = Nested(cells), spare_memory(cells, folders)
    scores = {
        family: _family(nested, parts, LEARNERS, spare=spare)
        for family in FAMILIES
        if (parts := _judged_parts(cells, family))
    }
    everything = _training(nested, np.ones(len(cells), dtype=np.bool_), spare=spare)
    pays = {
        "each question alike": float(everything.pays.mean()),
        "each target, method, k and band alike": float((balanced(cells, everything) * everything.pays).sum()),
        "as the workload": float((everything.weight * everything.pays).sum() / everything.weight.sum()),
    }
    return Ablation(scores, pays, int(cells.judged.sum()), tuple(np.unique(cells.target[cells.judged]).tolist()))


def decisive_log_loss(scores: Mapping[str, Mapping[str, Mapping[str, BenefitScore]]], name: str) -> float:
    """By which learners are compared: held out by target, mean of both modes, thresholds 1.0 to 1.5."""
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


def _judged_parts(cells: Cells, family: str) -> list[Fold]:
    return [part for part in folds(cells)[family] if (part.rows & cells.judged).any()]


def _training(nested: Nested, seen: Mask, *, spare: Floats) -> Questions:
    """Both modes of every question about what is seen."""
    found = nested.compose(seen)
    tables = [questions(nested.cells, found, seen, thresholds=THRESHOLDS, mode=mode, spare=spare) for mode in MODES]
    return Questions.joined(tables)


def _family(
    nested: Nested, parts: Sequence[Fold], learners: Sequence[Learner], *, spare: Floats
) -> dict[str, dict[str, dict[str, BenefitScore]]]:
    """mode -> thresholds -> learner -> score over all folds of a family, each fold with the same weight."""
    cells = nested.cells
    asked: dict[tuple[str, str], list[Questions]] = {}
    told: dict[tuple[str, str], list[dict[str, _Told]]] = {}
    for part in parts:
        training = _training(nested, ~part.hidden, spare=spare)
        fitted = {learner.name: learner.fit(cells, training) for learner in learners}
        found = nested.compose(~part.hidden)
        for mode in MODES:
            for name, thresholds in ASKED.items():
                own = questions(cells, found, part.rows, thresholds=thresholds, mode=mode, spare=spare)
                asked.setdefault((mode, name), []).append(own)
                told.setdefault((mode, name), []).append(
                    {learner.name: _tell(learner, cells, own, fitted[learner.name](own)) for learner in learners}
                )
    scores: dict[str, dict[str, dict[str, BenefitScore]]] = {mode: {} for mode in MODES}
    for (mode, name), tables in asked.items():
        whole = Questions.joined(tables)
        scores[mode][name] = {
            learner.name: _score(
                cells,
                whole,
                np.concatenate([table[learner.name].probability for table in told[mode, name]]),
                np.concatenate([table[learner.name].enabled for table in told[mode, name]]),
            )
            for learner in learners
        }
    return scores


@dataclass(frozen=True, slots=True)
class _Told:
    probability: Floats
    enabled: Mask


def _tell(learner: Learner, cells: Cells, asked: Questions, probability: Floats) -> _Told:
    decided = probability if learner.decide is None else learner.decide(cells, asked)
    return _Told(probability, decided >= 0.5)


def _score(cells: Cells, asked: Questions, p: Floats, enabled: Mask) -> BenefitScore:
    w = asked.weight / asked.weight.sum()
    held = np.clip(p, 1e-6, 1.0 - 1e-6)
    pays = asked.pays
    bins = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
    right = [float((w * (enabled == side))[pays == side].sum() / w[pays == side].sum())
             for side in (True, False) if (pays == side).any()]  # fmt: skip
    gain = cells.speedup[asked.cell] / asked.threshold
    return BenefitScore(
        questions=len(asked),
        log_loss=float(-(w * np.log(np.where(pays, held, 1.0 - held))).sum()),
        brier=float((w * (pays - p) ** 2).sum()),
        calibration_error=float(np.abs(np.bincount(bins, weights=w * (pays - p), minlength=_BINS)).sum()),
        balanced_accuracy=float(np.mean(right)),
        regret=float((w * (1.0 - np.where(enabled, gain, 1.0) / np.maximum(gain, 1.0))).sum()),
        contradicting=float((w * (enabled != (asked.prediction >= asked.threshold))).sum()),
    )
