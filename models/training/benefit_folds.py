"""How good is each way of telling whether speculation pays, on cells that neither it nor the prediction has seen?

For each fold the compositions, their spreads and the competitors are made from what the fold leaves, and all questions
about the fold are asked. Folds of which no row shares a baseline cell with what is left: targets, traffic points, high
concurrencies, long contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.acceptance import AcceptanceModel
from models.estimate import Floats
from models.training.benefit_learners import COMPOSITION, LEARNERS
from models.training.benefit_rows import GIVEN, PREDICTED, THRESHOLDS, Nested, Questions, questions
from models.training.cells import Cells, Mask
from models.training.folds import HIGH_OUT, LONG_OUT, POINTS_OUT, TARGET_OUT, Fold, folds
from models.training.held_out import each_of
from models.training.metrics import THRESHOLD

MODES = (GIVEN, PREDICTED)
BENEFIT_FAMILIES = (TARGET_OUT, HIGH_OUT, LONG_OUT, POINTS_OUT)
ALL_THRESHOLDS = "1.0 to 1.5"
ASKED: dict[str, tuple[float, ...]] = {ALL_THRESHOLDS: THRESHOLDS, f"{THRESHOLD:g}": (THRESHOLD,)}
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


# mode -> thresholds -> competitor -> score
Scores = dict[str, dict[str, dict[str, BenefitScore]]]


@dataclass(frozen=True, slots=True)
class _Told:
    """Questions about one fold, and of each competitor its probabilities and decisions."""

    asked: Questions
    probability: dict[str, Floats]
    enabled: dict[str, Mask]


@dataclass(frozen=True, slots=True)
class _Task:
    cells: Cells
    part: Fold
    names: tuple[str, ...]
    spare: Floats
    acceptance: AcceptanceModel


def held_out_scores(
    cells: Cells, family: str, names: Sequence[str], *, spare: Floats, acceptance: AcceptanceModel, processes: int = 1
) -> Scores | None:
    """Scores over all folds of a family, each with the same weight; None where nothing would be left to learn from.

    names: competitors of `benefit_learners`. spare: as `benefit_rows.questions` takes it.
    """
    parts = [
        part
        for part in folds(cells)[family]
        if (part.rows & cells.judged).any() and (~part.hidden & cells.judged).any()
    ]
    if not parts:
        return None
    tasks = [_Task(cells, part, tuple(names), spare, acceptance) for part in parts]
    told = each_of(_without, tasks, processes=processes)
    return {
        mode: {name: _scored(cells, [part[mode][name] for part in told], names) for name in ASKED} for mode in MODES
    }


def training_questions(nested: Nested, seen: Mask, *, spare: Floats) -> Questions:
    """Every question about what is seen, with acceptance given and with it predicted."""
    found = nested.compose(seen)
    tables = [questions(nested.cells, found, seen, thresholds=THRESHOLDS, mode=mode, spare=spare) for mode in MODES]
    return Questions.joined(tables)


def _without(task: _Task) -> dict[str, dict[str, _Told]]:
    """mode -> thresholds -> what competitors that never saw a fold say of it."""
    cells, nested = task.cells, Nested(task.cells, task.acceptance)
    learners = [learner for learner in LEARNERS if learner.name in task.names]
    training = training_questions(nested, ~task.part.hidden, spare=task.spare)
    # Where all that was seen pays, or none of it, there is nothing to learn: the composition alone answers.
    both = bool(training.pays.any()) and not bool(training.pays.all())
    plain = next(learner for learner in LEARNERS if learner.name == COMPOSITION)
    fitted = {learner.name: (learner if both else plain).fit(cells, training) for learner in learners}
    found = nested.compose(~task.part.hidden)
    told: dict[str, dict[str, _Told]] = {mode: {} for mode in MODES}
    for mode in MODES:
        for name, thresholds in ASKED.items():
            asked = questions(cells, found, task.part.rows, thresholds=thresholds, mode=mode, spare=task.spare)
            probability = {learner.name: fitted[learner.name](asked) for learner in learners}
            decided = {
                learner.name: probability[learner.name] if learner.decide is None else learner.decide(cells, asked)
                for learner in learners
            }
            told[mode][name] = _Told(asked, probability, {key: value >= 0.5 for key, value in decided.items()})
    return told


def _scored(cells: Cells, told: Sequence[_Told], names: Sequence[str]) -> dict[str, BenefitScore]:
    asked = Questions.joined([part.asked for part in told])
    return {
        name: score_benefit(
            cells,
            asked,
            np.concatenate([part.probability[name] for part in told]),
            np.concatenate([part.enabled[name] for part in told]),
        )
        for name in names
    }


def score_benefit(cells: Cells, asked: Questions, p: Floats, enabled: Mask) -> BenefitScore:
    """Score probabilities and decisions of weighted questions."""
    w, pays = asked.weight / asked.weight.sum(), asked.pays
    held = np.clip(p, 1e-6, 1.0 - 1e-6)
    bins = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
    right = [
        float((w * (enabled == side))[pays == side].sum() / w[pays == side].sum())
        for side in (True, False)
        if (pays == side).any()
    ]
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
