"""From a sweep's rows to the tables."""

import json

import pytest

from profiler.measurements import MeasurementsError, read_cells, read_engines
from profiler.measurements.__main__ import main
from profiler.measurements.merge import merge_sweep
from profiler.measurements.table import CELLS_FILE, write_cells


def merged(tables, folder, cells, engines=None):
    names = list(dict.fromkeys(cell["engine"] for cell in cells))
    sweep = tables.write_sweep(folder / "sweep", cells, engines or [tables.raw_engine(name) for name in names])
    merge_sweep(sweep, folder / "data")
    return read_cells(folder / "data")


def test_reruns_of_a_cell_are_kept_and_numbered(tables, tmp_path):
    """The second measurement of one cell is run 2 of the same cell_id; another point is another cell."""
    later = "2026-01-01T00:01:00+00:00"
    rows = merged(tables, tmp_path, [
        tables.raw_cell(at=later, tokens=420), tables.raw_cell(), tables.raw_cell(concurrency=8, at=later),
    ])  # fmt: skip
    first, second, other = sorted(rows, key=lambda row: (row["concurrency"], row["run"]))
    assert (first["cell_id"], first["run"], second["run"]) == (second["cell_id"], 1, 2)
    assert second["generation_tokens"] == 420
    assert other["cell_id"] != first["cell_id"]


def test_merging_twice_changes_nothing(tables, tmp_path):
    """The same rows are not added again, and the files are the same to the byte."""
    sweep = tables.write_sweep(tmp_path / "sweep", [tables.raw_cell()], [tables.raw_engine()])
    assert merge_sweep(sweep, tmp_path / "data") == (1, 1)
    before = (tmp_path / "data" / CELLS_FILE).read_bytes()
    assert merge_sweep(sweep, tmp_path / "data") == (0, 0)
    assert (tmp_path / "data" / CELLS_FILE).read_bytes() == before


def test_speedups_refer_to_the_mean_of_the_baselines_runs(tables, tmp_path):
    """80 and 120 tok/s without speculation, 150 with: 1.5; of τ, AL and m each from its own counts."""
    speculative = tables.raw_cell(
        engine="spec", method="ngram", k=2, tokens=600, prefills=60, drafts=200, accepted=180,
    )  # fmt: skip
    rows = merged(tables, tmp_path, [
        tables.raw_cell(tokens=320, prefills=32),
        tables.raw_cell(tokens=480, prefills=48, at="2026-01-02T00:00:00+00:00"),
        speculative,
    ])  # fmt: skip
    row = next(row for row in rows if row["method"] == "ngram")
    assert row["speedup_end_to_end"] == pytest.approx(1.5)
    assert row["tokens_per_step"] == pytest.approx(540 / 360)
    assert row["acceptance_length"] == pytest.approx(1.9)
    assert row["draft_share"] == pytest.approx(200 / 360, abs=1e-4)
    assert row["baseline_id"] in {r["cell_id"] for r in rows if r["method"] == "none"}


def test_two_protocols_are_not_each_others_baseline(tables, tmp_path):
    """Where the baseline was measured under both, a speculative run is compared with the run of its own protocol."""
    second = {"protocol": 2, "at": "2026-01-02T00:00:00+00:00", "output_tokens_per_s_median": 100.0}
    speculative = {"engine": "spec", "method": "ngram", "k": 2, "prefills": 60, "drafts": 200, "accepted": 180}
    rows = merged(tables, tmp_path, [
        tables.raw_cell(tokens=400), tables.raw_cell(tokens=800, **second),
        tables.raw_cell(tokens=600, **speculative), tables.raw_cell(tokens=1000, **second, **speculative),
    ])  # fmt: skip
    assert [r["speedup_end_to_end"] for r in rows if r["method"] == "ngram"] == pytest.approx([1.5, 1.25])


def test_a_baseline_of_other_settings_is_none(tables, tmp_path):
    """A cell under memory pressure is not compared with one that has the whole cache; graphs' sizes do not matter."""
    cells = [
        tables.raw_cell(),
        tables.raw_cell(engine="short", method="ngram", k=2, drafts=9, settings={"num_gpu_blocks_override": 9}),
        tables.raw_cell(engine="sizes", method="ngram", k=2, drafts=9, settings={"compilation_config": {"x": 1}}),
    ]
    rows = {row["engine"]: row for row in merged(tables, tmp_path, cells)}
    assert rows["short"]["speedup_end_to_end"] is None
    assert rows["sizes"]["speedup_end_to_end"] == pytest.approx(1.0)


def test_throughput_is_that_of_a_whole_cycle(tables, tmp_path):
    """Prefills beyond the span's tokens are taken away at what a prompt alone in the engine costs."""
    cells = [
        tables.raw_cell(concurrency=1, input_tokens=2048, ttft_ms_p50=110.0, step_ms_p50=10.0),
        tables.raw_cell(input_tokens=2048, tokens=400, prefills=50, seconds=10.0, at="2026-01-01T00:01:00+00:00"),
    ]
    row = merged(tables, tmp_path, cells)[1]
    assert row["imbalance"] == pytest.approx(-0.25)
    assert row["output_tokens_per_s"] == pytest.approx(400 / (10.0 - 10 * 0.1), abs=1e-3)
    assert row["output_tokens_per_s_pooled"] == pytest.approx(40.0)
    assert "imbalanced" in row["flags"].split()


def test_an_old_rows_end_is_told_by_its_length(tables, tmp_path):
    """Protocol 1 said only that a cell was not complete: after 6 s it was its own limit, before that the sweep's."""
    cells = [
        tables.raw_cell(),
        tables.raw_cell(concurrency=8, complete=False, seconds=6.5, at="2026-01-01T00:01:00+00:00"),
        tables.raw_cell(concurrency=9, complete=False, seconds=2.0, at="2026-01-01T00:02:00+00:00"),
    ]
    assert [row["ended_by"] for row in merged(tables, tmp_path, cells)] == ["enough", "limit", "deadline"]


def test_engines_keep_models_by_name_and_one_row_each_start(tables, tmp_path):
    """No path of the measuring host is kept, and an engine that never came up is a row with its error."""
    failed = {"engine": "failed", "error": "no output for 120 s"}
    merged(tables, tmp_path, [tables.raw_cell()], [tables.raw_engine(), failed])
    first, second = read_engines(tmp_path / "data")
    assert first["arguments"]["model"] == "T"
    assert "/scratch" not in (tmp_path / "data" / "engines.csv").read_text()
    assert (second["error"], second["target"]) == ("no output for 120 s", None)


def test_rows_of_no_engine_are_refused(tables, tmp_path):
    """A row whose engine is not known has no version, host or memory: it is told, not guessed."""
    sweep = tables.write_sweep(tmp_path / "sweep", [tables.raw_cell()], [tables.raw_engine("other")])
    with pytest.raises(MeasurementsError, match="rows without an engine"):
        merge_sweep(sweep, tmp_path / "data")


def test_tables_that_are_damaged_are_refused_with_their_place(tables, tmp_path):
    """A missing file, other columns, a cut line and a value of the wrong kind each say where."""
    with pytest.raises(MeasurementsError, match=r"data/measurements"):
        read_cells(tmp_path)
    rows = merged(tables, tmp_path, [tables.raw_cell()])
    path = tmp_path / "data" / CELLS_FILE
    text = path.read_text()
    for damaged, said in (
        (text.replace("cell_id,", "cell,", 1), "differing in cell, cell_id"),
        (text[: text.index("\n") + 40], ":2 is cut"),
        (text.replace(",4,100,10,", ",4,many,10,", 1), ":2 input_tokens"),
    ):
        path.write_text(damaged)
        with pytest.raises(MeasurementsError, match=said):
            read_cells(tmp_path / "data")
    write_cells(tmp_path / "data", rows)
    assert path.read_text() == text


def test_the_command_merges_and_tells_errors_in_one_line(tables, tmp_path, capsys):
    """`python -m profiler.measurements SWEEP --into DATA`."""
    sweep = tables.write_sweep(tmp_path / "sweep", [tables.raw_cell()], [tables.raw_engine()])
    assert main([str(sweep), "--into", str(tmp_path / "data")]) == 0
    assert "1 new cells of 1 engines" in capsys.readouterr().out
    (sweep / "rows.jsonl").write_text(json.dumps(tables.raw_cell()) + "\n{")
    assert main([str(sweep), "--into", str(tmp_path / "data")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_served_sweep_merges_like_any_other(tables, tmp_path):
    """Its engine notes flags instead of arguments, and its facts in the rows alone; the key keeps it apart."""
    flags = ["--skip-tokenizer-init", "--load-format", "dummy", "--max-model-len", "1000", "--no-enable-prefix-caching",
             "--speculative-config", json.dumps({"method": "ngram", "num_speculative_tokens": 2})]  # fmt: skip
    cell = tables.raw_cell(engine="spec", method="ngram", k=2, drafts=9, engine_version="0.26.0")
    merged(tables, tmp_path, [cell], [tables.raw_engine("spec", arguments=flags, engine_process="served")])
    (engine,) = read_engines(tmp_path / "data")
    assert (engine["target"], engine["method"], engine["engine_version"]) == ("T", "ngram", "0.26.0")
    assert engine["arguments"]["max_model_len"] == 1000
    assert engine["arguments"]["enable_prefix_caching"] is False
    assert engine["arguments"]["load_format"] == "dummy"
