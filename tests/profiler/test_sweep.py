"""Grids, rows and start-up logs of a sweep."""

import csv
import json
from itertools import pairwise
from pathlib import Path

import pytest

from profiler.sweep.__main__ import main
from profiler.sweep.closed_loop import CellMeasurement, Counters, Finished
from profiler.sweep.grid import GridError, Point, read_grid
from profiler.sweep.models import acceptance_rates
from profiler.sweep.rows import append_row, cell_row, is_done, read_rows
from profiler.sweep.startup_log import GIB, failure_line, read_startup_log
from profiler.sweep.worker import engine_arguments

GRIDS = sorted((Path(__file__).parents[2] / "data" / "grids").glob("[cr]*t-[0-9].yaml"))
SMALL = """
shapes: shapes.yaml
settings: {max_model_len: 1000}
traffic: {core: [[1, 100, 10], [2, 100, 10], [1, 100, 10]]}
engines:
  - {name: last, target: small, traffic: [core], priority: 1}
  - {name: other, target: large, traffic: [core]}
  - {name: base, target: small, traffic: [core]}
  - {name: more, target: large, traffic: [core], temperature: 1.0, speculation: SPECULATION}
"""
NGRAM = "{method: ngram, num_speculative_tokens: 3, acceptance_length: 2.0}"


def small_grid(folder, speculation=NGRAM, text=SMALL):
    (folder / "shapes.yaml").write_text("small: {hidden_size: 8}\nlarge: {hidden_size: 16}\n")
    path = folder / "grid.yaml"
    path.write_text(text.replace("SPECULATION", speculation))
    return path


def test_engines_of_one_target_stay_together_within_a_priority(tmp_path):
    """Priority decides first, then the target's first appearance; compiled graphs are used again."""
    assert [e.name for e in read_grid(small_grid(tmp_path)).engines] == ["other", "more", "base", "last"]


def test_points_are_measured_once_and_take_the_engines_temperature(tmp_path):
    """A point named twice is one cell."""
    engine = {e.name: e for e in read_grid(small_grid(tmp_path)).engines}["more"]
    assert [p.label() for p in engine.points] == ["1x100+10 T1", "2x100+10 T1"]


def test_a_cells_key_names_what_was_measured_not_the_engine(tmp_path):
    """Renaming or reordering an engine does not make its cells new; another drafting depth does."""
    point = Point(concurrency=1, input_tokens=100, output_tokens=10)
    engines = {e.name: e for e in read_grid(small_grid(tmp_path)).engines}
    assert engines["base"].key(point) == engines["last"].key(point)
    assert engines["more"].key(point) != engines["other"].key(point)


@pytest.mark.parametrize(
    ("speculation", "text", "said"),
    [
        ("{method: ngram, num_speculative_tokens: 3, acceptance_length: 4.5}", SMALL, r"\[1, 4\]"),
        ("{method: eagle3, num_speculative_tokens: 3, draft: unknown}", SMALL, "names a shape that shapes.yaml lacks"),
        ("{method: ngram, num_speculative_tokens: 3, k: 3}", SMALL, "speculation.k"),
        (NGRAM, SMALL.replace("[core]", "[cores]"), "names unknown traffic"),
        (NGRAM, SMALL.replace("1000", "105"), "does not fit"),
        (NGRAM, SMALL.replace("name: last", "name: base"), "have one name"),
        (NGRAM, "- a list", "holds no mapping"),
        (NGRAM, "{", "is not YAML"),
        (NGRAM, "", "holds no mapping"),
        (NGRAM, SMALL.replace("[1, 100, 10], ", "[0, 100, 10], "), "concurrency: Input should be greater"),
        (NGRAM, SMALL.replace("[1, 100, 10], ", "[1, -100, 10], "), "input_tokens: Input should be greater"),
        (NGRAM, SMALL.replace("[1, 100, 10], ", "[1, 100], "), r"a point is \[concurrency.*got 2 values"),
        (NGRAM, SMALL.replace("[1, 100, 10], ", "[1, ten, 10], "), "valid integer"),
        (
            NGRAM,
            SMALL.replace("[1, 100, 10]", "{concurrency: 1, input_tokens: 1, output_tokens: 1, temperature: .nan}"),
            "temperature",
        ),
        (NGRAM, SMALL.replace("[[1, 100, 10], [2, 100, 10], [1, 100, 10]]", "[]"), "at least 1 item"),
        (NGRAM, SMALL.split("engines:")[0] + "engines: []", "at least 1 item"),
        (NGRAM, SMALL.replace("1000", '"1000"'), "max_model_len is no length"),
        (NGRAM, SMALL.replace("{max_model_len: 1000}", "{model: other}"), "set by the sweep itself"),
        (NGRAM, SMALL.replace("name: last", "name: ../../last"), "engines.0.name"),
        (NGRAM, SMALL.replace("name: last", 'name: ""'), "engines.0.name"),
        ("{method: eagle3, num_speculative_tokens: 3}", SMALL, "eagle3 needs a draft"),
    ],
)
def test_a_wrong_grid_is_refused_with_the_place(tmp_path, speculation, text, said):
    """Each mistake is told before any engine starts."""
    with pytest.raises(GridError, match=said):
        read_grid(small_grid(tmp_path, speculation, text))


def test_a_missing_grid_is_one_line_on_the_command_line(tmp_path, capsys):
    """No traceback for a wrong path."""
    assert main([str(tmp_path / "none.yaml"), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_speculative_cell_of_our_grids_has_its_baseline(path):
    """Without the same point of the same target, weights and settings there is no speedup to learn from."""
    engines = [e for p in GRIDS for e in read_grid(p).engines]
    baselines = {
        (e.target, e.quantization, json.dumps(e.settings | {"compilation_config": 0}, sort_keys=True),
         p.concurrency, p.input_tokens, p.output_tokens)
        for e in engines if not e.speculation for p in e.points
    }  # fmt: skip
    missing = [
        (e.name, p.label()) for e in read_grid(path).engines if e.speculation for p in e.points
        if (e.target, e.quantization, json.dumps(e.settings | {"compilation_config": 0}, sort_keys=True),
            p.concurrency, p.input_tokens, p.output_tokens) not in baselines
    ]  # fmt: skip
    assert not missing


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_our_grids_stay_within_the_data_sets_bounds(path):
    """Concurrency 1 to 256, inputs 128 to 16k, outputs 64 to 512, at most 256k prompt tokens in a cell."""
    for point in (p for e in read_grid(path).engines for p in e.points):
        assert 1 <= point.concurrency <= 256
        assert 128 <= point.input_tokens <= 16384
        assert 64 <= point.output_tokens <= 512
        assert point.concurrency * point.input_tokens <= 256 * 1024


@pytest.mark.parametrize(("length", "k"), [(1.0, 3), (2.5, 3), (3.0, 5), (1.7, 1), (4.0, 3)])
def test_imposed_acceptance_has_the_asked_length(length, k):
    """One α for all positions, whose expected accepted tokens give the acceptance length."""
    rates = acceptance_rates(acceptance_length=length, num_speculative_tokens=k)
    assert 1 + sum(rates) == pytest.approx(length, abs=1e-4)
    assert all(later <= earlier for earlier, later in pairwise(rates))


def test_engine_arguments_write_the_folders_that_they_name(tmp_path):
    """Target and drafter folders hold the shapes; synthetic rates come with the method's name."""
    head = "{method: eagle3, num_speculative_tokens: 2, draft: small, acceptance_length: 2.0}"
    grid = read_grid(small_grid(tmp_path, head))
    arguments = engine_arguments({e.name: e for e in grid.engines}["more"], grid.shapes, tmp_path / "models")
    config = arguments["speculative_config"]
    assert json.loads((Path(arguments["model"]) / "config.json").read_text()) == {"hidden_size": 16}
    assert json.loads((Path(config["model"]) / "config.json").read_text()) == {"hidden_size": 8}
    assert config["rejection_sample_method"] == "synthetic"
    assert len(config["synthetic_acceptance_rates"]) == 2
    assert arguments["max_model_len"] == 1000


def measured_cell():
    return CellMeasurement(
        ended_by="enough", fill_s=0.1, measured_s=2.0, completions=20, windows=[(1.0, 100), (1.0, 120), (1.0, 110)],
        counters=Counters(generation_tokens=230, first_tokens=20, steps=100, drafts=80, drafted_tokens=240,
                          accepted_tokens=110, accepted_per_position=(60, 30, 20)),
        ttft_s=[0.05, 0.07], timed=[Finished("a", 11, 0.05, 0.1)], e2e_s=[0.15], step_s=[0.01, 0.01, 0.03],
    )  # fmt: skip


def test_a_row_is_in_the_units_of_its_names(tmp_path):
    """Milliseconds, tokens per second of the whole span, decode tokens without the first ones."""
    spec = {e.name: e for e in read_grid(small_grid(tmp_path)).engines}["more"]
    row = cell_row(spec, spec.points[0], measured_cell(), {"gpu": "H200"})
    assert row["output_tokens_per_s_median"] == 110
    assert row["output_tokens_per_s"] == row["output_tokens_per_s_pooled"] == 115
    assert row["tpot_ms_mean"] == pytest.approx(10.0)
    assert row["step_ms_p50"] == pytest.approx(10.0)
    assert row["ttft_ms_p50"] == pytest.approx(60.0)
    assert row["decode_tokens"] == 210
    assert (row["method"], row["acceptance"], row["weights"], row["gpu"]) == ("ngram", "synthetic", "dummy", "H200")


def test_rows_survive_a_cut_line(tmp_path, capsys):
    """A row that a crash cut short is left out and told; the others are read."""
    path = tmp_path / "rows.jsonl"
    append_row(path, {"key": "a"})
    with path.open("a") as file:
        file.write('{"key": "b", "tok')
    assert [row["key"] for row in read_rows([path, tmp_path / "absent.jsonl"])] == ["a"]
    assert "cut short" in capsys.readouterr().err


LOG = """
(EngineCore pid=1) INFO 11-30 15:01:04 [model_runner.py:306] Model loading took 15.66 GiB and 2.123456 seconds
(EngineCore pid=1) INFO 11-30 15:01:20 [monitor.py:34] torch.compile took 21.30 s in total
(EngineCore pid=1) INFO 11-30 15:01:28 [gpu_worker.py:561] Available KV cache memory: 107.53 GiB
(EngineCore pid=1) INFO 11-30 15:01:28 [kv_cache_utils.py:2177] GPU KV cache size: 880,880 tokens
(EngineCore pid=1) INFO 11-30 15:01:40 [model_runner.py:748] Graph capturing finished in 9 secs, took 0.72 GiB
(EngineCore pid=1) INFO 11-30 15:01:41 [gpu_worker.py:850] Free memory on device (138.7/139.8 GiB) on startup. \
Desired GPU memory utilization is (0.92, 128.62 GiB). Actual usage is 15.66 GiB for weight, 4.5 GiB for peak \
activation, 0.24 GiB for non-torch memory, and 0.72 GiB for CUDAGraph memory. Replace gpu_memory_utilization config ...
(EngineCore pid=1) INFO 11-30 15:01:41 [core.py:341] init engine (profile, create kv cache, warmup model) took 36.10 s
"""


def test_the_startup_log_gives_the_memory_account():
    """Bytes for what the log gives in GiB, tokens and seconds as they stand."""
    read = read_startup_log(LOG)
    assert read["weight_bytes"] == round(15.66 * GIB)
    assert read["activation_bytes"] == round(4.5 * GIB)
    assert read["requested_bytes"] == round(128.62 * GIB)
    assert read["kv_cache_tokens"] == 880880
    assert (read["init_s"], read["graph_capture_s"], read["compile_s"]) == (36.1, 9, 21.3)
    assert "moe_backend" not in read


def test_the_failure_line_is_the_last_error():
    """What an engine died of, out of pages of traceback."""
    log = "INFO fine\nValueError: first: cause\n  File x\ntorch.OutOfMemoryError: CUDA out of memory: tried\nINFO bye"
    assert failure_line(log) == "torch.OutOfMemoryError: CUDA out of memory: tried"
    assert failure_line("") == "no output"


@pytest.mark.parametrize(
    ("row", "done"),
    [
        ({"ended_by": "enough", "complete": True}, True),
        ({"ended_by": "limit", "complete": True}, True),
        ({"ended_by": "deadline", "complete": False}, False),
        ({"complete": True, "measured_s": 1.6}, True),
        ({"complete": False, "measured_s": 6.5}, True),  # protocol 1: its own limit
        ({"complete": False, "measured_s": 2.0}, False),
    ],
)
def test_only_a_cell_that_the_deadline_cut_is_measured_again(row, done):
    """A slow cell that its own limit ended is done: it would be cut again."""
    assert is_done(row) is done


def test_the_data_set_tells_what_is_measured(tmp_path):
    """cost_cells.csv can be given as --done; a cell counts if one of its runs is neither clumped nor unsteady."""
    path = Path(__file__).parents[2] / "data" / "measurements" / "cost_cells.csv"
    done = {row["key"] for row in read_rows([path]) if is_done(row)}
    with path.open(encoding="utf-8", newline="") as file:
        flags = [(row["key"], set(row["flags"].split())) for row in csv.DictReader(file)]
    assert done == {key for key, flagged in flags if not flagged & {"clumped", "unsteady"}}
    points = [(point, e.key(point)) for e in read_grid(GRIDS[0]).engines if e.name == "llama8b" for point in e.points]
    assert done >= {key for point, key in points if point.concurrency <= 4}


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ("small: 3\nlarge: {hidden_size: 16}\n", "small is no shape"),
        ("small: {max_position_embeddings: 64}\nlarge: {max_position_embeddings: 64}\n", "at most 64"),
        ("- small\n", "holds no mapping"),
    ],
)
def test_wrong_shapes_are_refused(tmp_path, shapes, said):
    """A shape that is no config; points that the target was not made for, where no max_model_len is set."""
    path = small_grid(tmp_path, text=SMALL.replace("settings: {max_model_len: 1000}\n", ""))
    (tmp_path / "shapes.yaml").write_text(shapes)
    with pytest.raises(GridError, match=said):
        read_grid(path)


def test_a_grid_that_is_no_text_is_refused(tmp_path):
    """A folder, or some other file that was named by mistake."""
    (tmp_path / "grid.yaml").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(GridError, match="is not YAML"):
        read_grid(tmp_path / "grid.yaml")
    with pytest.raises(GridError, match="directory"):
        read_grid(tmp_path)


def test_a_time_limit_that_no_engine_could_meet_imports_nothing(tmp_path, monkeypatch, capsys):
    """It ends at once instead of after vLLM's import, which takes longer than the limit."""

    def never(architectures=()):
        raise AssertionError("vLLM was imported")

    monkeypatch.setattr("profiler.sweep.session.import_vllm", never)
    assert main([str(small_grid(tmp_path)), "--out", str(tmp_path / "out"), "--time-limit", "5"]) == 0
    assert "too short" in capsys.readouterr().out
