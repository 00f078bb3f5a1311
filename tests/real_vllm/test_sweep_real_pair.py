"""A real pair end to end on real engines: the same prompts in both arms, natural answers, counts that agree."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from profiler.measurements.real_pair import merge_real_pair, read_real_pair, real_pair_problems
from profiler.sweep.rows import read_rows

ROOT = Path(__file__).parents[2]
PROMPTS = ["Repeat these words: red green blue red green blue", "Say yes.", "What is the capital of France?"]
GRID = """
models: {Small: smollm, Layers: drafter}
prompts: {own: prompts.jsonl}
prompts_per_class: 3
output_tokens: 12
settings: {max_model_len: 256, max_num_seqs: 4, enforce_eager: true, dtype: float32, kv_cache_memory_bytes: 300000000}
traffic: {main: [{classes: [talk], concurrency: [2]}]}
engines:
  - {name: base, target: Small, traffic: [main]}
  - {name: draft, target: Small, traffic: [main],
     speculation: {method: draft_model, draft: Layers, num_speculative_tokens: 2}}
"""


@pytest.fixture(scope="module")
def measured(vllm_python, vllm_environment, serve_environment, tmp_path_factory):
    """Both arms' rows, their folder, and what the command said."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "grid.yaml").write_text(GRID)
    (folder / "prompts.jsonl").write_text(
        "".join(json.dumps({"class": "talk", "prompt": prompt}) + "\n" for prompt in PROMPTS)
    )
    command = [vllm_python, "-m", "profiler.sweep.real_pair", folder / "grid.yaml", "--out", folder / "out"]
    command += ["--models", vllm_environment.models]
    environment = os.environ | serve_environment | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_rows([folder / "out" / "real_pair_cells.jsonl"]), folder / "out", done.stdout


def test_both_arms_answer_alike_and_are_counted_by_vllm(measured):
    """float32 on a CPU: every greedy answer is the baseline's, in fewer steps where drafts are accepted."""
    rows, _, said = measured
    assert [row["engine"] for row in rows] == ["base", "draft"], said
    base, draft = rows
    assert base["answer_digests"] == draft["answer_digests"]
    assert all(row["answers_alike"] == row["answers"] for row in rows)
    assert base["decode_steps"] == base["decode_tokens"] > 0
    assert (base["drafts"], base["accepted_per_position"]) == (0, [])
    written = draft["decode_tokens"] - draft["decode_steps"]  # by accepted drafts; those beyond an end are not written
    assert 0 <= written <= draft["accepted_tokens"]
    assert draft["drafts"] == pytest.approx(draft["decode_steps"], abs=4)  # a draft a step, but for the span's ends
    assert sum(draft["accepted_per_position"]) == draft["accepted_tokens"]


def test_windows_are_whole_passes_of_templated_prompts_that_no_cache_knows(measured):
    """Three prompts by two at a time: windows of three requests; no prompt tokens are ever found again."""
    for row in measured[0]:
        assert row["repeats"] >= 2
        assert row["completions"] % 3 <= 1
        assert row["input_tokens_mean"] > 20  # the template adds a system prompt
        assert row["cached_prompt_tokens"] == 0
        assert 0 < row["ttft_ms_mean"] < row["e2e_ms_p50"]


def test_the_rows_merge_into_a_table_with_speedups(measured, tmp_path):
    """Labels by Little's law, a speedup against the baseline, nothing for the schema to find."""
    assert merge_real_pair(measured[1], tmp_path) == 2
    cells = read_real_pair(tmp_path)
    assert real_pair_problems(cells) == []
    assert cells[0]["speedup_end_to_end"] is None
    assert cells[1]["speedup_end_to_end"] > 0
    assert cells[1]["identical_share"] == 1.0
