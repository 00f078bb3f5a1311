"""Which log-odds explain counts, where each row is of one class or another with known probabilities?

The conditional acceptance at draft position i of a row, were it of class c, is

    logit α_ci = x · β + effect_c - slope_c · heat(T, drafting) + (decay + tilt · heat) · log(i)

and what the row shows is the mixture of the classes' survivals S_i = Σ_c share_c Π_{j<=i} α_cj. Counts are binomial at
each position: n reached it, y were accepted. Weights below 1 stand for prompts that differ among themselves. A
Gaussian prior over all parameters makes every fit proper; slopes, heats and named covariates are held in their
ranges. With one position it is a plain mixture of logits, which the share of drafting steps is.

Found by Fisher scoring with exact derivatives: a dozen steps, deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.acceptance.coefficients import heat_weights
from models.acceptance.model import expit
from models.estimate import Floats

FIXED_KNOT = 3  # temperature 1, where greedy drafts have heat 1: slopes are what is lost there
GREEDY_KNOTS, SOFT_KNOTS = [1, 2, 4], [1, 2, 3, 4]
_TINY = 1e-12
_UNLIKELY = 0.02  # classes below this probability are left out of a row
_MOST_STEPS = 60
_ENOUGH = 1e-3  # of log likelihood: steps that gain less change no coefficient that anyone could tell


@dataclass(frozen=True, slots=True)
class Counts:
    """What was seen; n rows, K positions, C classes, q covariates."""

    covariates: Floats  # (n, q)
    structure: Floats  # (n, C) shares of what the counts count: of drafts, or of steps
    temperature: Floats  # (n,)
    probabilistic: Floats  # (n,) 0 or 1
    reached: Floats  # (n, K)
    accepted: Floats  # (n, K)
    within: Floats  # (n, K) 1 up to the row's k
    repeats: Floats  # (n,) rows of the same prompt, which share what is particular of it
    weight: Floats  # (n,)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each group of parameters lies in the vector."""

    covariates: int
    classes: int

    @property
    def beta(self) -> slice:
        """Covariates."""
        return slice(0, self.covariates)

    @property
    def effect(self) -> slice:
        """Class effects."""
        return slice(self.covariates, self.covariates + self.classes)

    @property
    def slope(self) -> slice:
        """Temperature slopes of the classes."""
        return slice(self.covariates + self.classes, self.covariates + 2 * self.classes)

    @property
    def heat(self) -> slice:
        """Heat at each knot but 0 and 1, greedy drafts."""
        return slice(self.slope.stop, self.slope.stop + len(GREEDY_KNOTS))

    @property
    def soft_heat(self) -> slice:
        """Heat at each knot but 0, probabilistic drafts."""
        return slice(self.heat.stop, self.heat.stop + len(SOFT_KNOTS))

    @property
    def decay(self) -> int:
        """Per log position."""
        return self.covariates + 2 * self.classes + len(GREEDY_KNOTS) + len(SOFT_KNOTS)

    @property
    def tilt(self) -> int:
        """Per unit of heat and log position."""
        return self.decay + 1

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.decay + 2


@dataclass(frozen=True, slots=True)
class Prior:
    """A Gaussian over the parameters, and the range of each."""

    mean: Floats  # (size,)
    precision: Floats  # (size, size)
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class _State:
    """What one set of parameters says of the counts: mixed survival and rates, (n, K), and the loss."""

    alive: Floats  # (pairs, K) survival of each row's likely classes
    lost_so_far: Floats  # (pairs, K) Σ_{j<=i} (1 - α_j)
    lost_by_log: Floats  # (pairs, K) Σ_{j<=i} (1 - α_j) log(j)
    mixed: Floats
    rate: Floats
    loss: float


class Mixture:
    """One mixture over given counts: its loss, derivatives and fit. Classes that a row is hardly of are left out."""

    def __init__(self, layout: Layout, counts: Counts, prior: Prior) -> None:
        self.layout, self.counts, self.prior = layout, counts, prior
        likely = np.where(counts.structure >= _UNLIKELY, counts.structure, 0.0)
        likely = likely / np.maximum(likely.sum(axis=1, keepdims=True), _TINY)
        self.row, self.cls = np.nonzero(likely)
        self.share = likely[self.row, self.cls][:, None]
        self.starts = np.searchsorted(self.row, np.arange(len(counts.weight)))
        self.log_position = np.log(np.arange(1, counts.reached.shape[1] + 1))[None, :]
        soft = counts.probabilistic > 0
        knots = heat_weights(counts.temperature)
        self.warm = np.where(soft, 0.0, knots[:, FIXED_KNOT])
        self.greedy_knots = np.where(soft[:, None], 0.0, knots[:, GREEDY_KNOTS])
        self.soft_knots = np.where(soft[:, None], knots[:, SOFT_KNOTS], 0.0)
        self.won = counts.weight[:, None] * counts.accepted
        self.tried = counts.weight[:, None] * counts.reached

    def heat(self, x: Floats) -> Floats:
        """Heat of each row: 0 where sampling is greedy, 1 at temperature 1 and greedy drafts."""
        return self.warm + self.greedy_knots @ x[self.layout.heat] + self.soft_knots @ x[self.layout.soft_heat]

    def state(self, x: Floats) -> _State:
        """Survivals, rates and loss under these parameters."""
        layout = self.layout
        odds = (self.counts.covariates @ x[layout.beta])[self.row] + x[layout.effect][self.cls]
        heat = self.heat(x)[self.row]
        odds = odds - heat * x[layout.slope][self.cls]
        alpha = expit(odds[:, None] + (x[layout.decay] + x[layout.tilt] * heat)[:, None] * self.log_position)
        alive = np.cumprod(alpha, axis=1, dtype=np.float64)
        mixed = np.add.reduceat(self.share * alive, self.starts, axis=0)
        rate = np.clip(mixed / np.maximum(_before(mixed), _TINY), _TINY, 1.0 - 1e-9)
        away = x - self.prior.mean
        loss = -float((self.won * np.log(rate) + (self.tried - self.won) * np.log1p(-rate)).sum())
        return _State(
            alive=alive, lost_so_far=np.cumsum(1.0 - alpha, axis=1),
            lost_by_log=np.cumsum((1.0 - alpha) * self.log_position, axis=1), mixed=mixed, rate=rate,
            loss=loss + 0.5 * float(away @ self.prior.precision @ away),
        )  # fmt: skip

    def derivatives(self, x: Floats, state: _State) -> tuple[Floats, Floats]:
        """Gradient of the loss, and its expected curvature (Fisher's, the prior's added)."""
        layout, counts = self.layout, self.counts
        rows, positions = state.mixed.shape
        moved = self.share * state.alive * state.lost_so_far  # d S_i / d odds of the pair
        by_row = np.add.reduceat(moved, self.starts, axis=0)
        heat = self.heat(x)
        by_log = np.add.reduceat(self.share * state.alive * state.lost_by_log, self.starts, axis=0)
        sloped = np.add.reduceat(moved * x[layout.slope][self.cls][:, None], self.starts, axis=0)
        by_heat = x[layout.tilt] * by_log - sloped
        jacobian = np.zeros((rows, positions, layout.size))
        jacobian[:, :, layout.beta] = by_row[:, :, None] * counts.covariates[:, None, :]
        jacobian[self.row, :, layout.effect.start + self.cls] = moved
        jacobian[:, :, layout.heat] = by_heat[:, :, None] * self.greedy_knots[:, None, :]
        jacobian[:, :, layout.soft_heat] = by_heat[:, :, None] * self.soft_knots[:, None, :]
        jacobian[:, :, layout.decay] = by_log
        jacobian[:, :, layout.tilt] = heat[:, None] * by_log
        before = np.maximum(_before(state.mixed), _TINY)
        # The rate is S_i / S_{i-1}.
        jacobian[:, 1:] -= state.rate[:, 1:, None] * jacobian[:, :-1]
        jacobian /= before[:, :, None]
        jacobian[:, :, layout.slope] = -heat[:, None, None] * jacobian[:, :, layout.effect]
        flat = jacobian.reshape(-1, layout.size)
        inside = state.rate * (1.0 - state.rate)
        gradient = flat.T @ ((self.tried * state.rate - self.won) / inside).ravel()
        curvature = flat.T @ (flat * (self.tried / inside).reshape(-1, 1))
        return gradient + self.prior.precision @ (x - self.prior.mean), curvature + self.prior.precision

    def fit(self, start: Floats | None = None) -> Floats:
        """The most probable parameters, by Fisher scoring within their ranges; `start` saves time alone."""
        low, high = self.prior.low, self.prior.high
        x = np.clip(self.prior.mean if start is None else start, low, high)
        if not len(self.counts.weight):
            return x
        state = self.state(x)
        for _ in range(_MOST_STEPS):
            gradient, curvature = self.derivatives(x, state)
            free = ~(((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0)))
            step = np.zeros_like(x)
            step[free] = np.linalg.solve(curvature[np.ix_(free, free)], -gradient[free])
            for shorter in 0.5 ** np.arange(12):
                there = np.clip(x + shorter * step, low, high)
                found = self.state(there)
                if found.loss <= state.loss:
                    break
            else:
                break
            gained, x, state = state.loss - found.loss, there, found
            if gained < _ENOUGH:
                break
        return x

    def covariance(self, x: Floats) -> Floats:
        """Covariance of the parameters about their most probable values (Laplace), (size, size)."""
        known = len(self.counts.weight) > 0
        curvature = self.derivatives(x, self.state(x))[1] if known else self.prior.precision
        return np.asarray(np.linalg.inv(curvature), dtype=np.float64)


def class_gains(x: Floats, layout: Layout, counts: Counts) -> Floats:
    """Σ_i S_ci within each row's k, were the row of class c: (n, classes)."""
    heat = Mixture(layout, counts, Prior(x, np.zeros((layout.size, layout.size)), x, x)).heat(x)
    odds = (counts.covariates @ x[layout.beta])[:, None] + x[layout.effect] - heat[:, None] * x[layout.slope]
    decay = (x[layout.decay] + x[layout.tilt] * heat)[:, None] * np.log(np.arange(1, counts.reached.shape[1] + 1))
    alive = np.cumprod(expit(odds[:, :, None] + decay[:, None, :]), axis=2)
    gains: Floats = (alive * counts.within[:, None, :]).sum(axis=2)
    return gains


def _before(mixed: Floats) -> Floats:
    """S_{i-1}: 1 before the first position."""
    return np.concatenate([np.ones((mixed.shape[0], 1)), mixed[:, :-1]], axis=1)


@dataclass(frozen=True, slots=True)
class Scatter:
    """How prompts differ beside a fit: variance of accepted tokens a draft, and sd of their logarithm."""

    between: float
    log_sd: float


def _counting_variance(counts: Counts) -> Floats:
    """Variance of one draft's accepted tokens, from its own row's counts smoothed by all rows of its k."""
    n = np.maximum(counts.reached[:, 0], _TINY)
    survival = (counts.accepted + counts.accepted.mean(axis=0)) / (n + n.mean())[:, None] * counts.within
    # E[X^2] of a count X with survival S_i is Σ (2 i - 1) S_i.
    odd = 2.0 * np.arange(1, survival.shape[1] + 1) - 1.0
    variance: Floats = np.maximum((survival * odd).sum(axis=1) - survival.sum(axis=1) ** 2, 1e-6)
    return variance


def weights(counts: Counts, between: float) -> Floats:
    """Weight of each row: v / (v + r n between), with its r rows of one prompt and the mean n drafts of variance v.

    All rows of a prompt together then say no more of its class than one prompt can. Drafts weigh alike, not prompts:
    what a workload accepts is its accepted tokens by its drafts, of which prompts that accept little make more.
    """
    n = counts.reached[:, 0]
    typical = float((n**2).sum() / max(n.sum(), _TINY))
    variance = float(np.average(_counting_variance(counts), weights=n))
    found: Floats = variance / (variance + typical * counts.repeats * between)
    return found


def scatter(counts: Counts, mixed: Floats) -> Scatter:
    """What residuals show beyond counting (method of moments), whose variance over n drafts is v / n."""
    n = np.maximum(counts.reached[:, 0], _TINY)
    expected = (mixed * counts.within).sum(axis=1)
    beyond = (counts.accepted.sum(axis=1) / n - expected) ** 2 - _counting_variance(counts) / n
    sure = n / (n + np.median(n))  # few drafts say little
    between = max(float(np.average(beyond, weights=sure)), 1e-6)
    return Scatter(between, float(np.sqrt(between / np.average(expected**2, weights=sure))))
