"""Which ways of turning a prediction into P(speedup >= threshold) compete, from the composition alone to boosted trees?

Each is fitted to weighted questions and returns a function from questions to probabilities. "Consistent" ones are 0.5
exactly where the prediction is the threshold and rise with the margin, so that they cannot contradict the regression;
the others are here to show whether what they may learn beside it is worth a contradiction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from models.estimate import Floats
from models.training.benefit_rows import FEATURES, RISING, Questions
from models.training.cells import Cells

Probability = Callable[[Questions], Floats]
COMPOSITION, SLOPE = "composition alone", "calibrated slope"
PRIOR_TARGETS = 10.0  # what the slope's prior is worth
_PRIOR_Z = np.linspace(-4.0, 4.0, 41)
_FREE = 1e6  # inverse of the penalty where a handful of parameters needs none
_LEAST_SLOPE = 0.1
_SHRUNK = 0.05  # features of a few dozen cells: chosen once, before the folds were judged


@dataclass(frozen=True, slots=True)
class Learner:
    """One competitor. decide: whether to enable, where that is not the side of one half (rules)."""

    name: str
    consistent: bool
    fit: Callable[[Cells, Questions], Probability]
    decide: Callable[[Cells, Questions], Floats] | None = None


def slope_of(cells: Cells, asked: Questions, *, prior_targets: float = PRIOR_TARGETS) -> float:
    """Slope b of P = 1 / (1 + exp(-b z)), by scikit-learn's logistic regression without intercept on z.

    Prior: pseudo-questions over the range of z that pay as the composition says, weighing as `prior_targets` targets do
    beside those asked about. Few targets say little of how far off the next one is.
    """
    z = np.concatenate([_clipped(asked), _PRIOR_Z, _PRIOR_Z])
    pays = np.concatenate([asked.pays, np.ones(_PRIOR_Z.size), np.zeros(_PRIOR_Z.size)])
    told = ndtr(_PRIOR_Z)
    weight = prior_targets / np.unique(cells.target[asked.cell]).size / _PRIOR_Z.size
    whole = np.concatenate([asked.weight / asked.weight.sum(), weight * told, weight * (1.0 - told)])
    model = LogisticRegression(fit_intercept=False, C=_FREE)
    model.fit(z[:, None], pays.astype(np.int64), sample_weight=whole * len(asked))
    return float(model.coef_[0, 0])


def _composition(cells: Cells, asked: Questions) -> Probability:
    return lambda q: ndtr(q.z)


def _slope(cells: Cells, asked: Questions) -> Probability:
    slope = slope_of(cells, asked)
    return lambda q: expit(slope * q.z)


def _free_slope(cells: Cells, asked: Questions) -> Probability:
    slope = slope_of(cells, asked, prior_targets=0.0)
    return lambda q: expit(slope * q.z)


def _platt(cells: Cells, asked: Questions) -> Probability:
    model = LogisticRegression(C=_FREE).fit(_clipped(asked)[:, None], asked.pays, sample_weight=_scaled(asked))
    return lambda q: model.predict_proba(_clipped(q)[:, None])[:, 1]


def _isotonic(cells: Cells, asked: Questions) -> Probability:
    """Rising in z and symmetric: P(-z) = 1 - P(z), so that it is 0.5 at 0."""
    z = _clipped(asked)
    model = IsotonicRegression(out_of_bounds="clip", y_min=0.005, y_max=0.995)
    model.fit(np.concatenate([z, -z]), np.concatenate([asked.pays, ~asked.pays]), np.tile(asked.weight, 2))
    return lambda q: 0.5 * (model.predict(_clipped(q)) + 1.0 - model.predict(-_clipped(q)))


def _sloped_by_features(cells: Cells, asked: Questions) -> Probability:
    """logit P = z · slope(features) > 0: how far to trust z may depend on everything, the side of it on nothing."""
    rest = [row for row, name in enumerate(FEATURES) if name not in RISING]
    scaler = StandardScaler().fit(asked.features[:, rest])

    def table(q: Questions) -> Floats:
        others = 0.5 * np.clip(scaler.transform(q.features[:, rest]), -3.0, 3.0)
        columns: Floats = np.column_stack([np.ones(len(q)), others])
        return columns

    model = LogisticRegression(fit_intercept=False, C=_SHRUNK)
    model.fit(_clipped(asked)[:, None] * table(asked), asked.pays, sample_weight=_scaled(asked))
    return lambda q: expit(_clipped(q) * np.maximum(table(q) @ model.coef_[0], _LEAST_SLOPE))


def _logistic(cells: Cells, asked: Questions) -> Probability:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=_SHRUNK, max_iter=500))
    model.fit(asked.features, asked.pays, logisticregression__sample_weight=_scaled(asked))
    return lambda q: model.predict_proba(q.features)[:, 1]


def _boosting(cells: Cells, asked: Questions) -> Probability:
    """Trees that must rise with the margin, calibrated by Platt's sigmoid on targets that the trees did not see."""
    trees = HistGradientBoostingClassifier(
        max_depth=2, max_iter=60, learning_rate=0.08, min_samples_leaf=60, l2_regularization=10.0, max_bins=32,
        random_state=0, monotonic_cst=[1 if name in RISING else 0 for name in FEATURES],
    )  # fmt: skip
    target = cells.target[asked.cell]
    splits = [(np.flatnonzero(target != t), np.flatnonzero(target == t)) for t in np.unique(target)]
    usable = len(splits) > 1 and all(len(set(asked.pays[seen])) == 2 for seen, _ in splits)
    model = CalibratedClassifierCV(trees, method="sigmoid", cv=splits, ensemble=False) if usable else trees
    model.fit(asked.features, asked.pays, sample_weight=_scaled(asked))
    return lambda q: model.predict_proba(q.features)[:, 1]


def _rule(decide: Callable[[Cells, Questions], Floats]) -> Callable[[Cells, Questions], Probability]:
    """How often it pays on either side of a rule, as seen in training."""

    def learn(cells: Cells, asked: Questions) -> Probability:
        side = decide(cells, asked) > 0.5
        rate = [
            float((asked.weight * asked.pays)[side == s].sum() / max(asked.weight[side == s].sum(), 1e-12))
            if (side == s).any()
            else 0.5
            for s in (False, True)
        ]
        return lambda q: np.where(decide(cells, q) > 0.5, rate[1], rate[0])

    return learn


def _few(cells: Cells, q: Questions) -> Floats:
    return (cells.concurrency[q.cell] <= 32).astype(np.float64)


def _always(cells: Cells, q: Questions) -> Floats:
    return np.ones(len(q))


def _as_code(cells: Cells, q: Questions) -> Floats:
    """Text is what these cells lack: what is accepted as well as code is (greedy, at temperature 0) stands for it."""
    return q.as_code.astype(np.float64)


def _literature(cells: Cells, q: Questions) -> Floats:
    """AL / (1 + k c) against the threshold (Leviathan et al. 2023), with the AL that the question tells."""
    share = np.minimum(np.nan_to_num(cells.draft_share, nan=1.0), 1.0)[q.cell]
    length = 1.0 + np.exp(q.features[:, FEATURES.index("log_gain")]) / np.maximum(share, 1e-3)
    cost = 1.0 + (cells.num_speculative_tokens * cells.size_ratio)[q.cell]
    return (length / cost >= q.threshold).astype(np.float64)


LEARNERS = (
    Learner(COMPOSITION, True, _composition),
    Learner(SLOPE, True, _slope),
    Learner("slope without prior", True, _free_slope),
    Learner("isotonic, symmetric", True, _isotonic),
    Learner("slope by features", True, _sloped_by_features),
    Learner("Platt, free intercept", False, _platt),
    Learner("logistic regression", False, _logistic),
    Learner("boosted trees", False, _boosting),
    Learner("always enable", False, _rule(_always), _always),
    Learner("disable above 32", False, _rule(_few), _few),
    Learner("enable for code", False, _rule(_as_code), _as_code),
    Learner("AL / (1 + k c)", False, _rule(_literature), _literature),
)


def _clipped(q: Questions) -> Floats:
    """z within what a probability can tell; a spread of nearly nothing would otherwise outweigh every other row."""
    return np.clip(q.z, -8.0, 8.0)


def _scaled(q: Questions) -> Floats:
    """Weights with mean 1, so that penalties mean the same whatever the number of questions."""
    weight: Floats = q.weight / q.weight.mean()
    return weight
