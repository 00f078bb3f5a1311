"""Every file of the data set, against its schema; and the schema, against broken files."""

import pytest

from profiler.measurements import read_cells, read_engines
from profiler.measurements.columns import CELL_COLUMNS, ENGINE_COLUMNS, column_table
from profiler.measurements.merge import merge_sweep
from profiler.measurements.real_pair import REAL_COLUMNS
from profiler.measurements.schema import check_tables
from profiler.measurements.table import write_cells, write_engines


def test_our_data_set_holds_its_schema(ours):
    """Kinds, bounds, counts, digests, baselines, derived columns and the size of all files."""
    assert check_tables(ours) == []


def test_the_data_card_explains_every_column(ours):
    """The card's tables are those of the declaration (python -m profiler.measurements --columns)."""
    card = (ours.parent / "README.md").read_text(encoding="utf-8")
    assert column_table(CELL_COLUMNS) in card
    assert column_table(ENGINE_COLUMNS) in card
    assert column_table(REAL_COLUMNS) in card


@pytest.fixture
def small(tables, tmp_path):
    """A correct data set of a baseline and a speculative cell."""
    cells = [tables.raw_cell(), tables.raw_cell(engine="spec", method="ngram", k=2, drafts=100, accepted=50)]
    sweep = tables.write_sweep(tmp_path / "sweep", cells, [tables.raw_engine(), tables.raw_engine("spec")])
    merge_sweep(sweep, tmp_path / "data")
    assert check_tables(tmp_path / "data") == []
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"concurrency": 0}, "concurrency: greater_than_or_equal_to"),
        ({"method": "magic"}, "method: isin"),
        ({"gone": "target"}, "target: not_nullable"),
        ({"accepted_tokens": 500}, "counts contain each other"),
        ({"key": "{}"}, "cell_id is the digest of key"),
        ({"asked_acceptance_length": 3.5}, "method, k and acceptance agree"),
        ({"repeats": 7}, "one rate for each window"),
        ({"input_tokens": 200_000}, "at most 256k prompt tokens"),
        ({"run": 0}, "run: greater_than_or_equal_to"),
        ({"baseline_id": None}, "a speedup has its baseline"),
        ({"baseline_id": "0123456789"}, "is no row"),
        ({"engine_id": "unknown"}, "no engine unknown"),
        ({"speedup_end_to_end": 9.0}, "not derived anew: speedup_end_to_end"),
    ],
)
def test_a_broken_row_is_found(small, change, said):
    """Each promise, broken in one row, is told with the file and what is wrong."""
    rows = read_cells(small)
    change = {change["gone"]: None} if "gone" in change else change
    rows[1] |= change
    write_cells(small, rows)
    problems = check_tables(small)
    assert any(said in problem for problem in problems), problems


def test_two_rows_of_one_run_are_found(small):
    """cell_id and run name a row."""
    rows = read_cells(small)
    write_cells(small, [*rows, rows[1]])
    assert any("unique" in problem for problem in check_tables(small))


def test_a_broken_engine_is_found(small):
    """Engines have a schema, too."""
    rows = read_engines(small)
    rows[0]["gpu_memory_utilization"] = 1.5
    write_engines(small, rows)
    assert any("engines.csv: gpu_memory_utilization" in problem for problem in check_tables(small))


def test_too_large_a_data_set_is_found(small):
    """5 MB in all."""
    (small / "large.bin").write_bytes(b"0" * 5_000_001)
    assert any("at most 5,000,000" in problem for problem in check_tables(small))
