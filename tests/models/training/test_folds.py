"""Folds: nothing that a fit sees belongs to the group that it is judged on."""

import numpy as np
import pytest

from models.training.folds import FAMILIES, HIGH_OUT, LONG_OUT, METHOD_OUT, POINTS_OUT, TARGET_OUT, folds


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fold_hides_what_it_predicts(cells, family):
    """Every predicted row is hidden, some rows are left to fit, and no cell is predicted twice."""
    parts = folds(cells)[family]
    for part in parts:
        assert (part.hidden | ~part.rows).all()
        assert (~part.hidden).sum() > 20
    assert np.stack([part.rows for part in parts]).sum(axis=0).max() == 1


def test_a_target_takes_its_baseline_along(cells):
    """With a target out, both arms of its speedups are extrapolated."""
    for part in folds(cells)[TARGET_OUT]:
        assert not set(cells.target[part.hidden]) & set(cells.target[~part.hidden])
        judged = part.rows & cells.judged
        assert part.hidden[cells.baseline[judged]].all()


def test_methods_loads_and_lengths_are_whole(cells):
    """A method and k, high concurrency, long contexts, traffic points: all of it is hidden or none."""
    found = folds(cells)
    for part in found[METHOD_OUT]:
        pairs = set(zip(cells.method[part.hidden], cells.num_speculative_tokens[part.hidden], strict=True))
        assert len(pairs) == 1
    assert (cells.concurrency[found[HIGH_OUT][0].hidden] >= 128).all()
    assert (cells.concurrency[~found[HIGH_OUT][0].hidden] < 128).all()
    assert (cells.input_tokens[~found[LONG_OUT][0].hidden] < 4096).all()
    for part in found[POINTS_OUT]:
        assert not set(cells.point[part.hidden]) & set(cells.point[~part.hidden])
