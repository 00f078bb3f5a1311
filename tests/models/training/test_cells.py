"""Cells: runs joined without being fooled by doubtful ones, every speculative cell beside its own baseline."""

from pathlib import Path

import numpy as np
import pytest

from models.training.cells import Cells, joined_runs, rows_of
from profiler.measurements import MeasurementsError, read_cells

DATA = Path(__file__).resolve().parents[3] / "data" / "measurements"

LABELS = ("tpot_ms", "step_ms_p50", "ttft_ms_p50", "tokens_per_step", "acceptance_length", "draft_share")


def run(rate, flags=None, cell="a"):
    return {"cell_id": cell, "output_tokens_per_s": rate, "flags": flags, "steps": rate} | dict.fromkeys(LABELS, rate)


def test_the_median_of_the_runs_counts():
    """Three runs, one far off: the middle one is the cell, and what is no label is of that run."""
    (cell,) = joined_runs([run(10.0), run(11.0), run(99.0)])
    assert (cell["output_tokens_per_s"], cell["steps"], cell["suspect"]) == (11.0, 11.0, False)


def test_doubted_runs_count_only_alone():
    """A flag that doubts a run's throughput drops it where another run has none; a harmless flag does not."""
    (cell,) = joined_runs([run(10.0, "limit"), run(50.0, "imbalanced limit"), run(12.0)])
    assert (cell["output_tokens_per_s"], cell["suspect"]) == (11.0, False)
    (alone,) = joined_runs([run(50.0, "spread")])
    assert (alone["output_tokens_per_s"], alone["suspect"]) == (50.0, True)


def test_loops_that_prefilled_in_groups_are_left_out(cells):
    """Protocol 1 counts at few requests alone; what it measured beyond is in the tables and not in the cells."""
    rows = read_cells(DATA)
    clumped = {row["cell_id"] for row in rows if "clumped" in (row["flags"] or "").split()}
    sound = {row["cell_id"] for row in rows if "clumped" not in (row["flags"] or "").split()}
    assert clumped - sound
    assert not (clumped - sound) & set(cells.cell_id)


def test_every_baseline_is_of_the_same_target_and_traffic(cells):
    """A speedup compares one target at one concurrency and length with itself."""
    rows = np.flatnonzero(cells.judged)
    assert rows.size > 100
    base = cells.baseline[rows]
    assert (cells.method[base] == "none").all()
    for name in ("target", "concurrency", "input_tokens", "output_tokens"):
        assert (getattr(cells, name)[rows] == getattr(cells, name)[base]).all()
    np.testing.assert_allclose(cells.speedup[rows], cells.output_tokens_per_s[rows] / cells.output_tokens_per_s[base])


def test_some_of_the_cells_keep_their_baselines(cells):
    """Rows of a subset refer to rows of the subset; baselines left behind are none."""
    some = rows_of(cells, cells.target == "Qwen3-32B")
    assert set(some.target) == {"Qwen3-32B"}
    assert (some.target[some.baseline[some.judged]] == "Qwen3-32B").all()
    without = rows_of(cells, cells.speculative)
    assert (without.baseline == -1).all()
    assert not without.judged.any()


def test_folders_are_different_hosts(tmp_path, cells):
    """The same tables given twice are twice the cells, and no baseline is of the other folder."""
    both = Cells.read(DATA, DATA)
    assert len(both) == 2 * len(cells)
    known = both.baseline >= 0
    assert (both.folder[known] == both.folder[both.baseline[known]]).all()


def test_what_was_measured_is_told(cells):
    """Coverage comes with the cells."""
    assert cells.measured.gpus == {"H200"}
    assert "0.26" in cells.measured.engines
    assert {"eagle3", "ngram", "draft_model"} <= cells.measured.methods


def test_a_folder_without_tables_is_refused(tmp_path):
    """One message that names the file."""
    with pytest.raises(MeasurementsError, match=r"engines\.csv"):
        Cells.read(tmp_path)
