"""The fit: finds what is there, is not led astray by a few bad cells, and never looks at what is hidden."""

from dataclasses import replace

import numpy as np
import pytest

from models.training.step_cost import NAMES, fit, latencies, predict

TRUE = {"o_layer_ms": 0.03, "e_bw": 0.8, "o_piece_ms": 0.15, "o_sync_ms": 1.5, "o_draft_host_ms": 3.0}


@pytest.fixture(scope="module")
def everything(cells):
    return fit(cells, np.ones(len(cells), dtype=bool))


@pytest.fixture(scope="module")
def made(cells, everything):
    """Cells as they would have been measured if known constants were the truth."""
    constants = everything.constants | TRUE
    costs, found = latencies(cells, constants)
    return constants, replace(
        cells,
        output_tokens_per_s=1e3 * cells.concurrency * cells.output_tokens / found.end_to_end_ms,
        tpot_ms=found.tpot_ms,
        step_ms=costs.step_ms,
        first_token_ms=found.first_token_ms,
    )


def test_known_constants_are_found(made):
    """Cells made from constants give them back, as far as the prior lets them, and their speedups within 1 %."""
    constants, cells = made
    found = fit(cells, np.ones(len(cells), dtype=bool))
    for name in TRUE:
        assert found.constants[name] == pytest.approx(constants[name], rel=0.1), name
    rows = cells.judged
    np.testing.assert_allclose(predict(cells, found.constants).end_to_end[rows], cells.speedup[rows], rtol=0.01)


def test_a_few_bad_cells_change_little(made):
    """Five in a hundred cells off by a factor of two: predictions move by less than 2 % in the median."""
    _, cells = made
    spoilt = cells.output_tokens_per_s.copy()
    spoilt[np.random.default_rng(0).choice(len(cells), len(cells) // 20, replace=False)] *= 2.0
    found = fit(replace(cells, output_tokens_per_s=spoilt), np.ones(len(cells), dtype=bool))
    rows = cells.judged
    error = np.abs(predict(cells, found.constants).end_to_end[rows] / cells.speedup[rows] - 1)
    assert np.median(error) < 0.02


def test_hidden_rows_are_never_looked_at(cells):
    """Hidden rows may hold anything: the constants are the same to the last bit."""
    hidden = cells.target == "Qwen3-4B"
    spoilt = replace(cells, output_tokens_per_s=np.where(hidden, 1.0, cells.output_tokens_per_s))
    assert fit(cells, ~hidden).constants == fit(spoilt, ~hidden).constants


def test_a_start_nearby_changes_nothing(cells, everything):
    """Warm starts save time and no more: predictions agree within a thousandth."""
    seen = cells.method != "ngram"
    cold, warm = fit(cells, seen), fit(cells, seen, start=everything)
    rows = cells.judged
    ratio = predict(cells, cold.constants).end_to_end[rows] / predict(cells, warm.constants).end_to_end[rows]
    np.testing.assert_allclose(ratio, 1.0, atol=1e-3)


def test_the_spread_of_the_constants_is_told(everything):
    """One variance a fitted constant, all positive."""
    assert everything.covariance.shape == (len(NAMES), len(NAMES))
    assert (np.diag(everything.covariance) > 0).all()
