"""How many of the drafted tokens will the target accept, for a workload nobody has measured yet?

The conditional acceptance of draft position i is a logit-linear function:

    logit α_i = method + class effect(method) - slope(method, class) · heat(T, drafting) + size · log(drafter / target)
                + copy · overlap + lookup · log(shortest match) + (decay(method) + tilt · heat) · log(i)

with one temperature slope for each class (a poem loses far more than a JSON object), heat 0 at T = 0, rising with T in
straight lines between measured temperatures, less for probabilistic drafting, and `overlap` the log-odds of what
answers copy beside what their classes let expect. n-gram and suffix drafters propose only on a match: their share m of
drafting steps is logit-linear in the same. A workload is a mixture of classes: each is computed by itself and they are
mixed by *steps*, since a class with a long acceptance length takes fewer of them: τ = 1 / Σ share_c / τ_c.

Every coefficient is in models/artifacts/acceptance.json, trained by models.training.acceptance. The model refuses
methods that it has no coefficients for; it knows nothing about a particular drafter's training, which is what the
spread is for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.acceptance.coefficients import (
    DEFAULT_LOOKUP_MIN,
    AcceptanceCoefficients,
    heat_weights,
    read_coefficients,
)
from models.acceptance.estimate import POSITIONS, AcceptanceEstimate, AcceptanceInputs
from models.estimate import Floats
from profiler.errors import UnknownNameError

COPYING = ("ngram", "suffix")  # methods that draft only where they find a match
LEAST_OVERLAP, MOST_OVERLAP = 0.02, 0.98  # 0 or 1 in a sample is no proof of never or always


def expit(odds: Floats) -> Floats:
    """Probability from log-odds (scipy's would cost its import)."""
    probability: Floats = 1.0 / (1.0 + np.exp(-odds))
    return probability


def logit(probability: Floats) -> Floats:
    """Log-odds from a probability, 0 and 1 held finite."""
    held = np.minimum(np.maximum(probability, 1e-9), 1.0 - 1e-9)
    odds: Floats = np.log(held / (1.0 - held))
    return odds


def copies_beside(overlap: Floats, structure: Floats, class_overlap: Floats) -> Floats:
    """Log-odds of each row's overlap beside what its classes (n, C) let expect; nan where the overlap is."""
    given = logit(np.minimum(np.maximum(overlap, LEAST_OVERLAP), MOST_OVERLAP))
    beside: Floats = given - logit(structure @ class_overlap)
    return beside


def length_from_conditionals(per_position: Floats) -> Floats:
    """AL = 1 + Σ_i Π_{j<=i} α_j over the last axis; nan positions (beyond k) end the draft. Leviathan et al. 2023."""
    length: Floats = 1.0 + np.cumprod(np.nan_to_num(per_position, nan=0.0), axis=-1).sum(axis=-1)
    return length


def mix_classes(*, shares: Floats, draft_share: Floats, survival: Floats) -> tuple[Floats, Floats]:
    """m and the survival Π α of a mixture of classes, from token shares.

    shares, draft_share: (n, C); survival: (n, C, K), probability that a draft survives to position i. Class c takes
    share_c / τ_c of the steps, so that the mixture's τ is the token-weighted harmonic mean 1 / Σ share_c / τ_c.
    """
    steps = shares / (1.0 + draft_share * survival.sum(axis=-1))
    steps = steps / steps.sum(axis=-1, keepdims=True)
    drafts = steps * draft_share
    share = drafts.sum(axis=-1)
    # A workload that never drafts still has an acceptance "if it did": weigh its classes by steps instead.
    weights = np.where(share[:, None] > 0, drafts, steps)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    mixed: Floats = np.einsum("nc,nck->nk", weights, survival)
    return share, mixed


def conditionals(survival: Floats, k: NDArray[np.int64]) -> Floats:
    """α_i = P_i / P_{i-1} from survival probabilities (n, K); nan beyond each row's k."""
    before = np.concatenate([np.ones((survival.shape[0], 1)), survival[:, :-1]], axis=1)
    ratio = np.divide(survival, before, out=np.zeros_like(survival), where=before > 0)
    beyond = np.arange(1, survival.shape[1] + 1)[None, :] > k[:, None]
    return np.where(beyond, np.nan, ratio)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the log-odds of acceptance and of drafting are both made of, one of each row."""

    method: NDArray[np.int64]  # row among the coefficients
    size: Floats
    lookup: Floats
    copies: Floats


class AcceptanceModel:
    """Logit-linear acceptance by method, structure, temperature, size and overlap; sklearn's fit/predict shape."""

    coefficients_: AcceptanceCoefficients

    @classmethod
    def from_artefact(cls) -> AcceptanceModel:
        """The model as trained: measured acceptance with published tables as a prior."""
        return cls.of(read_coefficients())

    @classmethod
    def of(cls, coefficients: AcceptanceCoefficients) -> AcceptanceModel:
        """The model with these numbers."""
        model = cls()
        model.coefficients_ = coefficients
        return model

    def _log_odds(self, inputs: AcceptanceInputs, terms: _Terms) -> Floats:
        """Log-odds of acceptance (n, C, K) for each structure class and draft position, K = max(8, largest k)."""
        c, m = self.coefficients_, terms.method
        length = max(POSITIONS, int(inputs.num_speculative_tokens.max(initial=1)))
        knots = heat_weights(inputs.temperature)
        heat = (knots * np.where(inputs.probabilistic[:, None], c.probabilistic_heat[m], c.heat[m])).sum(axis=1)
        row = c.intercept[m] + c.size[m] * terms.size + c.lookup[m] * terms.lookup
        row = row + c.copy[m] * terms.copies
        by_class = row[:, None] + c.class_effect[m] - heat[:, None] * c.temperature_slope[m]
        by_position = (c.decay[m] + c.heat_decay[m] * heat)[:, None] * np.log(np.arange(1, length + 1))[None, :]
        odds: Floats = by_class[:, :, None] + by_position[:, None, :]
        return odds

    def predict(self, inputs: AcceptanceInputs) -> AcceptanceEstimate:
        """Acceptance of every row; one call for the whole table."""
        c, terms = self.coefficients_, self._terms(inputs)
        m, odds = terms.method, self._log_odds(inputs, terms)
        k = inputs.num_speculative_tokens
        within = np.arange(1, odds.shape[2] + 1)[None, :] <= k[:, None]
        survival = np.cumprod(np.where(within[:, None, :], expit(odds), 0.0), axis=-1, dtype=np.float64)
        drafting = c.share_intercept[m] + c.share_copy[m] * terms.copies + c.share_lookup[m] * terms.lookup
        heat = (heat_weights(inputs.temperature) * c.share_heat[m]).sum(axis=1)
        share_odds = drafting[:, None] + c.share_class[m] - heat[:, None] * c.share_slope[m]
        share, mixed = mix_classes(shares=inputs.structure, draft_share=expit(share_odds), survival=survival)
        return AcceptanceEstimate(
            per_position=conditionals(mixed, k),
            draft_share=share,
            acceptance_length=1.0 + mixed.sum(axis=-1),
            length_log_sd=np.hypot(c.length_log_sd[m], c.size_log_sd[m] * terms.size),
            draft_share_log_sd=c.share_logit_sd[m] * (1.0 - share),  # a logit spread, seen on the log scale
            measured=np.zeros(len(inputs), dtype=np.bool_),
        )

    def _terms(self, inputs: AcceptanceInputs) -> _Terms:
        return _Terms(self._method_rows(inputs), self._size(inputs), self._lookup(inputs), self._copies_beside(inputs))

    def _lookup(self, inputs: AcceptanceInputs) -> Floats:
        """Log of the shortest match that lookup drafts on, from vLLM's default; 0 where it is not said."""
        least = np.where(np.isfinite(inputs.lookup_min), inputs.lookup_min, DEFAULT_LOOKUP_MIN)
        return np.log(np.maximum(least, 1.0) / DEFAULT_LOOKUP_MIN)

    def _size(self, inputs: AcceptanceInputs) -> Floats:
        """Log of drafter / target parameters from the centre of the fit; 0 where there is no drafter."""
        known = np.isfinite(inputs.size_ratio) & (inputs.size_ratio > 0)
        return np.where(known, np.log(np.where(known, inputs.size_ratio, 1.0)) - self.coefficients_.size_centre, 0.0)

    def _copies_beside(self, inputs: AcceptanceInputs) -> Floats:
        """Log-odds of the overlap beside what the row's classes let expect; 0 where the overlap is unknown (nan)."""
        beside = copies_beside(inputs.overlap, inputs.structure, self.coefficients_.copying.overlap)
        return np.where(np.isfinite(inputs.overlap), beside, 0.0)

    def _method_rows(self, inputs: AcceptanceInputs) -> NDArray[np.int64]:
        """Row of each input's method among the coefficients."""
        known = {name: row for row, name in enumerate(self.coefficients_.methods)}
        try:
            return np.array([known[name] for name in inputs.method.tolist()], dtype=np.int64)
        except KeyError as error:
            raise UnknownNameError(
                "No acceptance is known for this method",
                expected="one of " + ", ".join(known),
                got=str(error.args[0]),
                field="deployment.speculation.method",
            ) from None
