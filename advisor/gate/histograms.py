"""How do two latency histograms compare: their 95th percentiles, and how many requests became slower?

Everything is read as Prometheus' histogram_quantile reads it: requests lie evenly inside a bucket. Bounds hold at every
look (`advisor.gate.sequential`); counts are first divided by their design effect, since requests that run at one time
share the server's load.

Slower requests are counted rank by rank, since no request ran on both servers: at its place in the order, does the
canary's distribution take longer? A bucket counts as faster (slower) where both its ends are proven so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.gate.sequential import design_effect, rank_bounds, share_bounds
from profiler.metrics import Distribution

Floats = NDArray[np.float64]
_P95 = 0.95


@dataclass(frozen=True)
class Sample:
    """One arm's histogram over the window, and the same by blocks."""

    whole: Distribution
    blocks: Sequence[Distribution]

    @property
    def bounds(self) -> Floats:
        """Finite upper bounds."""
        return np.array([b for b in self.whole.bounds if math.isfinite(b)])

    def counts(self, at: Floats) -> Floats:
        """Requests at or below each of `at`, over the window."""
        return _below(self.whole, at)

    def effects(self, at: Floats) -> Floats:
        """The design effect of the share at or below each of `at`."""
        trials = np.array([block.count for block in self.blocks])
        hits = np.array([_below(block, at) for block in self.blocks]).reshape(len(trials), len(at))
        return np.array([design_effect(hits[:, i], trials) for i in range(len(at))])


@dataclass(frozen=True, slots=True)
class Bounded:
    """A figure and the bounds that hold it at every look."""

    value: float
    low: float
    high: float


def _below(distribution: Distribution, at: Floats) -> Floats:
    finite = [(b, c) for b, c in zip(distribution.bounds, distribution.cumulative, strict=True) if math.isfinite(b)]
    if not finite:
        return np.zeros(len(at))
    return np.interp(at, [0.0, *(b for b, _ in finite)], [0.0, *(c for _, c in finite)])


def _quantile(distribution: Distribution, share: float) -> float:
    """As histogram_quantile, but without bound where the share reaches into the last, open bucket."""
    found = distribution.quantile(share)
    finite = [c for b, c in zip(distribution.bounds, distribution.cumulative, strict=True) if math.isfinite(b)]
    if found is None or not finite or share * distribution.count > finite[-1] * (1.0 + 1e-12):
        return math.inf
    return found


def p95(sample: Sample, *, alpha: float) -> Bounded:
    """The 95th percentile of one arm."""
    value = sample.whole.quantile(_P95)
    if value is None:
        return Bounded(math.nan, 0.0, math.inf)
    effect = float(sample.effects(np.array([value]))[0])
    low, high = rank_bounds(sample.whole.count / effect, quantile=_P95, alpha=alpha)
    lowest = _quantile(sample.whole, low)
    return Bounded(value, lowest if math.isfinite(lowest) else float(sample.bounds[-1]), _quantile(sample.whole, high))


def p95_regression(control: Sample, canary: Sample, *, alpha: float) -> Bounded:
    """p95 of the canary over that of the control, less 1."""
    base, spec = p95(control, alpha=alpha / 2.0), p95(canary, alpha=alpha / 2.0)
    if not base.value > 0.0 or math.isnan(spec.value):
        return Bounded(math.nan, -1.0, math.inf)
    high = spec.high / base.low - 1.0 if base.low > 0.0 else math.inf
    return Bounded(spec.value / base.value - 1.0, spec.low / base.high - 1.0, high)


def same_bucket(control: Sample, canary: Sample) -> tuple[float, float] | None:
    """The bucket (low, high) in which both 95th percentiles lie; None where they lie in different ones."""
    found = [sample.whole.quantile(_P95) for sample in (control, canary)]
    edges = np.concatenate(([0.0], control.bounds))
    places = [int(np.searchsorted(edges, value, side="left")) for value in found if value is not None]
    if len(set(places)) != 1 or len(places) < 2 or not 0 < places[0] < len(edges):
        return None
    return float(edges[places[0] - 1]), float(edges[places[0]])


def _shares(sample: Sample, at: Floats, *, alpha: float) -> tuple[Floats, Floats, Floats]:
    shares = sample.counts(at) / sample.whole.count
    effective = sample.whole.count / sample.effects(at)
    low, high = share_bounds(shares * effective, effective, alpha=alpha)
    return shares, low, high


def proven_gap(control: Sample, canary: Sample, *, alpha: float) -> float:
    """Least distance of the two distributions (largest difference of cumulative shares) that is proven, else 0."""
    at = _common(control, canary)
    if not len(at) or not control.whole.count or not canary.whole.count:
        return 0.0
    each = alpha / (2.0 * len(at))
    (_, a_low, a_high), (_, b_low, b_high) = _shares(control, at, alpha=each), _shares(canary, at, alpha=each)
    return max(0.0, float(np.maximum(a_low - b_high, b_low - a_high).max()))


def slower_share(control: Sample, canary: Sample, *, alpha: float) -> Bounded:
    """Share of the canary's requests that are slower, at their rank, than the control's."""
    at = _common(control, canary)
    if not len(at) or not control.whole.count or not canary.whole.count:
        return Bounded(math.nan, 0.0, 1.0)
    each = alpha / (2.0 * len(at))
    (a, a_low, a_high), (b, b_low, b_high) = _shares(control, at, alpha=each), _shares(canary, at, alpha=each)
    empty = (np.maximum(a, b) == 0.0) | (np.minimum(a, b) == 1.0)  # both arms have all, or nothing: no difference
    faster, slower = _ends(b_low > a_high), _ends(a_low > b_high)
    tie = _ends(empty, ends=True)
    mass = np.diff(np.concatenate(([0.0], b, [1.0])))

    def proven(sign: NDArray[np.bool_]) -> float:
        whole = (sign[:-1] | sign[1:]) & (sign[:-1] | tie[:-1]) & (sign[1:] | tie[1:])
        return float(mass[whole].sum())

    ahead = np.concatenate(([0.0], b - a, [0.0]))  # above 0: more of the canary's are done by then
    behind, gained = np.maximum(-ahead, 0.0), np.maximum(ahead, 0.0)
    lost, won = behind[:-1] + behind[1:], gained[:-1] + gained[1:]
    value = float((mass * np.divide(lost, lost + won, out=np.zeros_like(lost), where=lost + won > 0)).sum())
    return Bounded(value, proven(slower), 1.0 - proven(faster))


def _ends(flags: NDArray[np.bool_], *, ends: bool = False) -> NDArray[np.bool_]:
    return np.concatenate(([ends], flags, [ends]))


def _common(control: Sample, canary: Sample) -> Floats:
    return np.intersect1d(control.bounds, canary.bounds)
