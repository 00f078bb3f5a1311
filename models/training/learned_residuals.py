"""Would learned residuals beside the physics of the step cost help where a fit did not look?

The physics is fitted without each fold; a correction of the log speedup is learned from the other folds' held-out
errors on dimensionless features and judged on the fold. Gradient boosting is monotone where physics is: a longer
context or a higher concurrency never makes the correction favour speculation. It would ship only if it were better with
a target out, which is what a user's model is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from models.estimate import Floats
from models.training.cells import Cells
from models.training.folds import folds
from models.training.held_out import HeldOut

PHYSICS = "physics alone"
# Name -> direction in which the correction may move; 0: either.
FEATURES = {
    "log concurrency": -1, "log input tokens": -1, "log output tokens": 0, "k": 0, "tokens a step": 0, "copies": 0,
    "draft model": 0, "log arithmetic intensity": 0, "share of the bytes that is KV cache": 0,
    "log tokens of a mixed pass over the largest graph": 0,
}  # fmt: skip


def features(cells: Cells) -> Floats:
    """(n, features): traffic, method, what a pass moves and computes."""
    i = cells.inputs
    columns = [
        np.log(cells.concurrency), np.log(cells.input_tokens), np.log(cells.output_tokens),
        cells.num_speculative_tokens, cells.tokens_per_step, (cells.method == "ngram").astype(np.float64),
        (cells.method == "draft_model").astype(np.float64), np.log(i.step_flops / i.step_weight_bytes),
        i.kv_bytes / (i.kv_bytes + i.step_weight_bytes),
        np.log((cells.concurrency * (1.0 + cells.num_speculative_tokens) + cells.input_tokens) / i.graph_tokens),
    ]  # fmt: skip
    return np.stack(columns, axis=1)


def compare_learned(cells: Cells, predictions: Mapping[str, HeldOut]) -> dict[str, dict[str, float]]:
    """Family of folds -> MAPE of the end-to-end speedup by the physics alone and with each correction."""
    table, found = features(cells), {}
    for family, parts in folds(cells).items():
        if len(parts) < 2:
            continue
        errors = np.log(cells.speedup / predictions[family].speedups.end_to_end)
        held = cells.judged & np.isfinite(errors)
        found[family] = {PHYSICS: _mape(errors[held])}
        for name, learner in _learners().items():
            correction = np.zeros_like(errors)
            for part in parts:
                own, others = held & part.rows, held & ~part.rows
                if own.any() and others.any():
                    correction[own] = learner().fit(table[others], errors[others]).predict(table[own])
            found[family][name] = _mape((errors - correction)[held])
    return found


def _mape(errors: Floats) -> float:
    return round(float(np.abs(np.expm1(-errors)).mean()), 4)


def _learners() -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "with boosting": lambda: HistGradientBoostingRegressor(
            max_depth=2, max_iter=60, learning_rate=0.05, min_samples_leaf=8, l2_regularization=5.0,
            monotonic_cst=list(FEATURES.values()), random_state=0,
        ),
        "with ridge": lambda: make_pipeline(StandardScaler(), Ridge(30.0)),
    }  # fmt: skip
