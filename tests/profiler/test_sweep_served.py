"""A served sweep asks `vllm serve` for the same engine, and never takes an in-process cell for its own."""

import json

import pytest

from profiler.sweep.grid import Point, read_grid
from profiler.sweep.rows import RowsError, append_row
from profiler.sweep.served import ServedOptions, main, run_served_sweep, serve_arguments, served_key
from profiler.sweep.worker import engine_arguments

SHAPES = "small: {hidden_size: 8, vocab_size: 100}\n"
GRID = """
shapes: shapes.yaml
settings: {max_model_len: 1000, enforce_eager: true, enable_prefix_caching: false}
traffic: {core: [[2, 100, 10]]}
engines:
  - {name: ngram, target: small, traffic: [core], speculation: {method: ngram, num_speculative_tokens: 3}}
"""


@pytest.fixture
def grid(tmp_path):
    (tmp_path / "shapes.yaml").write_text(SHAPES)
    (tmp_path / "grid.yaml").write_text(GRID)
    return read_grid(tmp_path / "grid.yaml")


def test_engine_arguments_become_flags(grid, tmp_path):
    """True is a bare flag, false its negation, an object JSON; statistics stay on, as the server has them."""
    model, flags = serve_arguments(engine_arguments(grid.engines[0], grid.shapes, tmp_path / "work"))
    assert json.loads((tmp_path / "work" / "small" / "config.json").read_text())["hidden_size"] == 8
    assert model == str(tmp_path / "work" / "small")
    assert "--disable-log-stats" not in flags
    assert "--no-disable-log-stats" not in flags
    assert {"--skip-tokenizer-init", "--enforce-eager", "--no-enable-prefix-caching"} <= set(flags)
    assert flags[flags.index("--max-model-len") + 1] == "1000"
    speculation = json.loads(flags[flags.index("--speculative-config") + 1])
    assert speculation == {"method": "ngram", "num_speculative_tokens": 3}


def test_a_served_cell_is_another_cell(grid):
    """HTTP is part of what is measured, so the key differs from the in-process one in that alone."""
    spec, point = grid.engines[0], Point(concurrency=2, input_tokens=100, output_tokens=10)
    served, in_process = json.loads(served_key(spec, point)), json.loads(spec.key(point))
    assert served == in_process | {"engine_process": "served"}


def test_a_server_that_does_not_start_is_noted_with_its_reason(grid, tmp_path, capsys):
    """A command that fails leaves a line in engines.jsonl and no rows; the sweep ends in order."""
    options = ServedOptions(out=tmp_path / "out", work=tmp_path / "work", python="/bin/sh -c 'exit 3'")
    assert run_served_sweep(grid, options) == (0, 1)
    (noted,) = [json.loads(line) for line in (tmp_path / "out" / "engines.jsonl").read_text().splitlines()]
    assert "exit code 3" in noted["error"]
    assert not (tmp_path / "out" / "rows.jsonl").exists()
    assert "ngram failed" in capsys.readouterr().out


def test_measured_cells_are_left_alone(grid, tmp_path, capsys):
    """With --resume a cell whose row is there starts no server; without it the folder is refused in one line."""
    (tmp_path / "out").mkdir()
    key = served_key(grid.engines[0], grid.engines[0].points[0])
    append_row(tmp_path / "out" / "rows.jsonl", {"key": key, "ended_by": "enough"})
    arguments = [str(tmp_path / "grid.yaml"), "--out", str(tmp_path / "out"), "--python", "/bin/false"]
    assert main(arguments) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0
    assert "0 cells" in capsys.readouterr().out


def test_a_fault_of_ours_is_noted_and_the_next_engine_follows(grid, tmp_path, monkeypatch):
    """Hours of a GPU are not lost to one engine's answer that nobody thought of."""

    def fail(*_, **__):
        raise KeyError("vocab_size")

    monkeypatch.setattr("profiler.sweep.served.engine_arguments", fail)
    twice = grid.model_copy(update={"engines": (grid.engines[0], grid.engines[0].model_copy(update={"name": "next"}))})
    assert run_served_sweep(twice, ServedOptions(out=tmp_path / "out", work=tmp_path / "work")) == (0, 2)
    noted = [json.loads(line) for line in (tmp_path / "out" / "engines.jsonl").read_text().splitlines()]
    assert [(row["engine"], row["error"]) for row in noted] == [
        ("ngram", "KeyError: 'vocab_size'"), ("next", "KeyError: 'vocab_size'"),
    ]  # fmt: skip


def test_a_full_disk_ends_a_served_sweep(grid, tmp_path, monkeypatch, capsys):
    """No further server is started for rows that nobody could keep."""

    def full(*_, **__):
        raise RowsError("rows.jsonl cannot be written")

    monkeypatch.setattr("profiler.sweep.served.engine_arguments", full)
    assert main([str(tmp_path / "grid.yaml"), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
