"""What does a measured speedup say about the predicted ones, there and elsewhere?

Predictions err, and they err alike under alike conditions. The error of log speedup is taken as Gaussian with the
predicted spread. Its costs' part is correlated between two rows by exp(-d), where d is their distance in log
concurrency, log lengths and log k in units of `REACH`; its acceptance's part is common to all rows of one temperature,
since what a target accepts depends on what it is asked and not on how many ask. A measurement with its own spread then
corrects every row by ordinary conditioning: fully where it was taken and the model knew little, less the farther away
and the noisier it was, and in proportion to what the model left open there (a row that spends its time in prefill moves
little).

Where the measurements lie farther from the predictions than these were to err, the predicted spread is taken as too
small by that factor (its maximum-likelihood scale, never below 1): a model that missed is believed less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from models.estimate import Estimate, Floats

# In logarithms of concurrency, prompt length, answer length and k + 1. benchmarks/fit_error_distance.py, residuals of
# held-out targets in eleven deployments on one H200: the likelihood is largest at 1.1, 0.8 and 1.2 for the first three,
# 0.2 log units lower at 1 for all of them, 5.5 lower at 3 (which residuals of targets that the fit had seen gave). k
# was not varied enough to tell.
REACH: Floats = np.full(4, 1.0)
# Cells of the same data set that were measured in two starts of an engine differ by 0.2 %; a probe's two servers run
# on a host whose clocks and neighbours nobody holds still, so that half a policy's usual margin is the least doubt.
LEAST_LOG_SD = 0.01
# Of the costs' variance at a row: what noise-free measurements of one temperature must explain for the row to count
# as measured. exp(-2 d) = 0.5 is a distance of 0.35: a concurrency within 40 % of the probed one. What acceptance adds
# does not count: it is common to all loads, so that a count of it says nothing of what another load costs.
MEASURED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Rows:
    """Where some rows stand, and the two independent parts of their predicted error; equal-length arrays."""

    log_place: Floats  # (n, 4): log of concurrency, prompt length, answer length and k + 1
    temperature: Floats
    cost_log_sd: Floats
    acceptance_log_sd: Floats

    @classmethod
    def of(
        cls, *, concurrency: Floats, input_tokens: Floats, output_tokens: Floats, k: Floats, temperature: Floats,
        log_sd: Floats, acceptance_log_sd: Floats,
    ) -> Rows:  # fmt: skip
        """From the quantities themselves; log_sd: the whole predicted spread."""
        place = np.stack([concurrency, input_tokens, output_tokens, k + 1.0], axis=1)
        acceptance = np.minimum(acceptance_log_sd, log_sd)
        cost = np.sqrt(np.maximum(log_sd**2 - acceptance**2, 0.0))
        return cls(np.log(np.maximum(place, 1e-9)), temperature, cost, acceptance)

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        """Several, one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


@dataclass(frozen=True, slots=True)
class Fused:
    """Corrected rows, and how much of the costs' error there the measurements' places explain (0 to 1)."""

    estimate: Estimate
    explained: Floats

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Rows near enough to a measurement to count as measured."""
        near: NDArray[np.bool_] = self.explained >= MEASURED_SHARE
        return near


def fuse(prior: Estimate, rows: Rows, *, predicted: Estimate, points: Rows, measured: Estimate) -> Fused:
    """Condition the rows' predictions on measurements.

    prior: of the rows. predicted: what the same model says at the points. measured: what was found there.
    """
    noise = np.maximum(measured.log_sd, LEAST_LOG_SD) ** 2
    gap = np.log(measured.value) - np.log(predicted.value)
    scale = _scale(gap, predicted.log_sd, noise)
    among = scale * _covariance(points, points)
    across = scale * _covariance(rows, points)
    own = scale * prior.log_sd**2
    weights = np.linalg.solve(among + np.diag(noise), across.T)
    log_value = np.log(prior.value) + gap @ weights
    variance = np.clip(own - np.einsum("ij,ji->i", across, weights), 1e-12, None)
    # The least noise that a measurement of a row can have, so that many points do not add up to certainty.
    variance = np.maximum(variance, np.minimum(own, LEAST_LOG_SD**2))
    return Fused(Estimate(np.exp(log_value), np.sqrt(variance)), _explained(rows, points))


def _scale(gap: Floats, log_sd: Floats, noise: Floats) -> float:
    """By how much the predicted variance is too small: the mean of (gap² - noise) / variance, at least 1."""
    excess = (gap**2 - noise) / np.maximum(log_sd**2, 1e-12)
    return max(1.0, float(np.mean(excess)))


def _explained(rows: Rows, points: Rows) -> Floats:
    """Share of the costs' variance at each row that noise-free measurements at the points explain."""
    kernel = _near(points, points) * _same(points, points) + 1e-9 * np.eye(len(points.temperature))
    across = _near(rows, points) * _same(rows, points)
    share: Floats = np.einsum("ij,ji->i", across, np.linalg.solve(kernel, across.T))
    return np.clip(share, 0.0, 1.0)


def _near(a: Rows, b: Rows) -> Floats:
    """Correlation of the costs' errors of two places."""
    apart = (a.log_place[:, None, :] - b.log_place[None, :, :]) / REACH
    near: Floats = np.exp(-np.sqrt((apart**2).sum(axis=2)))
    return near


def _same(a: Rows, b: Rows) -> NDArray[np.bool_]:
    """Which pairs are of one temperature, so that as much is accepted."""
    return np.isclose(a.temperature[:, None], b.temperature[None, :], atol=0.05)


def _covariance(a: Rows, b: Rows) -> Floats:
    costs = a.cost_log_sd[:, None] * b.cost_log_sd[None, :]
    acceptances = a.acceptance_log_sd[:, None] * b.acceptance_log_sd[None, :]
    covariance: Floats = _near(a, b) * costs + _same(a, b) * acceptances
    return covariance
