"""The table of real pairs: merged from a run, labelled, paired with its baseline, checked, counted and drawn."""

import json

import pytest

from profiler.measurements.__main__ import main
from profiler.measurements.coverage import real_coverage
from profiler.measurements.merge import merge_sweep
from profiler.measurements.real_pair import CELLS_FILE, REAL_COLUMNS, merge_real_pair, read_real_pair
from profiler.measurements.real_plots import draw_real_speedups, real_curves
from profiler.measurements.schema import check_tables
from profiler.measurements.table import write_table


def raw_cell(
    *, engine="base", k=0, structure="edit", concurrency=4, temperature=0.0, at="2026-01-01T00:00:00+00:00", rate=100.0,
    digests=("aa", "bb"), **more,
):  # fmt: skip
    """A row of real_pair.py: two answers of 51 tokens a second and hundred tokens per second."""
    key = {"target": "Big", "structure": structure, "concurrency": concurrency, "temperature": temperature}
    speculation = {"method": "ngram", "num_speculative_tokens": k}
    greedy = temperature == 0.0
    return {
        "key": json.dumps(key | ({"speculation": speculation} if k else {}), sort_keys=True), "protocol": 1,
        "measured_at": at, "engine": engine, "target": "Big", "method": "ngram" if k else "none", "drafter": None,
        "num_speculative_tokens": k, "draft_sample_method": None, "prompt_set": "own", "structure": structure,
        "temperature": temperature, "concurrency": concurrency, "prompts": 2, "most_output_tokens": 200,
        "input_tokens_mean": 50.5, "output_tokens_mean": 51.0, "output_tokens_per_s": rate,
        "output_tokens_per_s_cv": 0.01, "repeats": 2, "repeat_output_tokens_per_s": [rate, rate],
        "ttft_ms_mean": 100.0, "ttft_ms_p50": 90.0, "ttft_ms_p95": 200.0, "tpot_ms_p50": 30.0, "tpot_ms_p95": 40.0,
        "e2e_ms_p50": 1900.0, "e2e_ms_p95": 2500.0, "requests_timed": 12, "step_ms_mean": 30.0, "step_ms_p50": 29.0,
        "step_ms_p90": 40.0, "steps": 300, "completions": 20, "answer_tokens": 1020, "generation_tokens": 1000,
        "decode_tokens": 980, "decode_steps": 490 if k else 980, "prompt_tokens": 1000, "drafts": 245 if k else 0,
        "drafted_tokens": 245 * k, "accepted_tokens": 490 if k else 0,
        "accepted_per_position": [196, 147, 147] if k else [], "preemptions": 0, "cached_prompt_tokens": 0,
        "answers": 25, "answers_cut": 3, "answers_alike": 24 if greedy else None,
        "answer_digests": list(digests) if greedy else None, "ended_by": "enough", "fill_s": 1.0, "measured_s": 10.0,
        "cell_s": 11.5, "startup_s": 40.0, "engine_version": "0.26.0", "model_runner": "V1", "gpu": None,
        "git_revision": "abc", "torch_version": "2",
    } | more  # fmt: skip


def write_run(folder, rows):
    folder.mkdir(exist_ok=True)
    (folder / "real_pair_cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


PAIR = [raw_cell(), raw_cell(engine="ngram", k=3, rate=150.0, digests=("aa", "cc"), measured_s=20 / 3)]


def test_labels_follow_from_counts_and_littles_law(tmp_path):
    """Latency 4 · 10 s / 20; TPOT (2000 - 100) / 50; τ 980/490, m 245/490, AL 1 + 490/245, α by position."""
    merge_real_pair(write_run(tmp_path / "run", PAIR), tmp_path)
    base, ngram = read_real_pair(tmp_path)
    assert (base["e2e_ms"], base["tpot_ms"], base["tokens_per_step"]) == (2000.0, 38.0, 1.0)
    assert (base["draft_share"], base["acceptance_length"], base["acceptance_per_position"]) == (None, None, None)
    assert (ngram["tokens_per_step"], ngram["draft_share"], ngram["acceptance_length"]) == (2.0, 0.5, 3.0)
    assert ngram["acceptance_per_position"] == (0.8, 0.75, 1.0)
    assert base["repeatable_share"] == 0.96


def test_speedups_are_to_the_baseline_of_the_same_prompts_temperature_and_concurrency(tmp_path):
    """Another class, temperature or concurrency has no baseline here; two runs of the baseline are averaged."""
    rows = [*PAIR, raw_cell(rate=50.0, at="2026-01-02T00:00:00+00:00")]
    rows += [raw_cell(engine="ngram", k=3, **other)
             for other in ({"structure": "code"}, {"temperature": 1.0}, {"concurrency": 16})]  # fmt: skip
    merge_real_pair(write_run(tmp_path / "run", rows), tmp_path)
    cells = read_real_pair(tmp_path)
    ngram, *others = (cell for cell in cells if cell["method"] != "none")
    assert ngram["speedup_end_to_end"] == 2.0
    assert ngram["speedup_tpot"] == pytest.approx(38.0 / ((4e3 / 3 - 100) / 50), rel=1e-4)
    assert ngram["identical_share"] == 0.5
    assert ngram["baseline_id"] == cells[0]["cell_id"]
    assert [cell["run"] for cell in cells if cell["method"] == "none"] == [1, 2]
    assert all(cell["speedup_end_to_end"] is cell["baseline_id"] is cell["identical_share"] is None for cell in others)


@pytest.mark.parametrize(
    ("more", "flag"),
    [
        ({"output_tokens_per_s_cv": 0.3}, "spread"),
        ({"output_tokens_mean": 60.0}, "lengths_apart"),
        ({"ended_by": "deadline"}, "deadline"),
        ({"preemptions": 2}, "preempted"),
    ],
)
def test_what_is_odd_is_flagged_and_kept(tmp_path, more, flag):
    """One flag for one oddity; a sound row has none."""
    rows = [PAIR[0], PAIR[1] | more, raw_cell(engine="ngram5", k=4, accepted_per_position=[490])]
    merge_real_pair(write_run(tmp_path / "run", rows), tmp_path)
    assert [cell["flags"] for cell in read_real_pair(tmp_path)] == [None, flag, None]


def test_a_run_is_added_once_and_the_schema_holds(tmp_path, tables, capsys):
    """Merged by the command beside cost cells; what is changed by hand afterwards is found."""
    data, run = tmp_path / "data", write_run(tmp_path / "run", PAIR)
    merge_sweep(tables.write_sweep(tmp_path / "sweep", [tables.raw_cell()], [tables.raw_engine()]), data)
    for new in ("2 new cells", "0 new cells"):
        assert main([str(run), "--into", str(data)]) == 0
        assert new in capsys.readouterr().out
    assert check_tables(data) == []
    cells = read_real_pair(data)
    for change, said in (
        ({"speedup_end_to_end": 3.0}, "not derived anew: speedup_end_to_end"),
        ({"accepted_per_position": (1, 2, 3)}, "do not add up"),
        ({"drafted_tokens": 10_000}, "more drafted than k"),
        ({"answer_digests": "aa"}, "digest for each prompt"),
        ({"cached_prompt_tokens": 5}, "cached_prompt_tokens"),
        ({"method": "magic"}, "method: isin"),
    ):
        write_table(data / CELLS_FILE, REAL_COLUMNS, [cells[0], cells[1] | change])
        assert any(said in problem for problem in check_tables(data)), said


def test_a_table_without_cost_cells_is_merged_too(tmp_path):
    """For a pair of one's own, measured alone."""
    assert main([str(write_run(tmp_path / "run", PAIR)), "--into", str(tmp_path / "new")]) == 0
    assert len(read_real_pair(tmp_path / "new")) == 2


def test_coverage_counts_cells_and_tells_what_came_out(tmp_path):
    """Runs of one cell count once; speedups and identical answers by engine."""
    rows = [*PAIR, raw_cell(at="2026-01-02T00:00:00+00:00"), raw_cell(concurrency=16), raw_cell(structure="code")]
    merge_real_pair(write_run(tmp_path / "run", rows), tmp_path)
    seen = real_coverage(read_real_pair(tmp_path))
    assert (seen.cells, seen.runs) == (4, 5)
    assert seen.by_concurrency == (("base", "2", "1"), ("ngram", "1", "-"))
    assert seen.by_class == (("base", "1", "2"), ("ngram", "-", "1"))
    assert seen.gains == (("base", "0", "-", "-", "-", "-"), ("ngram", "1", "1.50", "1.50", "1.50", "50%"))


def test_speedups_are_drawn_by_class_over_concurrency(tmp_path):
    """One file a target and temperature; a curve is what was measured."""
    rows = []
    for concurrency, gain in ((1, 2.0), (16, 1.5), (128, 0.8)):
        for temperature in (0.0, 1.0):
            load = {"concurrency": concurrency, "temperature": temperature}
            rows += [raw_cell(**load), raw_cell(engine="ngram", k=3, rate=100 * gain, **load)]
    merge_real_pair(write_run(tmp_path / "run", rows), tmp_path)
    cells = read_real_pair(tmp_path)
    assert real_curves(cells)["Big", 0.0] == {"ngram": {"edit": {1: 2.0, 16: 1.5, 128: 0.8}}}
    files = draw_real_speedups(cells, tmp_path / "plots")
    assert [file.name for file in files] == ["real-pair-Big-T0.png", "real-pair-Big-T1.png"]
    assert all(file.read_bytes()[:4] == b"\x89PNG" for file in files)
