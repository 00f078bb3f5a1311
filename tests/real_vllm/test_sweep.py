"""`specworth sweep` measures real engines under vLLM's own interpreter, which has nothing of ours but the source."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from profiler.sweep.rows import read_rows
from tests.ray_cluster import running_cluster

SHAPES = """
tiny:
  architectures: [LlamaForCausalLM]
  model_type: llama
  hidden_size: 128
  intermediate_size: 256
  num_hidden_layers: 2
  num_attention_heads: 4
  num_key_value_heads: 2
  head_dim: 32
  vocab_size: 1024
  max_position_embeddings: 2048
  tie_word_embeddings: true
  torch_dtype: float32
"""
GRID = """
shapes: shapes.yaml
settings: {max_model_len: 512, max_num_seqs: 4, enforce_eager: true, dtype: float32, kv_cache_memory_bytes: 60000000}
traffic: {core: [[2, 32, 16]]}
engines:
  - {name: base, target: tiny, traffic: [core]}
  - {name: ngram, target: tiny, traffic: [core], speculation: {method: ngram, num_speculative_tokens: 3,
     prompt_lookup_min: 2, prompt_lookup_max: 4}}
"""


@pytest.fixture(scope="module")
def swept(vllm_python, serve_environment, tmp_path_factory):
    """A sweep of two cells, and the same command again."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "shapes.yaml").write_text(SHAPES)
    (folder / "grid.yaml").write_text(GRID)

    def sweep(*more):
        command = [sys.executable, "-m", "api.main", "sweep", folder / "grid.yaml", "--out", folder / "out"]
        command += ["--python", vllm_python, *more]
        return subprocess.run(
            list(map(str, command)), env=os.environ | serve_environment, capture_output=True, text=True, timeout=300
        )

    first = sweep()
    assert first.returncode == 0, first.stdout + first.stderr
    return read_rows([folder / "out" / "rows.jsonl"]), first, sweep, folder / "out"


def test_each_cell_is_one_row(swept):
    """Two engines, one point: two rows with throughput, latencies and the facts of engine and host."""
    rows, first, *_ = swept
    assert [row["engine"] for row in rows] == ["base", "ngram"], first.stdout
    for row in rows:
        assert (row["concurrency"], row["input_tokens"], row["output_tokens"]) == (2, 32, 16)
        assert row["output_tokens_per_s"] > 0
        assert row["tpot_ms_p50"] > 0
        assert row["ttft_ms_p50"] > 0
        assert row["step_ms_p50"] > 0
        assert row["engine_version"].startswith("0.32.0")
        assert row["repeats"] >= 3
        assert row["target_parameters"] > 0
    assert rows[0]["tpot_ms_p50"] == pytest.approx(rows[0]["step_ms_p50"], rel=0.5)


def test_only_the_speculative_row_has_drafts(swept):
    """Drafts, drafted and accepted tokens per position of the n-gram engine; none of the baseline."""
    base, ngram = swept[0]
    assert (base["method"], base["drafts"], base["accepted_per_position"]) == ("none", 0, [])
    assert ngram["method"] == "ngram"
    assert 0 < ngram["drafts"] <= ngram["drafted_tokens"] <= 3 * ngram["drafts"]
    assert sum(ngram["accepted_per_position"]) == ngram["accepted_tokens"]


def test_a_finished_sweep_is_not_measured_twice(swept):
    """Without --resume the folder is refused in one line; with it nothing is left to do."""
    rows, _, sweep, out = swept
    refused = sweep()
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    resumed = sweep("--resume")
    assert resumed.returncode == 0
    assert read_rows([out / "rows.jsonl"]) == rows


def test_engines_logs_are_kept(swept):
    """What each engine said about itself stands beside the rows."""
    out = swept[3]
    engines = [json.loads(line) for line in (out / "engines.jsonl").read_text().splitlines()]
    assert [engine["engine"] for engine in engines] == ["base", "ngram"]
    assert not any(engine["error"] for engine in engines)
    assert (out / "engine_logs.gz").stat().st_size > 0


def test_a_served_cell_is_measured_over_http(vllm_python, serve_environment, tmp_path):
    """The same loop against `vllm serve`: a row of the same schema, latencies by the client, counts by /metrics."""
    (tmp_path / "shapes.yaml").write_text(SHAPES)
    (tmp_path / "grid.yaml").write_text(GRID)
    command = [sys.executable, "-m", "api.main", "sweep", tmp_path / "grid.yaml", "--out", tmp_path / "out"]
    command += ["--python", vllm_python, "--served", "--only", "ngram"]
    done = subprocess.run(
        list(map(str, command)), env=os.environ | serve_environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = read_rows([tmp_path / "out" / "rows.jsonl"])
    assert (row["engine"], row["engine_process"], row["weights"]) == ("ngram", "served", "dummy")
    assert row["engine_version"].startswith("0.32.0")
    assert row["requests_timed"] > 0
    assert row["output_tokens_per_s"] > 0
    assert 0 < row["tpot_ms_p50"] < row["e2e_ms_p50"]
    assert 0 < row["drafts"] <= row["drafted_tokens"]
    assert sum(row["accepted_per_position"]) == row["accepted_tokens"]
    assert row["generation_tokens"] > row["decode_tokens"] > row["accepted_tokens"]


def test_a_cluster_that_loses_a_node_gives_the_same_cells(swept, vllm_python, serve_environment, tmp_path):
    """Two Ray nodes with an engine each, one lost while vLLM starts on it: every cell of the run alone, once."""
    alone = swept[0]
    (tmp_path / "shapes.yaml").write_text(SHAPES)
    (tmp_path / "grid.yaml").write_text(GRID)
    python = tmp_path / "python"  # Ray's nodes have their own environment; a CPU build needs this one
    words = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in serve_environment.items())
    python.write_text(f'#!/bin/sh\n{words}exec {vllm_python} "$@"\n')
    python.chmod(0o755)
    with running_cluster() as cluster:
        cluster.add("alpha")
        cluster.add("beta")
        command = [sys.executable, "-m", "api.main", "sweep", tmp_path / "grid.yaml", "--out", tmp_path / "out"]
        command += ["--python", python, "--executor", "ray", "--ray-address", cluster.address, "--ray-gpus", "0"]
        with subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            said, begun = "", 0
            for line in process.stdout:
                said += line
                begun += ": on " in line
                if begun == 2:
                    begun = 0  # what is sent again begins once more
                    cluster.kill("alpha")
    assert process.returncode == 0, said
    assert "its node was lost" in said
    rows = read_rows([tmp_path / "out" / "rows.jsonl"])
    assert sorted(row["key"] for row in rows) == sorted(row["key"] for row in alone)
    assert {row["engine"]: set(row) for row in rows} == {row["engine"]: set(row) for row in alone}
    assert all(row["engine_version"].startswith("0.32.0") and row["output_tokens_per_s"] > 0 for row in rows)
