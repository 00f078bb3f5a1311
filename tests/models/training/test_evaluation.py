"""Evaluation: what is scored was not seen, rivals are scored on what they say, aims tell what was missed."""

import numpy as np
import pytest

from models.training.aims import aims
from models.training.cells import rows_of
from models.training.evaluation import OURS, chosen_among_candidates, evaluate
from models.training.folds import TARGET_OUT, folds
from models.training.held_out import held_out_families
from models.training.residuals import KINDS, band_table, kind_of_pass
from models.training.rivals import read_outside_rivals, rivals
from models.training.step_cost import fit, predict
from profiler.measurements import MeasurementsError
from tests.models.training.conftest import MEASUREMENTS


@pytest.fixture(scope="module")
def few(cells):
    return rows_of(cells, cells.concurrency <= 2)


@pytest.fixture(scope="module")
def found(few):
    return held_out_families(few, fit(few, np.ones(len(few), dtype=bool)), processes=1)


def test_each_target_is_predicted_without_it(few, found):
    """The table's numbers are those of a cold fit to the other targets."""
    for part in folds(few)[TARGET_OUT]:
        alone = predict(few, fit(few, ~part.hidden).constants).end_to_end
        rows = part.rows & few.judged
        np.testing.assert_allclose(found[TARGET_OUT].speedups.end_to_end[rows], alone[rows], rtol=2e-3)
    assert np.isfinite(found[TARGET_OUT].log_sd_end_to_end[few.judged]).all()


def test_one_candidate_is_chosen_where_there_are_several(few, found):
    """At each point with two candidates and more, the one with the highest lower bound; none without a choice."""
    chosen = chosen_among_candidates(few, found[TARGET_OUT])
    assert 0 < chosen.sum() < few.judged.sum()
    assert np.unique(few.baseline[chosen]).size == chosen.sum()


def test_bands_hold_every_judged_cell(few, found):
    """The table by method and concurrency counts each cell once."""
    rows = band_table(few, found[TARGET_OUT])
    assert sum(row["cells"] for row in rows) == few.judged.sum()
    assert set(np.unique(kind_of_pass(few))) <= set(range(len(KINDS)))


def test_the_model_beats_every_rule_on_the_cells_of_unseen_targets(cells):
    """Leaving one target out it errs less than each formula, and decides no worse than each rule."""
    shown = evaluate(cells, folders=[MEASUREMENTS])
    every = shown.table[TARGET_OUT]["all"]
    ours = every[OURS].end_to_end
    for name, its in every.items():
        if name != OURS:
            assert its.end_to_end.mape is None or every[name].mape_of_ours < its.end_to_end.mape
            assert ours.regret <= its.end_to_end.regret
    assert ours.balanced_accuracy >= 0.93
    assert 0.86 <= every[OURS].coverage <= 0.96
    told = {(aim.name, aim.method): aim for aim in aims(shown)}
    assert told["MAPE", "eagle3"].met == (told["MAPE", "eagle3"].found <= 0.04)


def test_rules_of_the_literature_by_hand(few):
    """AL / (1 + k c) for one cell; rules say enable or disable and no number."""
    said = rivals(few)
    row = int(np.flatnonzero(few.method == "draft_model")[0])
    expected = few.acceptance_length[row] / (1 + few.num_speculative_tokens[row] * few.size_ratio[row])
    assert said["AL / (1 + k c)"].end_to_end[row] == pytest.approx(expected)
    assert set(said["always enable"].end_to_end[few.judged]) == {np.inf}
    assert np.isnan(said["always enable"].end_to_end[~few.judged]).all()


def test_other_programs_are_read_from_tables(few, tmp_path):
    """Cells that a program did not predict are left out, a table without numbers is refused with its path."""
    known = few.cell_id[few.judged][0]
    (tmp_path / "other.csv").write_text(f"cell_id,speedup_end_to_end\n{known},1.25\nunknown,9\n")
    told = read_outside_rivals(few, tmp_path)["other"]
    assert np.nanmax(told.end_to_end) == 1.25
    assert np.isnan(told.end_to_end[few.cell_id != known]).all()
    assert np.isnan(told.tpot).all()
    (tmp_path / "bad.csv").write_text(f"cell_id,speedup_end_to_end\n{known},fast\n")
    with pytest.raises(MeasurementsError, match=r"bad\.csv"):
        read_outside_rivals(few, tmp_path)
    assert read_outside_rivals(few, tmp_path / "nowhere") == {}
