"""Metrics: known cases by hand."""

import numpy as np
import pytest

from models.training.metrics import calibration_error, score


def test_errors_and_decisions_by_hand():
    """Two that pay, two that do not; one mistake on each side."""
    truth = np.array([2.0, 1.2, 0.5, 1.0])
    found = score(np.array([1.8, 1.0, 0.6, 1.1]), truth)
    assert found.mape == pytest.approx((0.1 + 0.2 / 1.2 + 0.2 + 0.1) / 4)
    assert found.balanced_accuracy == 0.5
    # Disabled where 1.2 was to be had; enabled where 1.0 is no loss.
    assert found.regret == pytest.approx((1 - 1 / 1.2) / 4)


def test_cells_at_the_threshold_are_not_clear():
    """Within the noise floor of the threshold nobody can be right; there the clear figure does not look."""
    truth, predicted = np.array([1.051, 2.0, 0.5]), np.array([1.04, 2.0, 0.5])
    found = score(predicted, truth, noise_floor=0.01)
    assert (found.balanced_accuracy, found.balanced_accuracy_clear) == (0.75, 1.0)


def test_a_rule_has_decisions_and_no_errors():
    """Infinity enables, zero disables, neither is a speedup."""
    found = score(np.array([np.inf, 0.0]), np.array([1.5, 1.5]))
    assert (found.mape, found.balanced_accuracy) == (None, 0.5)
    assert found.regret == pytest.approx((1 - 1 / 1.5) / 2)


def test_honest_probabilities_are_calibrated_and_bold_ones_are_not():
    """Truths drawn from the stated distribution have no gap; a tenth of the stated spread has a wide one."""
    draw = np.random.default_rng(3)
    predicted = draw.uniform(0.8, 1.8, 4000)
    truth = predicted * np.exp(0.2 * draw.standard_normal(4000))
    honest = calibration_error(predicted, np.full(4000, 0.2), truth)
    bold = calibration_error(predicted, np.full(4000, 0.02), truth)
    assert honest < 0.02 < 0.1 < bold
