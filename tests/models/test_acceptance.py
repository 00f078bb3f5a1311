"""Acceptance priors: monotone where the physics says so, exact where a formula says so, refused where unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.acceptance import AcceptanceInputs, AcceptanceModel, length_from_conditionals
from models.acceptance.model import mix_classes
from models.structure import STRUCTURES
from profiler.deployment import METHODS
from profiler.errors import UnknownNameError

MODEL = AcceptanceModel.from_artefact()
CLASSES = MODEL.coefficients_.classes
PURE = np.eye(len(CLASSES))


def structure(**shares: float) -> np.ndarray:
    row = np.zeros(len(CLASSES))
    for name, share in shares.items():
        row[CLASSES.index(name)] = share
    return row


def predict(method="eagle3", k=3, temperature=0.0, shares=None, **others):
    inputs = AcceptanceInputs.of(
        method=method,
        num_speculative_tokens=k,
        temperature=temperature,
        structure=structure(chat=1.0) if shares is None else shares,
        **others,
    )
    return MODEL.predict(inputs)


def test_classes_are_the_classifier_s():
    """The priors speak of the same classes, in the same order, as the structure classifier."""
    assert tuple(STRUCTURES) == CLASSES


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_prior_with_spread(method):
    """Every method of a deployment is predicted, with AL between 1 and k + 1 and a spread that admits doubt."""
    estimate = predict(method, k=4, shares=PURE, size_ratio=0.1)
    assert ((estimate.acceptance_length > 1.0) & (estimate.acceptance_length < 5.0)).all()
    assert (estimate.length_log_sd > 0.15).all()
    assert (estimate.tokens_per_step <= estimate.acceptance_length + 1e-12).all()


@pytest.mark.parametrize("method", METHODS)
def test_acceptance_falls_with_temperature_in_every_class(method):
    """Hotter sampling never raises acceptance."""
    lengths = [predict(method, k=4, temperature=t, shares=PURE, size_ratio=0.1).tokens_per_step for t in (0, 0.5, 1, 2)]
    assert (np.diff(lengths, axis=0) <= 1e-12).all()


def test_probabilistic_drafts_lose_less_to_temperature_and_nothing_at_zero():
    """Probabilistic drafting helps at T = 1 and is the same as greedy at 0."""
    assert predict(temperature=1.0, probabilistic=True).acceptance_length > predict(temperature=1.0).acceptance_length
    assert predict(probabilistic=True).acceptance_length == predict().acceptance_length


def test_a_larger_drafter_is_accepted_more():
    """Acceptance rises with the drafter's share of the target's parameters, and doubt grows away from what was seen."""
    estimate = predict("draft_model", k=4, size_ratio=[0.01, 0.05, 0.125, 0.32])
    assert (np.diff(estimate.acceptance_length) > 0).all()
    assert (np.diff(estimate.length_log_sd) < 0).all()


def test_more_draft_tokens_accept_more_but_ever_less_each():
    """AL rises with k, by less each time; conditional acceptances are the same whatever k."""
    estimate = predict(k=np.arange(1, 9))
    gains = np.diff(estimate.acceptance_length)
    assert (gains > 0).all()
    assert (np.diff(gains) < 0).all()
    assert np.isnan(estimate.per_position[2, 3:]).all()
    np.testing.assert_allclose(estimate.per_position[7, :3], estimate.per_position[2, :3])


def test_structured_output_is_accepted_more_than_creative_writing():
    """Code, JSON and SQL beat creative writing, at 0 and all the more at 1."""
    for temperature in (0.0, 1.0):
        lengths = dict(zip(CLASSES, predict(temperature=temperature, shares=PURE).acceptance_length, strict=True))
        assert min(lengths[name] for name in ("code", "json", "sql")) > lengths["creative"]
        assert lengths["creative"] == min(lengths.values())
    cold = predict(shares=structure(json=1)).acceptance_length
    assert cold / predict(temperature=1.0, shares=structure(creative=1)).acceptance_length > 1.3


@pytest.mark.parametrize(
    ("shares", "temperature", "probabilistic", "measured"),
    [
        ({"math": 1.0}, 0.0, False, 4.2), ({"math": 1.0}, 1.0, False, 3.9), ({"sql": 1.0}, 0.0, False, 3.8),
        ({"sql": 1.0}, 1.0, False, 3.2), ({"code": 1.0}, 1.0, True, 3.9), ({"creative": 1.0}, 0.0, False, 2.9),
        ({"creative": 1.0}, 0.7, False, 2.5), ({"creative": 1.0}, 1.0, False, 1.9), ({"json": 1.0}, 0.0, False, 4.8),
    ],
)  # fmt: skip
def test_measured_draft_model_lies_within_two_spreads(shares, temperature, probabilistic, measured):
    """Qwen2.5-Coder 1.5B drafted by 0.5B, k = 4, as measured on an H200: within two of the stated spreads."""
    estimate = predict("draft_model", 4, temperature, structure(**shares), probabilistic=probabilistic, size_ratio=0.32)
    error = np.log(estimate.acceptance_length - 1.0) - np.log(measured - 1.0)
    assert abs(error[0]) < 2 * estimate.length_log_sd[0]


def test_ngram_drafts_only_where_the_output_copies():
    """Lookup drafts more on summaries than on translations, and more with more overlap; heads draft on every step."""
    summary, translation = (
        predict("ngram", 4, shares=structure(**{name: 1.0})) for name in ("summarisation", "translation")
    )
    assert summary.draft_share > 2 * translation.draft_share
    shares = predict("ngram", 4, overlap=[0.0, 0.2, 0.5, 0.9, 1.0]).draft_share
    assert (np.diff(shares) >= 0).all()
    assert (shares > 0).all()
    assert (shares < 1).all()
    assert predict("eagle3").draft_share == 1.0


def test_an_overlap_that_its_class_lets_expect_changes_nothing():
    """The overlap speaks only beside what the structure already says; nan is "not known"."""
    expected = MODEL.coefficients_.copying.overlap[CLASSES.index("chat")]
    known = predict("ngram", 4, overlap=expected).draft_share
    np.testing.assert_allclose(known, predict("ngram", 4, overlap=np.nan).draft_share)


def test_a_mixture_s_tokens_per_step_are_the_harmonic_mean_by_tokens():
    """τ of a mixture is 1 / Σ share / τ: a class that accepts well takes fewer of the steps."""
    for method in ("eagle3", "ngram"):
        parts = predict(method, 4, shares=np.stack([structure(json=1.0), structure(creative=1.0)]), overlap=np.nan)
        mixed = predict(method, 4, shares=structure(json=0.3, creative=0.7), overlap=np.nan)
        np.testing.assert_allclose(mixed.tokens_per_step, 1.0 / ([0.3, 0.7] / parts.tokens_per_step).sum())


@given(
    shares=st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
    drafts=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
    alphas=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
)
def test_mixing_keeps_tokens_whatever_the_classes(shares, drafts, alphas):
    """The mixture's m and AL give the mixture's τ for any classes."""
    share = np.array([shares]) / sum(shares)
    survival = np.array([[[alpha**i for i in range(1, 5)] for alpha in alphas]])
    m, mixed = mix_classes(shares=share, draft_share=np.array([drafts]), survival=survival)
    taus = 1.0 + np.array(drafts) * survival[0].sum(axis=1)
    np.testing.assert_allclose(1.0 + m * mixed.sum(axis=1), 1.0 / (share[0] / taus).sum())


def test_length_of_one_alpha_is_the_geometric_sum():
    """AL = (1 - α^(k+1)) / (1 - α) with one α (Leviathan et al. 2023)."""
    np.testing.assert_allclose(length_from_conditionals(np.array([[0.8, 0.8, 0.8, np.nan]])), (1 - 0.8**4) / 0.2)


def test_an_unknown_method_is_refused_by_name():
    """No coefficient, no number."""
    with pytest.raises(UnknownNameError, match="lookahead"):
        predict("lookahead")


def test_tables_concatenate_row_by_row():
    """Predicting many candidates in one table gives what each alone gives."""
    tables = [
        AcceptanceInputs.of(method=method, num_speculative_tokens=k, temperature=0.3, structure=PURE, size_ratio=ratio)
        for method, k, ratio in (("eagle3", 3, np.nan), ("draft_model", 8, 0.1), ("ngram", 5, np.nan))
    ]
    together = MODEL.predict(AcceptanceInputs.concatenate(tables))
    apart = np.concatenate([MODEL.predict(table).tokens_per_step for table in tables])
    np.testing.assert_allclose(together.tokens_per_step, apart)
