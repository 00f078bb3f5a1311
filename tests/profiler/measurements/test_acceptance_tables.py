"""The acceptance tables: merged from a sweep, labelled, and checked."""

import json

import pytest

from profiler.measurements.__main__ import main
from profiler.measurements.acceptance import (
    CELL_COLUMNS,
    CELLS_FILE,
    acceptance_problems,
    merge_acceptance,
    read_acceptance,
)
from profiler.measurements.merge import merge_sweep
from profiler.measurements.schema import check_tables
from profiler.measurements.table import write_table


def raw_cell(key="a", at="2026-01-01T00:00:00+00:00"):
    return {
        "key": key, "protocol": 1, "measured_at": at, "engine": "draft-k3", "target": "big", "method": "draft_model",
        "drafter": "small", "num_speculative_tokens": 3, "draft_sample_method": "greedy", "temperature": 0.7,
        "prompt_set": "own", "structure": "code", "structured": False, "prompts": 2, "input_tokens": 50,
        "decode_tokens": 30, "decode_steps": 12, "drafts": 10, "drafted_tokens": 30, "accepted_tokens": 18,
        "accepted_per_position": [8, 6, 4], "seconds": 1.5, "engine_version": "0.26.0", "gpu": None,
        "git_revision": "abc", "dtype": "float32",
    }  # fmt: skip


def raw_prompt(prompt, steps, key="a"):
    return {"key": key, "prompt_set": "own", "prompt": prompt, "input_tokens": 25, "output_tokens": 16,
            "decode_steps": steps, "step_lengths": [1, 2, 3, steps - 6], "copied_share": 0.25}  # fmt: skip


@pytest.fixture
def sweep(tmp_path):
    folder = tmp_path / "accept"
    folder.mkdir()
    (folder / "acceptance_cells.jsonl").write_text(json.dumps(raw_cell()) + "\n")
    (folder / "acceptance_prompts.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in (raw_prompt(0, 7), raw_prompt(1, 5)))
    )
    return folder


def test_labels_are_made_of_the_counts(sweep, tmp_path):
    """AL 1 + 18/10, τ 30/12, m 10/12, and each position's α given the one before."""
    assert merge_acceptance(sweep, tmp_path / "data") == 1
    (cell,), prompts = read_acceptance(tmp_path / "data")
    assert (cell["acceptance_length"], cell["tokens_per_step"]) == (2.8, 2.5)
    assert cell["draft_share"] == pytest.approx(0.8333)
    assert cell["acceptance_per_position"] == (0.8, 0.75, 0.6667)
    assert [prompt["decode_steps"] for prompt in prompts] == [7, 5]
    assert {(prompt["cell_id"], prompt["run"]) for prompt in prompts} == {(cell["cell_id"], 1)}
    assert acceptance_problems([cell], prompts) == []


def test_a_second_measurement_is_a_second_run(sweep, tmp_path):
    """The same file adds nothing; another moment adds a run with prompts of its own."""
    merge_acceptance(sweep, tmp_path / "data")
    assert merge_acceptance(sweep, tmp_path / "data") == 0
    (sweep / "acceptance_cells.jsonl").write_text(json.dumps(raw_cell(at="2026-01-02T00:00:00+00:00")) + "\n")
    assert merge_acceptance(sweep, tmp_path / "data") == 1
    cells, prompts = read_acceptance(tmp_path / "data")
    assert [cell["run"] for cell in cells] == [1, 2]
    assert len(prompts) == 4
    assert acceptance_problems(cells, prompts) == []


def test_the_schema_covers_the_acceptance_tables(sweep, tables, tmp_path):
    """With them beside the cost cells all is well; a lost prompt, a changed label and a wrong kind are found."""
    data = tmp_path / "data"
    merge_sweep(tables.write_sweep(tmp_path / "sweep", [tables.raw_cell()], [tables.raw_engine()]), data)
    assert main([str(sweep), "--into", str(data)]) == 0
    assert check_tables(data) == []
    cells, prompts = read_acceptance(data)
    for change, said in (
        ({"prompts": 3}, "2 prompts of 3"),
        ({"decode_steps": 13}, "do not add up"),
        ({"acceptance_length": 2.9}, "labels not derived anew"),
        ({"method": "none"}, "method: isin"),
    ):
        write_table(data / CELLS_FILE, CELL_COLUMNS, [cells[0] | change])
        assert any(said in problem for problem in check_tables(data)), said
    assert acceptance_problems([], prompts)
