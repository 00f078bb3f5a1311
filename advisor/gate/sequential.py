"""What do counts and means say at any moment, however often one looks?

An ordinary interval holds its level at one look that was fixed before. A gate looks at every reading and stops at the
first that decides, so its intervals must hold at all looks at once (confidence sequences). Both kinds here come from a
mixture of likelihood ratios, which is a nonnegative martingale where the hypothesis is true and exceeds 1/alpha ever
with probability alpha at most (Ville 1939; Robbins 1970, "Statistical methods related to the law of the iterated
logarithm"):

- means, by blocks of requests: the t-test with the right Haar prior on the spread and a Gaussian one on the effect,
  N(0, 1/c²) in units of the spread (Lai 1976; Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for
  Gaussian means with unknown variance", arXiv 2310.03722, section 4). Exact for Gaussian blocks of any spread; block
  means of some tens of requests are close to that. For a ratio of two means it is inverted as Fieller (1954) does.
- counts: the beta-binomial mixture with a uniform prior (Robbins 1970; for quantiles: Howard and Ramdas 2022,
  "Sequential estimation of quantiles"). Exact for independent requests. Those that run at one time share the server's
  load, so counts are divided by their design effect first (Rao and Scott 1992), estimated from the blocks.

What it refuses to say: nothing; an interval that nothing bounds yet is (0, inf) or (0, 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

Floats = NDArray[np.float64]

# Narrowest at 30 blocks for alpha between 0.005 and 0.1 within 2 % (tests/advisor/gate/test_sequential.py looks it up):
# c² trades early for late looks and holds the level whatever it is.
PRIOR_PRECISION = 2.0
_LARGEST_LAG = 0.8  # an autocorrelation above is not told from a drift by some tens of blocks
_HALVINGS = 60  # of [0, 1]: to the last bit of a double


def t_factor(blocks: int, *, alpha: float, prior_precision: float = PRIOR_PRECISION) -> float:
    """f such that a mean's interval at every look is mean ± sqrt(f * sum of squared deviations); inf while too few.

    With Q = ((n + c²) / (c² alpha²))^(1/n): f = (Q - 1) / (n (1 - Q c² / (n + c²))), from E_n < 1/alpha solved for the
    mean, where E_n = sqrt(c² / (n + c²)) (sum x² / (sum x² - (sum x)² / (n + c²)))^(n/2).
    """
    n, c2 = float(blocks), prior_precision
    if blocks < 2:
        return math.inf
    q = ((n + c2) / (c2 * alpha**2)) ** (1.0 / n)
    left = 1.0 - q * c2 / (n + c2)
    return (q - 1.0) / (n * left) if left > 0.0 else math.inf


def long_run_inflation(residuals: Floats, *, least_lag: float = 0.0) -> float:
    """How much larger the variance of a mean is than independent residuals would make it; 1 at least.

    (1 + r) / (1 - r) for a first-order autoregression with the lag-one autocorrelation r: as seen, which small samples
    show too low by about (1 + 3r) / n (Kendall 1954, "Note on bias in the estimation of autocorrelation"), and
    `least_lag` at least. Without it, blocks that follow each other closely tell equal arms apart too often;
    tests/advisor/gate/test_sequential.py measures by how much.
    """
    n, about = len(residuals), residuals - residuals.mean()
    squares = float((about**2).sum())
    seen = float((about[1:] * about[:-1]).sum()) / squares if n > 2 and squares > 0.0 else 0.0
    r = min(_LARGEST_LAG, max(least_lag, seen + (1.0 + 3.0 * seen) / n))
    return (1.0 + r) / (1.0 - r)


def ratio_interval(above: Floats, below: Floats, *, alpha: float, inflation: float = 1.0) -> tuple[float, float, float]:
    """mean(above) / mean(below) and the bounds that hold it at every look with 1 - alpha; (nan, 0, inf) without blocks.

    `above[j]` and `below[j]` are of one block, that is of one time: what both share (the hour's load) cancels.
    rho is inside where the sequential t-test does not reject mean(above - rho * below) = 0: a quadratic in rho. The
    sums of squares are taken `inflation` times as large.
    """
    n = len(above)
    if n == 0 or not below.mean() > 0.0:
        return math.nan, 0.0, math.inf
    a, b = float(above.mean()), float(below.mean())
    factor = inflation * t_factor(n, alpha=alpha)
    if math.isinf(factor):
        return a / b, 0.0, math.inf
    s_aa, s_bb = float(((above - a) ** 2).sum()), float(((below - b) ** 2).sum())
    s_ab = float(((above - a) * (below - b)).sum())
    # (a - rho b)² <= f (s_aa - 2 rho s_ab + rho² s_bb)
    square, linear, constant = b * b - factor * s_bb, a * b - factor * s_ab, a * a - factor * s_aa
    root = linear * linear - square * constant
    if square <= 0.0 or root < 0.0:  # the lower mean is not told from zero: the ratio may be anything
        return a / b, 0.0, math.inf
    half = math.sqrt(root) / square
    return a / b, max(0.0, linear / square - half), linear / square + half


def _log_mixture(hits: Floats, trials: Floats, share: Floats) -> Floats:
    """log of the beta-binomial mixture's likelihood over that of `share`."""
    misses = trials - hits
    logs = betaln(1.0 + hits, 1.0 + misses) - xlogy(hits, share) - xlog1py(misses, -share)
    return np.asarray(logs, dtype=np.float64)


def share_bounds(hits: Floats, trials: Floats, *, alpha: float) -> tuple[Floats, Floats]:
    """Bounds of each share at every look with 1 - alpha; hits and trials may be fractions (effective counts)."""
    hits, trials = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    seen = np.where(trials > 0, hits / np.maximum(trials, 1e-300), 0.5)
    limit = math.log(1.0 / alpha)

    def edge(outside: float) -> Floats:
        """Between the seen share, which is inside, and an end, which may be: where the mixture reaches the limit."""
        out, inside = np.full_like(seen, outside), seen.copy()
        for _ in range(_HALVINGS):
            middle = (out + inside) / 2.0
            rejected = _log_mixture(hits, trials, middle) >= limit
            out, inside = np.where(rejected, middle, out), np.where(rejected, inside, middle)
        return out

    return edge(0.0), edge(1.0)


def rank_bounds(trials: float, *, quantile: float, alpha: float) -> tuple[float, float]:
    """Shares (low, high) of the sample between which the true quantile lies at every look with 1 - alpha.

    The requests at or below the true quantile are binomial with `quantile`; their count is somewhere the mixture does
    not reject, and the sample's own quantiles at those counts bound the true one. (0, 1) while nothing is rejected.
    """
    limit = math.log(1.0 / alpha)

    def edge(end: float) -> float:
        def rejected(share: float) -> bool:
            hits = np.array([share * trials])
            return bool(_log_mixture(hits, np.array([trials]), np.array([quantile]))[0] >= limit)

        if trials <= 0.0 or not rejected(end):
            return end
        out, inside = end, quantile
        for _ in range(_HALVINGS):
            middle = (out + inside) / 2.0
            out, inside = (middle, inside) if rejected(middle) else (out, middle)
        return out

    return edge(0.0), edge(1.0)


def design_effect(hits: Floats, trials: Floats) -> float:
    """How much more block shares scatter than independent requests would; 1 at least (Rao and Scott 1992, eq. 1).

    hits, trials: of each block. n / (design effect) independent requests would tell as much.
    """
    blocks, total = len(trials), float(trials.sum())
    share = float(hits.sum()) / total if total > 0 else 0.0
    if blocks < 2 or not 0.0 < share < 1.0:
        return 1.0
    between = blocks / (blocks - 1) * float(((hits - trials * share) ** 2).sum()) / total**2
    return max(1.0, between * total / (share * (1.0 - share)))
