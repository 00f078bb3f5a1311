"""What does a real pair gain end to end? Columns of its table, labels and speedups, and the merging of a run.

real_pair_cells.csv has a row for each run of an engine, class of prompts, temperature and concurrency. Latencies of the
timed requests favour short answers where a span is short, so the labels are means by Little's law over a span of whole
passes: end-to-end latency is c · span / requests ended, and TPOT what is left of it beside the first token. Speedups
are to the mean over the runs of the baseline's cell: same prompts, temperature, concurrency, settings, longest answer.
At temperature 0 the digests of both arms' answers say how many are the same, token by token; bfloat16 sums depend on
who else is in the batch, so that even two passes of one arm differ now and then (`repeatable_share`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from profiler.measurements.cells import acceptance_labels, by_engine, not_derived_anew, not_yet_in, numbered
from profiler.measurements.columns import DRAFT_COUNTS, METHODS, REAL_CELL, Column, column
from profiler.measurements.table import Row, read_json_lines, read_table, write_table

CELLS_FILE = "real_pair_cells.csv"
SPREAD, LENGTHS_APART = 0.1, 0.05

REAL_COLUMNS: tuple[Column, ...] = (
    *REAL_CELL,
    column("method", "text", "speculative method; `none` is the baseline", among=METHODS),
    column("drafter", "text", "drafter", required=False),
    column("num_speculative_tokens", "int", "k, 0 without speculation", least=0, most=16),
    column("draft_sample_method", "text", "greedy or probabilistic drafting", required=False),
    column("prompt_set", "text", "file of prompts"),
    column("structure", "text", "class of prompts, as the file names it"),
    column("temperature", "float", "sampling temperature", least=0, most=2),
    column("concurrency", "int", "requests in flight, constant", least=1, most=256),
    column("prompts", "int", "prompts that are asked again and again", least=1),
    column("most_output_tokens", "int", "no answer is longer", least=2),
    column("input_tokens_mean", "float", "prompt length, chat template included", least=1),
    column("output_tokens_mean", "float", "length of the answers that ended in the span", least=1),
    column("output_tokens_per_s", "float", "LABEL: tokens / seconds of the span", least=0),
    column("e2e_ms", "float", "LABEL: mean request latency, c · span / requests ended", derived=True, least=0),
    column("tpot_ms", "float", "LABEL: (mean latency - mean TTFT) / (mean answer - 1)",
           required=False, derived=True, least=0),
    column("ttft_ms_mean", "float", "LABEL: time to first token, mean", required=False, least=0),
    column("acceptance_length", "float", "LABEL: AL = 1 + accepted / drafts", required=False, derived=True, least=1),
    column("tokens_per_step", "float", "LABEL: τ = decode tokens / decode steps", derived=True, least=0),
    column("draft_share", "float", "LABEL: m = drafts / decode steps", required=False, derived=True, least=0),
    column("acceptance_per_position", "floats", "LABEL: α_i, accepted at i of those accepted at i - 1",
           required=False, derived=True),
    column("speedup_end_to_end", "float", "LABEL: tokens per second / mean of the baseline's runs",
           required=False, derived=True, least=0),
    column("speedup_tpot", "float", "LABEL: mean TPOT of the baseline's runs / TPOT",
           required=False, derived=True, least=0),
    column("identical_share", "float", "share of prompts whose first greedy answer is the baseline's",
           required=False, derived=True, least=0, most=1),
    column("repeatable_share", "float", "share of the cell's greedy answers equal to their prompt's first",
           required=False, derived=True, least=0, most=1),
    column("baseline_id", "text", "cell_id of the baseline that speedups refer to", required=False, derived=True),
    column("flags", "text", "what to look at twice, see the card", required=False, derived=True),
    column("output_tokens_per_s_cv", "float", "sd / mean of the windows' rates", required=False, least=0),
    column("repeats", "int", "windows, each of whole passes", least=1),
    column("repeat_output_tokens_per_s", "floats", "each window's rate"),
    column("ttft_ms_p50", "float", "time to first token, median", required=False, least=0),
    column("ttft_ms_p95", "float", "the same, 95th percentile", required=False, least=0),
    column("tpot_ms_p50", "float", "TPOT of requests begun and ended in the span, median", required=False, least=0),
    column("tpot_ms_p95", "float", "the same, 95th percentile", required=False, least=0),
    column("e2e_ms_p50", "float", "latency of requests begun and ended in the span, median", required=False, least=0),
    column("e2e_ms_p95", "float", "the same, 95th percentile", required=False, least=0),
    column("requests_timed", "int", "requests begun and ended in the span", least=0),
    column("step_ms_mean", "float", "interval between the engine's outputs", required=False, least=0),
    column("step_ms_p50", "float", "the same, median", required=False, least=0),
    column("step_ms_p90", "float", "the same, 90th percentile", required=False, least=0),
    column("steps", "int", "engine steps", least=0),
    column("completions", "int", "requests ended in the span", least=1),
    column("answer_tokens", "int", "tokens of their answers", least=1),
    column("generation_tokens", "int", "tokens written in the span", least=1),
    column("decode_tokens", "int", "of them all but first tokens", least=0),
    column("decode_steps", "int", "steps that wrote those, over all requests", least=0),
    column("prompt_tokens", "int", "tokens of the prompts whose prefill ended", least=0),
    *DRAFT_COUNTS,
    column("preemptions", "int", "requests sent back for lack of cache", least=0),
    column("cached_prompt_tokens", "int", "prompt tokens found in the prefix cache", least=0, most=0),
    column("answers", "int", "answers of the cell, the loop's start included", least=1),
    column("answers_cut", "int", "of them ended by `most_output_tokens`", least=0),
    column("answers_alike", "int", "at temperature 0: equal to their prompt's first", required=False, least=0),
    column("answer_digests", "text", "at temperature 0: of each prompt's first answer, - without one", required=False),
    column("ended_by", "text", "why measuring ended", among=("enough", "limit", "deadline")),
    column("fill_s", "float", "time to fill the loop", least=0),
    column("measured_s", "float", "measured span", least=0),
    column("cell_s", "float", "all of the cell", least=0),
    column("startup_s", "float", "the engine's start", least=0),
    column("engine_version", "text", "vLLM's"),
    column("model_runner", "text", "V1 or V2", required=False),
    column("async_scheduling", "bool", "whether the scheduler runs ahead", required=False),
    column("cudagraph_mode", "text", "vLLM's", required=False),
    column("dtype", "text", "of the weights", required=False),
    column("max_num_seqs", "int", "vLLM's, default of its server", required=False, least=1),
    column("max_num_batched_tokens", "int", "vLLM's, default of its server", required=False, least=1),
    column("gpu", "text", "as nvidia-smi names it; empty on a CPU", required=False),
    column("driver", "text", "NVIDIA driver", required=False),
    column("host_cpu", "text", "as /proc/cpuinfo names it", required=False),
    column("git_revision", "text", "this repository's, when measuring", required=False),
    column("key", "text", "every setting that makes this cell this cell, as JSON"),
)  # fmt: skip


def merge_real_pair(run: Path, folder: Path) -> int:
    """Add a run's --out folder to the table; the number of new cells."""
    cells = read_real_pair(folder)
    new = [
        raw | {"answer_digests": " ".join(raw["answer_digests"]) if raw["answer_digests"] else None}
        for raw in not_yet_in(cells, read_json_lines(run / "real_pair_cells.jsonl"))
    ]
    write_table(folder / CELLS_FILE, REAL_COLUMNS, derive_real_pair([*cells, *new]))
    return len(new)


def read_real_pair(folder: Path) -> list[Row]:
    """All cells; none where none was measured yet."""
    path = folder / CELLS_FILE
    return read_table(path, REAL_COLUMNS) if path.exists() else []


def rederive_real_pair(folder: Path) -> int:
    """Make every derived column anew; the number of cells."""
    if cells := read_real_pair(folder):
        write_table(folder / CELLS_FILE, REAL_COLUMNS, derive_real_pair(cells))
    return len(cells)


def derive_real_pair(cells: Iterable[Row]) -> list[Row]:
    """All rows by engine and time, with runs, labels, baselines and flags."""
    rows = numbered(dict(cell) for cell in cells)
    for row in rows:
        row |= _labels(row)
    baselines: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["method"] == "none":
            baselines[_point(row)].append(row)
    for row in rows:
        row |= _against(row, baselines.get(_point(row), []) if row["method"] != "none" else [])
    return by_engine(rows)


def _labels(row: Row) -> Row:
    """What follows from a row's own counts."""
    e2e_ms = 1e3 * row["concurrency"] * row["measured_s"] / row["completions"]
    answer = row["answer_tokens"] / row["completions"]
    timed = row["ttft_ms_mean"] is not None and answer > 1
    return acceptance_labels(row) | {
        "e2e_ms": round(e2e_ms, 4),
        "tpot_ms": round(max(e2e_ms - row["ttft_ms_mean"], 0.0) / (answer - 1), 4) if timed else None,
        "repeat_output_tokens_per_s": tuple(row["repeat_output_tokens_per_s"]),
        "repeatable_share": None if row["answers_alike"] is None else round(row["answers_alike"] / row["answers"], 4),
    }


def _against(row: Row, baselines: Sequence[Row]) -> Row:
    """Speedups, identical answers and flags of a row beside the runs of its baseline."""
    found: Row = dict.fromkeys(("speedup_end_to_end", "speedup_tpot", "identical_share", "baseline_id"))
    longer = 0.0
    if baselines:
        found["baseline_id"] = baselines[0]["cell_id"]
        found["speedup_end_to_end"] = round(row["output_tokens_per_s"] / _mean(baselines, "output_tokens_per_s"), 4)
        if row["tpot_ms"] and all(other["tpot_ms"] for other in baselines):
            found["speedup_tpot"] = round(_mean(baselines, "tpot_ms") / row["tpot_ms"], 4)
        found["identical_share"] = _identical(row["answer_digests"], baselines[0]["answer_digests"])
        longer = abs(row["output_tokens_mean"] / _mean(baselines, "output_tokens_mean") - 1)
    conditions = {
        "spread": (row["output_tokens_per_s_cv"] or 0.0) > SPREAD,
        "lengths_apart": longer > LENGTHS_APART,
        "limit": row["ended_by"] == "limit",
        "deadline": row["ended_by"] == "deadline",
        "preempted": row["preemptions"] > 0,
    }
    return found | {"flags": " ".join(name for name, holds in conditions.items() if holds) or None}


def _identical(digests: str | None, others: str | None) -> float | None:
    pairs = [pair for pair in zip((digests or "").split(), (others or "").split(), strict=False) if "-" not in pair]
    return round(sum(a == b for a, b in pairs) / len(pairs), 4) if pairs else None


def _mean(rows: Sequence[Row], name: str) -> float:
    return sum(float(row[name]) for row in rows) / len(rows)


def _point(row: Row) -> str:
    """The key without its speculation: what an arm shares with its baseline."""
    key: dict[str, Any] = json.loads(row["key"])
    return json.dumps({name: value for name, value in key.items() if name != "speculation"}, sort_keys=True)


def real_pair_problems(cells: Sequence[Row]) -> list[str]:
    """What is wrong across columns, one line each."""
    problems = not_derived_anew(CELLS_FILE, REAL_COLUMNS, cells, derive_real_pair(cells))
    for row in cells:
        name = f"{CELLS_FILE}: {row['cell_id']} run {row['run']}"
        if not row["accepted_tokens"] <= row["drafted_tokens"] <= row["drafts"] * row["num_speculative_tokens"]:
            problems.append(f"{name}: more accepted than drafted, or more drafted than k a draft")
        if sum(row["accepted_per_position"] or ()) != row["accepted_tokens"]:
            problems.append(f"{name}: accepted tokens do not add up over positions")
        if (row["method"] == "none") != (row["num_speculative_tokens"] == 0):
            problems.append(f"{name}: method and k disagree")
        if len(row["repeat_output_tokens_per_s"]) != row["repeats"]:
            problems.append(f"{name}: not one rate for each window")
        if row["answer_digests"] is not None and len(row["answer_digests"].split()) != row["prompts"]:
            problems.append(f"{name}: not one digest for each prompt")
    return problems
