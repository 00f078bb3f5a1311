"""Measured cells as profiles of their deployments: what does one probed concurrency tell of the others?

Every prediction is by a fit without the deployment's target; every cell in turn is the profile.
"""

from pathlib import Path

import numpy as np
import pytest

from advisor import fusion
from benchmarks.fit_error_distance import (
    COUNTED,
    GIVEN,
    UNCOUNTED,
    deployments,
    errors,
    held_out_composition,
    minus_log_likelihood,
)
from models.training.cells import Cells

DATA = Path(__file__).resolve().parents[2] / "data" / "measurements"


@pytest.fixture(scope="module")
def cells():
    return Cells.read(DATA)


@pytest.fixture(scope="module")
def held_out(cells):
    return held_out_composition(cells)


def test_one_probed_concurrency_halves_the_error_at_the_others(cells, held_out):
    """Acceptance predicted cold, then counted at one load: at other loads of the same traffic at most half is left."""
    told = errors(cells, held_out, mode=COUNTED, same_lengths=True)
    assert told.pairs > 500
    assert told.left <= 0.5


def test_traffic_of_other_lengths_profits_too(cells, held_out):
    """Over all lengths the error drops by a third at least."""
    assert errors(cells, held_out, mode=COUNTED, same_lengths=False).left <= 0.67


def test_a_speedup_without_counts_tells_less_and_still_helps(cells, held_out):
    """A profile that has no counts corrects by its speedup alone: at least a fifth is gone."""
    assert errors(cells, held_out, mode=UNCOUNTED, same_lengths=True).left <= 0.8


def test_costs_alone_are_never_spoilt(cells, held_out):
    """With acceptance known before, errors of costs differ from load to load: a probe mends little, spoils nothing."""
    for same_lengths in (True, False):
        assert errors(cells, held_out, mode=GIVEN, same_lengths=same_lengths).left <= 1.0


def test_the_reach_is_what_held_out_residuals_say(cells, held_out):
    """No other common reach is likelier by more than the data can tell (two log units: a 95 % interval)."""
    assert len(deployments(cells)) >= 5
    shipped = minus_log_likelihood(fusion.REACH[:3], cells, held_out)
    others = [minus_log_likelihood(np.full(3, reach), cells, held_out) for reach in (0.3, 0.5, 1.0, 1.5, 2.0, 3.0)]
    assert shipped <= min(others) + 2.0
