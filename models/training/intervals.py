"""How wide must an interval be to hold nine in ten measured speedups of targets that the fit did not see?

Split-conformal with normalised residuals, grouped by target. Residuals are r = log(measured / predicted), each target
predicted by a fit without it. Each is divided by a scale s(method, band of concurrency): the root mean square of the
residuals of its group, drawn towards (method's factor) x (band's level) with the weight of `POOLED_CELLS` cells, so
that groups with few cells borrow from the others. The conformal factor is the quantile of |r| / s at level
(1 + 1/n) · 0.9, with s from the other targets' residuals for each cell, and each target weighing the same however many
cells it has. The half-width of an interval is factor · s in
the logarithm; as a lognormal's, sd = half-width / 1.645.

What is seen is not guaranteed: exchangeability holds between targets at best, and there are few of them. A method
without cells takes the widest of the measured ones; what else no measurement covers adds to it
(`models.step_cost.model`).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.training.cells import Cells, Mask

LEVEL = 0.9
Z = NormalDist().inv_cdf((1.0 + LEVEL) / 2.0)
BANDS = ((1, 8), (9, 32), (33, 128), (129, 1024))  # concurrency
POOLED_CELLS = 8.0
_LEAST_LOG_SD = 0.015  # below this the labels themselves are not known: two runs of one cell


@dataclass(frozen=True, slots=True)
class Intervals:
    """Log sd of each method and band, `factor` included."""

    methods: tuple[str, ...]
    log_sd: Floats  # (methods, bands)
    factor: float  # conformal quantile of the normalised residuals

    def log_sd_of(self, method: NDArray[np.str_], concurrency: Floats) -> Floats:
        """Of each row; the widest of its band for a method without cells."""
        table = np.vstack([self.log_sd, self.log_sd.max(axis=0)])
        place = np.array([self.methods.index(m) if m in self.methods else len(self.methods) for m in method.tolist()])
        found: Floats = table[place, band_of(concurrency)]
        return found


def band_of(concurrency: Floats) -> NDArray[np.int64]:
    """Band of each concurrency; beyond the last, the last."""
    starts = np.array([low for low, _ in BANDS], dtype=np.float64)
    return np.maximum(np.searchsorted(starts, concurrency, side="right") - 1, 0)


def calibrate(cells: Cells, residual: Floats, rows: Mask) -> Intervals:
    """Intervals from the held-out residuals (in logarithms) of `rows`, all of which must be finite."""
    method, band, target = cells.method[rows], band_of(cells.concurrency[rows]), cells.target[rows]
    squared = np.square(residual[rows])
    methods = tuple(sorted(set(method.tolist())))
    place = np.array([methods.index(m) for m in method.tolist()])
    normalised = np.empty_like(squared)
    for one in np.unique(target):
        own, others = target == one, target != one
        if not others.any():
            others = own
        scale = _scales(squared[others], place[others], band[others], len(methods))
        normalised[own] = np.sqrt(squared[own]) / scale[place[own], band[own]]
    factor = _quantile(normalised, _equal_weights(target))
    return Intervals(methods, _scales(squared, place, band, len(methods)) * factor / Z, factor)


def _scales(squared: Floats, place: NDArray[np.int64], band: NDArray[np.int64], methods: int) -> Floats:
    """(methods, bands): root mean square of residuals, drawn towards method's factor x band's level."""
    of_band = _means(squared, band, len(BANDS), prior=float(squared.mean()))
    of_method = _means(squared / of_band[band], place, methods, prior=1.0)
    expected = of_method[:, None] * of_band[None, :]
    variance = _means(squared, place * len(BANDS) + band, expected.size, prior=expected.ravel())
    scales: Floats = np.sqrt(np.maximum(variance, _LEAST_LOG_SD**2)).reshape(expected.shape)
    return scales


def _means(values: Floats, group: NDArray[np.int64], groups: int, *, prior: Floats | float) -> Floats:
    """Mean of each group, drawn towards the prior with the weight of POOLED_CELLS cells."""
    count = np.bincount(group, minlength=groups)
    total = np.bincount(group, weights=values, minlength=groups)
    means: Floats = (total + POOLED_CELLS * prior) / (count + POOLED_CELLS)
    return means


def _equal_weights(target: NDArray[np.str_]) -> Floats:
    """Weights that sum to 1, the same for each target."""
    _, which, count = np.unique(target, return_inverse=True, return_counts=True)
    weights: Floats = 1.0 / (count[which] * count.size)
    return weights


def _quantile(values: Floats, weight: Floats) -> float:
    """Weighted conformal quantile: the smallest value with (1 + 1/n) · LEVEL of the weight at or below it."""
    order = np.argsort(values)
    level = min(LEVEL * (1.0 + 1.0 / values.size), 1.0)
    at = np.searchsorted(np.cumsum(weight[order]), level - 1e-12)
    return float(values[order][min(int(at), values.size - 1)])
