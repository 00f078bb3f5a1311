"""Intervals: as wide as the residuals of other targets ask for, wider where nobody has looked."""

from dataclasses import replace

import numpy as np

from models.training.intervals import Z, band_of, calibrate


def noisy(cells, sd, seed=1):
    return np.where(cells.judged, sd * np.random.default_rng(seed).standard_normal(len(cells)), np.nan)


def test_nine_in_ten_of_new_residuals_are_inside(cells):
    """Calibrated on one draw, judged on another of the same spread: 90 % on average over draws."""
    sd = np.where(cells.concurrency > 32, 0.2, 0.05)
    inside = []
    for seed in range(12):
        intervals = calibrate(cells, noisy(cells, sd, seed), cells.judged)
        fresh = noisy(cells, sd, seed + 100)[cells.judged]
        width = Z * intervals.log_sd_of(cells.method, cells.concurrency)[cells.judged]
        inside.append(np.mean(np.abs(fresh) <= width))
    assert 0.87 <= np.mean(inside) <= 0.95


def test_bands_and_methods_with_larger_errors_are_wider(cells):
    """Errors that grow with concurrency give widths that do."""
    intervals = calibrate(cells, noisy(cells, np.where(cells.concurrency > 32, 0.3, 0.03)), cells.judged)
    low, high = intervals.log_sd_of(np.array(["eagle3", "eagle3"]), np.array([4.0, 64.0]))
    assert high > 2 * low


def test_a_method_without_cells_takes_the_widest(cells):
    """No method is narrower for never having been measured."""
    intervals = calibrate(cells, noisy(cells, 0.1), cells.judged)
    at = np.full(4, 16.0)
    *known, unknown = intervals.log_sd_of(np.array(["eagle3", "ngram", "draft_model", "medusa"]), at)
    assert unknown == max(known)


def test_targets_weigh_the_same_however_many_cells_they_have(cells):
    """A target with few cells and large errors is not drowned by one with many small ones."""
    few = np.where(cells.target == "Qwen3-32B", 0.4, 0.02)
    equal = calibrate(cells, noisy(cells, few), cells.judged)
    merged = calibrate(replace(cells, target=np.full(len(cells), "one")), noisy(cells, few), cells.judged)
    assert equal.factor > merged.factor


def test_bands_cover_every_concurrency():
    """The last band has no end."""
    assert band_of(np.array([1.0, 8.0, 9.0, 32.0, 33.0, 128.0, 129.0, 5000.0])).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
