"""Which columns do the measured tables have, in which unit, and what does each mean?

Declared once: the writer, the reader, the schema and the data card's tables all go by this list. Lists in a cell of a
CSV file are numbers with a blank between them; an empty cell is "not known" or "does not apply".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "int", "float", "bool", "ints", "floats", "json"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `required`: never empty. `derived`: computed from the other columns when tables are merged."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False
    derived: bool = False
    least: float | None = None
    most: float | None = None
    among: tuple[str, ...] | None = None


def column(name: str, kind: Kind, meaning: str, required: bool = True, **more: object) -> Column:
    """A column that is never empty unless told."""
    return Column(name, kind, meaning, required, **more)  # type: ignore[arg-type]


METHODS = ("none", "eagle3", "eagle", "draft_model", "ngram", "suffix", "mtp", "medusa")

# Of every table that counts drafts, and the first ones of tables of real weights.
DRAFT_COUNTS: tuple[Column, ...] = (
    column("drafts", "int", "draft sequences proposed", least=0),
    column("drafted_tokens", "int", "draft tokens proposed", least=0),
    column("accepted_tokens", "int", "draft tokens accepted", least=0),
    column("accepted_per_position", "ints", "accepted tokens by draft position", required=False),
)
REAL_CELL: tuple[Column, ...] = (
    column("cell_id", "text", "the cell: digest of `key`", derived=True),
    column("run", "int", "1 for the first measurement of this cell", derived=True, least=1),
    column("protocol", "int", "version of the protocol", least=1),
    column("measured_at", "text", "when the cell ended, UTC"),
    column("engine", "text", "name in its grid file"),
    column("target", "text", "target model"),
)

CELL_COLUMNS: tuple[Column, ...] = (
    column("cell_id", "text", "the cell: digest of `key`; equal for every run of it", derived=True),
    column("run", "int", "1 for the first measurement of this cell, 2 for the next", derived=True, least=1),
    column("engine_id", "text", "the started engine, a row of engines.csv", derived=True),
    column("protocol", "int", "version of the measuring protocol (this card tells what each did)", least=1),
    column("measured_at", "text", "when the cell ended, UTC"),
    column("engine", "text", "the engine's name in its grid file"),
    column("target", "text", "shape of the target model, data/grids/shapes.yaml"),
    column("quantization", "text", "vLLM's quantization argument", required=False),
    column("method", "text", "speculative method; `none` is the baseline", among=METHODS),
    column("drafter", "text", "shape of the drafter", required=False),
    column("num_speculative_tokens", "int", "k, 0 without speculation", least=0, most=16),
    column("draft_sample_method", "text", "greedy or probabilistic drafting", required=False),
    column("schedule", "json", "num_speculative_tokens_per_batch_size", required=False),
    column("weights", "text", "dummy: random weights of the real shape; real: trained weights",
           among=("dummy", "real")),
    column("acceptance", "text", "synthetic: imposed; natural: what the weights give; empty for the baseline",
           required=False, among=("synthetic", "natural")),
    column("asked_acceptance_length", "float", "AL imposed by synthetic rejection sampling", required=False, least=1),
    column("concurrency", "int", "requests in flight, constant", least=1, most=256),
    column("input_tokens", "int", "prompt length", least=1),
    column("output_tokens", "int", "answer length", least=1),
    column("temperature", "float", "sampling temperature", least=0, most=2),
    column("unmatched_share", "float", "share of the slots sampled at temperature 1, whose text no lookup matches",
           least=0, most=1),
    column("output_tokens_per_s", "float", "LABEL: throughput of the steady loop (pooled, its imbalance corrected)",
           derived=True, least=0),
    column("tpot_ms", "float", "LABEL: (c·n / throughput - TTFT) / (n - 1): interference of prefills included",
           required=False, derived=True, least=0),
    column("tokens_per_step", "float", "LABEL: τ = decode tokens / (decode tokens - accepted); 1 for the baseline",
           derived=True, least=1),
    column("acceptance_length", "float", "LABEL: AL = 1 + accepted / drafts", required=False, derived=True, least=1),
    column("draft_share", "float", "LABEL: m = drafts / (decode tokens - accepted)",
           required=False, derived=True, least=0),
    column("speedup_end_to_end", "float", "LABEL: throughput / mean throughput of the baseline's runs at this point",
           required=False, derived=True, least=0),
    column("speedup_tpot", "float", "LABEL: mean TPOT of the baseline's runs / TPOT",
           required=False, derived=True, least=0),
    column("baseline_id", "text", "cell_id of the baseline that the speedups refer to", required=False, derived=True),
    column("cycles", "float", "measured span in cycles; a cycle is c requests", derived=True, least=0),
    column("imbalance", "float", "1 - prefills / (tokens / n): below 0, more prefills than the span's tokens ask for",
           derived=True),
    column("little_gap", "float", "c·n / mean latency of the timed requests, by throughput, - 1; 0 where they agree",
           required=False, derived=True),
    column("tokens_per_pass", "float", "mean tokens that one engine step computes: decoded, drafted, prefilled",
           derived=True, least=0),
    column("flags", "text", "known defects of the row, see the card", required=False, derived=True),
    column("ttft_ms_p50", "float", "time to first token, median", required=False, least=0),
    column("ttft_ms_p95", "float", "time to first token, 95th percentile", required=False, least=0),
    column("tpot_ms_mean", "float", "(last - first token) / (n - 1) of the timed requests", required=False, least=0),
    column("tpot_ms_p50", "float", "the same, median", required=False, least=0),
    column("tpot_ms_p95", "float", "the same, 95th percentile", required=False, least=0),
    column("e2e_ms_p50", "float", "request latency, median", required=False, least=0),
    column("requests_timed", "int", "requests begun and ended while measuring", least=0),
    column("output_tokens_per_s_median", "float", "median of the windows' rates", least=0),
    column("output_tokens_per_s_pooled", "float", "tokens / seconds of the whole span", least=0),
    column("output_tokens_per_s_cv", "float", "sd / mean of the windows' rates", required=False, least=0),
    column("repeats", "int", "windows", least=1),
    column("repeat_output_tokens_per_s", "floats", "each window's rate"),
    column("step_ms_mean", "float", "interval between the engine's outputs; empty when served over HTTP",
           required=False, least=0),
    column("step_ms_p10", "float", "the same, 10th percentile", required=False, least=0),
    column("step_ms_p50", "float", "the same, median: a decode step alone where under half of the steps prefill",
           required=False, least=0),
    column("step_ms_p90", "float", "the same, 90th percentile", required=False, least=0),
    column("steps", "int", "engine steps", least=0),
    column("completions", "int", "requests ended", least=0),
    column("generation_tokens", "int", "tokens written", least=0),
    column("decode_tokens", "int", "tokens written, first ones left out", least=0),
    column("prompt_tokens", "int", "tokens of the prompts whose prefill ended", least=0),
    *DRAFT_COUNTS,
    column("preemptions", "int", "requests sent back for lack of cache", least=0),
    column("cached_prompt_tokens", "int", "prompt tokens found in the prefix cache", least=0),
    column("ended_by", "text", "why measuring ended: enough, limit (time of a cell), deadline (of the sweep)",
           among=("enough", "limit", "deadline")),
    column("fill_s", "float", "time to fill the loop", least=0),
    column("measured_s", "float", "measured span", least=0),
    column("cell_s", "float", "all of the cell", required=False, least=0),
    column("key", "text", "every setting that makes this cell this cell, as JSON"),
)  # fmt: skip

ENGINE_COLUMNS: tuple[Column, ...] = (
    column("engine_id", "text", "one started engine", derived=True),
    column("engine", "text", "name in its grid file"),
    column("error", "text", "why it ended early", required=False),
    column("target", "text", "shape of the target", required=False, derived=True),
    column("method", "text", "speculative method", derived=True, among=METHODS),
    column("drafter", "text", "shape of the drafter", required=False, derived=True),
    column(
        "drafter_lm_head",
        "text",
        "own: the head's, as published; target: shared with the target (known defect)",
        required=False,
        among=("own", "target"),
    ),
    column("arguments", "json", "vLLM engine arguments; model folders by name", required=False),
    column("engine_version", "text", "vLLM's", required=False),
    column("torch_version", "text", "torch's", required=False),
    column("engine_process", "text", "separate: core in a process of its own, as the server does", required=False),
    column("model_runner", "text", "V1 or V2", required=False),
    column("async_scheduling", "bool", "whether the scheduler runs ahead", required=False),
    column("cudagraph_mode", "text", "vLLM's", required=False),
    column("cudagraph_capture_sizes", "ints", "tokens of each captured graph", required=False),
    column("attention_backend", "text", "vLLM's", required=False),
    column("moe_backend", "text", "vLLM's", required=False),
    column("dtype", "text", "of the weights", required=False),
    column("kv_cache_dtype", "text", "vLLM's", required=False),
    column("block_size", "int", "tokens of a cache block", required=False, least=1),
    column("max_model_len", "int", "vLLM's", required=False, least=1),
    column("max_num_seqs", "int", "vLLM's, default of its server", required=False, least=1),
    column("max_num_batched_tokens", "int", "vLLM's, default of its server", required=False, least=1),
    column("gpu_memory_utilization", "float", "vLLM's", required=False, least=0, most=1),
    column("enable_prefix_caching", "bool", "vLLM's", required=False),
    column("enable_chunked_prefill", "bool", "vLLM's", required=False),
    column("tensor_parallel_size", "int", "ranks", required=False, least=1),
    column("target_parameters", "int", "counted from the shape", required=False, least=1),
    column("drafter_parameters", "int", "counted from the shape", required=False, least=1),
    column(
        "total_bytes", "int", "the GPU's memory; bytes from the log's GiB with two decimals", required=False, least=0
    ),
    column("free_bytes_at_start", "int", "of it free before the engine", required=False, least=0),
    column("requested_bytes", "int", "utilization x total", required=False, least=0),
    column("weight_bytes", "int", "target and drafter", required=False, least=0),
    column("activation_bytes", "int", "peak of the profile run", required=False, least=0),
    column("non_torch_bytes", "int", "driver and libraries", required=False, least=0),
    column("graph_bytes", "int", "what capturing took", required=False, least=0),
    column("estimated_graph_bytes", "int", "what was set aside for it", required=False, least=0),
    column("kv_cache_bytes", "int", "available to the cache", required=False, least=0),
    column("kv_cache_tokens", "int", "the cache's size in tokens", required=False, least=0),
    column("startup_s", "float", "engine start as its caller saw it", required=False, least=0),
    column("model_load_s", "float", "of it loading", required=False, least=0),
    column("init_s", "float", "of it profiling, capturing, warming", required=False, least=0),
    column("compile_s", "float", "of it torch.compile", required=False, least=0),
    column("dynamo_s", "float", "of it Dynamo", required=False, least=0),
    column("graph_capture_s", "float", "of it capturing graphs", required=False, least=0),
    column("cells", "int", "cells measured", required=False, least=0),
    column("seconds", "float", "the engine's life", required=False, least=0),
    column("gpu", "text", "as nvidia-smi names it", required=False),
    column("gpu_count", "int", "GPUs of the host", required=False, least=0),
    column("driver", "text", "NVIDIA driver", required=False),
    column("host_cpu", "text", "as /proc/cpuinfo names it", required=False),
    column("host_cpu_count", "int", "cores", required=False, least=1),
    column("git_revision", "text", "this repository's, when measuring", required=False),
)


def column_names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The names in file order."""
    return tuple(one.name for one in columns)


def column_table(columns: tuple[Column, ...]) -> str:
    """The data card's table of these columns, as Markdown."""
    lines = ["| column | kind | meaning |", "| --- | --- | --- |"]
    for one in columns:
        kind = one.kind + ("" if one.required else ", may be empty") + (", derived" if one.derived else "")
        lines.append(f"| `{one.name}` | {kind} | {one.meaning} |")
    return "\n".join(lines)
