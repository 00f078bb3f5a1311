"""Would learned residuals beside the physics of the step cost help where a fit did not look?

    python benchmarks/residual_step_cost.py      # held-out errors before and after; the last line is JSON

Within each family of folds the physics is fitted without the fold (benchmarks/fit_step_cost.py); a gradient-boosted or
ridge correction of log speedup is trained on the other folds' held-out errors and judged on the fold.
"""

from __future__ import annotations

import json

import numpy as np
from fit_step_cost import folds, held_out
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from step_cost_cells import Cells

LEARNERS = {
    "boosting": lambda: HistGradientBoostingRegressor(
        max_depth=2, max_iter=60, learning_rate=0.05, min_samples_leaf=8, l2_regularization=5.0
    ),
    "ridge": lambda: make_pipeline(StandardScaler(), Ridge(30.0)),
}


def features(cells):
    """Traffic, method, arithmetic intensity, KV share of the bytes, tokens of a pass with one prefill."""
    i = cells.inputs
    return np.stack([
        np.log(cells.b), np.log(cells.s), np.log(cells.n), cells.k, cells.tau, cells.method == "ngram",
        cells.method == "draft_model", np.log(i.step_flops / i.step_weight_bytes),
        i.kv_bytes / (i.kv_bytes + i.step_weight_bytes), np.log(cells.b * (1 + cells.k) + cells.s),
    ], axis=1).astype(float)  # fmt: skip


def main():
    """Correct, compare, print."""
    cells = Cells()
    table, predictions, found = features(cells), held_out(cells), {}
    for family, parts in folds(cells).items():
        if len(parts) < 2:
            continue
        errors = np.log(cells.speedup / predictions[family][0])
        held = cells.judged & np.isfinite(errors)
        found[family] = {"physics": float(np.abs(np.exp(-errors[held]) - 1).mean())}
        for name, learner in LEARNERS.items():
            correction = np.zeros_like(errors)
            for _, rows, _ in parts:
                own, others = held & rows, held & ~rows
                correction[own] = learner().fit(table[others], errors[others]).predict(table[own])
            found[family][name] = float(np.abs(np.exp(correction - errors)[held] - 1).mean())
        print(f"{family:24}" + "".join(f"{name} {mape:.3f}   " for name, mape in found[family].items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
