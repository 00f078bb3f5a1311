"""The mixture of logits: exact derivatives, ranges kept, weights that count prompts and not drafts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.training.acceptance_mixture import Counts, Layout, Mixture, Prior, scatter, weights
from models.training.acceptance_priors import GREEDY_HEAT, SOFT_HEAT, hold_heat

LAYOUT = Layout(covariates=2, classes=3)
RNG = np.random.default_rng(3)


def some_counts(n: int = 40, positions: int = 4) -> Counts:
    structure = RNG.dirichlet([0.4] * 3, size=n)
    reached = np.full((n, positions), 30.0)
    accepted = np.minimum.accumulate(RNG.integers(5, 30, size=(n, positions)).astype(float), axis=1)
    reached[:, 1:] = accepted[:, :-1]
    return Counts(
        covariates=np.stack([np.ones(n), RNG.normal(size=n)], axis=1), structure=structure,
        temperature=RNG.choice([0.0, 0.2, 0.7, 1.0, 1.5], size=n),
        probabilistic=RNG.integers(0, 2, size=n).astype(float),
        reached=reached, accepted=accepted, within=np.ones((n, positions)), repeats=np.ones(n), weight=np.ones(n),
    )  # fmt: skip


def some_prior() -> Prior:
    low, high = np.full(LAYOUT.size, -np.inf), np.full(LAYOUT.size, np.inf)
    low[LAYOUT.slope] = 0.0
    hold_heat(LAYOUT, low, high)
    mean = np.zeros(LAYOUT.size)
    mean[LAYOUT.heat], mean[LAYOUT.soft_heat] = GREEDY_HEAT, SOFT_HEAT
    return Prior(mean=mean, precision=np.eye(LAYOUT.size), low=low, high=high)


def test_the_gradient_is_the_loss_s():
    """Derivatives agree with finite differences in every parameter."""
    mixture = Mixture(LAYOUT, some_counts(), some_prior())
    x = some_prior().mean + RNG.normal(scale=0.3, size=LAYOUT.size)
    gradient, _ = mixture.derivatives(x, mixture.state(x))
    for i, unit in enumerate(np.eye(LAYOUT.size)):
        slope = (mixture.state(x + 1e-5 * unit).loss - mixture.state(x - 1e-5 * unit).loss) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_the_fit_is_a_minimum_within_its_ranges():
    """No small step within the ranges lowers the loss; nothing lies outside of them."""
    prior = some_prior()
    mixture = Mixture(LAYOUT, some_counts(), prior)
    x = mixture.fit()
    assert ((x >= prior.low) & (x <= prior.high)).all()
    least = mixture.state(x).loss
    for unit in np.eye(LAYOUT.size):
        for step in (-0.05, 0.05):
            assert mixture.state(np.clip(x + step * unit, prior.low, prior.high)).loss >= least - 1e-3


def test_rows_of_one_prompt_weigh_no_more_than_the_prompt():
    """Where prompts differ much, four rows of a prompt weigh together as one row of it."""
    counts = some_counts()
    once = weights(counts, between=10.0)
    four = weights(replace(counts, repeats=4 * counts.repeats), between=10.0)
    np.testing.assert_allclose(4 * four, once, rtol=0.02)
    assert weights(counts, between=1e-9) == pytest.approx(1.0)


def test_counting_alone_is_no_difference_between_prompts():
    """Prompts that differ by chance alone show next to no scatter; those that differ, theirs."""
    n, drafts = 400, 200
    found = {}
    for sd in (0.0, 0.5):
        rate = 1 / (1 + np.exp(-(0.8 + RNG.normal(scale=sd, size=n))))
        accepted = RNG.binomial(drafts, rate).astype(float)[:, None]
        counts = Counts(
            covariates=np.ones((n, 2)), structure=np.full((n, 3), 1 / 3), temperature=np.zeros(n),
            probabilistic=np.zeros(n), reached=np.full((n, 1), float(drafts)), accepted=accepted,
            within=np.ones((n, 1)), repeats=np.ones(n), weight=np.ones(n),
        )  # fmt: skip
        found[sd] = scatter(counts, np.full((n, 1), accepted.mean() / drafts))
    assert found[0.0].log_sd < 0.02
    drawn = 1 / (1 + np.exp(-(0.8 + RNG.normal(scale=0.5, size=9999))))
    assert found[0.5].between == pytest.approx(np.var(drawn), rel=0.3)
