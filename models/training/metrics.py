"""How good are predicted speedups: how far off, how often on the wrong side of a threshold, and what does that cost?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from models.estimate import Floats
from models.training.cells import Mask

THRESHOLD = 1.05  # the policy's default min_speedup
THRESHOLDS: Floats = np.linspace(1.0, 1.5, 11)  # that an operator may ask for
_BINS = 10


@dataclass(frozen=True, slots=True)
class Score:
    """Of predictions of some cells; None where nothing can be said (a rule predicts no speedup)."""

    cells: int
    mape: float | None
    p90: float | None  # of the absolute relative error
    bias: float | None
    balanced_accuracy: float | None  # at the threshold; over the sides that occur
    balanced_accuracy_clear: float | None  # the same on cells further from the threshold than the noise floor
    regret: float | None  # mean share of the speed that is lost against always choosing right


def score(predicted: Floats, truth: Floats, *, threshold: float = THRESHOLD, noise_floor: float = 0.0) -> Score:
    """Score equal-length arrays of speedups; a rule without a number predicts inf (enable) or 0 (disable).

    noise_floor: relative difference of two measurements of one cell; cells nearer to the threshold are not clear.
    """
    known = np.isfinite(predicted) & (predicted > 0.0)
    error = predicted[known] / truth[known] - 1.0
    size = np.abs(error)
    enable = predicted >= threshold
    clear = np.abs(truth / threshold - 1.0) > noise_floor
    lost = 1.0 - np.where(enable, truth, 1.0) / np.maximum(truth, 1.0)
    return Score(
        cells=int(truth.size),
        mape=float(size.mean()) if size.size else None,
        p90=float(np.quantile(size, 0.9)) if size.size else None,
        bias=float(error.mean()) if size.size else None,
        balanced_accuracy=balanced_accuracy(enable, truth >= threshold),
        balanced_accuracy_clear=balanced_accuracy(enable[clear], truth[clear] >= threshold),
        regret=float(lost.mean()) if truth.size else None,
    )


def balanced_accuracy(enable: Mask, pays: Mask) -> float | None:
    """Mean of the shares decided rightly on both sides, over the sides that occur; None without cells."""
    right = [float(np.mean(enable[pays == side] == side)) for side in (True, False) if (pays == side).any()]
    return float(np.mean(right)) if right else None


def calibration_error(predicted: Floats, log_sd: Floats, truth: Floats) -> float | None:
    """Mean difference between the stated probability that a speedup reaches a threshold and how often it does.

    Over all cells and `THRESHOLDS`, in ten bins of the probability, each with the weight of its cases.
    """
    if not truth.size:
        return None
    z = np.log(predicted[:, None] / THRESHOLDS) / log_sd[:, None]
    stated = ndtr(z).ravel()
    reached = (truth[:, None] >= THRESHOLDS).ravel().astype(np.float64)
    place = np.minimum((stated * _BINS).astype(np.int64), _BINS - 1)
    gap = np.bincount(place, weights=stated - reached, minlength=_BINS)
    return float(np.abs(gap).sum() / stated.size)
