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


def _c(name: str, kind: Kind, meaning: str, required: bool = True, **more: object) -> Column:
    return Column(name, kind, meaning, required, **more)  # type: ignore[arg-type]


METHODS = ("none", "eagle3", "eagle", "draft_model", "ngram", "suffix", "mtp", "medusa")

CELL_COLUMNS: tuple[Column, ...] = (
    _c("cell_id", "text", "the cell: digest of `key`; equal for every run of it", derived=True),
    _c("run", "int", "1 for the first measurement of this cell, 2 for the next", derived=True, least=1),
    _c("engine_id", "text", "the started engine, a row of engines.csv", derived=True),
    _c("protocol", "int", "version of the measuring protocol (this card tells what each did)", least=1),
    _c("measured_at", "text", "when the cell ended, UTC"),
    _c("engine", "text", "the engine's name in its grid file"),
    _c("target", "text", "shape of the target model, data/grids/shapes.yaml"),
    _c("quantization", "text", "vLLM's quantization argument", required=False),
    _c("method", "text", "speculative method; `none` is the baseline", among=METHODS),
    _c("drafter", "text", "shape of the drafter", required=False),
    _c("num_speculative_tokens", "int", "k, 0 without speculation", least=0, most=16),
    _c("draft_sample_method", "text", "greedy or probabilistic drafting", required=False),
    _c("schedule", "json", "num_speculative_tokens_per_batch_size", required=False),
    _c("weights", "text", "dummy: random weights of the real shape; real: trained weights", among=("dummy", "real")),
    _c("acceptance", "text", "synthetic: imposed; natural: what the weights give; empty for the baseline",
       required=False, among=("synthetic", "natural")),
    _c("asked_acceptance_length", "float", "AL imposed by synthetic rejection sampling", required=False, least=1),
    _c("concurrency", "int", "requests in flight, constant", least=1, most=256),
    _c("input_tokens", "int", "prompt length", least=1),
    _c("output_tokens", "int", "answer length", least=1),
    _c("temperature", "float", "sampling temperature", least=0, most=2),
    _c("unmatched_share", "float", "share of the slots sampled at temperature 1, whose text no lookup matches",
       least=0, most=1),
    _c("output_tokens_per_s", "float", "LABEL: throughput of the steady loop (pooled, its imbalance corrected)",
       derived=True, least=0),
    _c("tpot_ms", "float", "LABEL: (c·n / throughput - TTFT) / (n - 1): interference of prefills included",
       required=False, derived=True, least=0),
    _c("tokens_per_step", "float", "LABEL: τ = decode tokens / (decode tokens - accepted); 1 for the baseline",
       derived=True, least=1),
    _c("acceptance_length", "float", "LABEL: AL = 1 + accepted / drafts", required=False, derived=True, least=1),
    _c("draft_share", "float", "LABEL: m = drafts / (decode tokens - accepted)", required=False, derived=True, least=0),
    _c("speedup_end_to_end", "float", "LABEL: throughput / mean throughput of the baseline's runs at this point",
       required=False, derived=True, least=0),
    _c("speedup_tpot", "float", "LABEL: mean TPOT of the baseline's runs / TPOT",
       required=False, derived=True, least=0),
    _c("baseline_id", "text", "cell_id of the baseline that the speedups refer to", required=False, derived=True),
    _c("cycles", "float", "measured span in cycles; a cycle is c requests", derived=True, least=0),
    _c("imbalance", "float", "1 - prefills / (tokens / n): below 0, more prefills than the span's tokens ask for",
       derived=True),
    _c("little_gap", "float", "c·n / mean latency of the timed requests, by throughput, - 1; 0 where they agree",
       required=False, derived=True),
    _c("tokens_per_pass", "float", "mean tokens that one engine step computes: decoded, drafted, prefilled",
       derived=True, least=0),
    _c("flags", "text", "known defects of the row, see the card", required=False, derived=True),
    _c("ttft_ms_p50", "float", "time to first token, median", required=False, least=0),
    _c("ttft_ms_p95", "float", "time to first token, 95th percentile", required=False, least=0),
    _c("tpot_ms_mean", "float", "(last - first token) / (n - 1) of the timed requests", required=False, least=0),
    _c("tpot_ms_p50", "float", "the same, median", required=False, least=0),
    _c("tpot_ms_p95", "float", "the same, 95th percentile", required=False, least=0),
    _c("e2e_ms_p50", "float", "request latency, median", required=False, least=0),
    _c("requests_timed", "int", "requests begun and ended while measuring", least=0),
    _c("output_tokens_per_s_median", "float", "median of the windows' rates", least=0),
    _c("output_tokens_per_s_pooled", "float", "tokens / seconds of the whole span", least=0),
    _c("output_tokens_per_s_cv", "float", "sd / mean of the windows' rates", required=False, least=0),
    _c("repeats", "int", "windows", least=1),
    _c("repeat_output_tokens_per_s", "floats", "each window's rate"),
    _c("step_ms_mean", "float", "interval between the engine's outputs; empty when served over HTTP",
       required=False, least=0),
    _c("step_ms_p10", "float", "the same, 10th percentile", required=False, least=0),
    _c("step_ms_p50", "float", "the same, median: a decode step alone where under half of the steps prefill",
       required=False, least=0),
    _c("step_ms_p90", "float", "the same, 90th percentile", required=False, least=0),
    _c("steps", "int", "engine steps", least=0),
    _c("completions", "int", "requests ended", least=0),
    _c("generation_tokens", "int", "tokens written", least=0),
    _c("decode_tokens", "int", "tokens written, first ones left out", least=0),
    _c("prompt_tokens", "int", "tokens of the prompts whose prefill ended", least=0),
    _c("drafts", "int", "draft sequences proposed", least=0),
    _c("drafted_tokens", "int", "draft tokens proposed", least=0),
    _c("accepted_tokens", "int", "draft tokens accepted", least=0),
    _c("accepted_per_position", "ints", "accepted tokens by draft position", required=False),
    _c("preemptions", "int", "requests sent back for lack of cache", least=0),
    _c("cached_prompt_tokens", "int", "prompt tokens found in the prefix cache", least=0),
    _c("ended_by", "text", "why measuring ended: enough, limit (time of a cell), deadline (of the sweep)",
       among=("enough", "limit", "deadline")),
    _c("fill_s", "float", "time to fill the loop", least=0),
    _c("measured_s", "float", "measured span", least=0),
    _c("cell_s", "float", "all of the cell", required=False, least=0),
    _c("key", "text", "every setting that makes this cell this cell, as JSON"),
)  # fmt: skip

ENGINE_COLUMNS: tuple[Column, ...] = (
    _c("engine_id", "text", "one started engine", derived=True),
    _c("engine", "text", "name in its grid file"),
    _c("error", "text", "why it ended early", required=False),
    _c("target", "text", "shape of the target", required=False, derived=True),
    _c("method", "text", "speculative method", derived=True, among=METHODS),
    _c("drafter", "text", "shape of the drafter", required=False, derived=True),
    _c(
        "drafter_lm_head",
        "text",
        "own: the head's, as published; target: shared with the target (known defect)",
        required=False,
        among=("own", "target"),
    ),
    _c("arguments", "json", "vLLM engine arguments; model folders by name", required=False),
    _c("engine_version", "text", "vLLM's", required=False),
    _c("torch_version", "text", "torch's", required=False),
    _c("engine_process", "text", "separate: core in a process of its own, as the server does", required=False),
    _c("model_runner", "text", "V1 or V2", required=False),
    _c("async_scheduling", "bool", "whether the scheduler runs ahead", required=False),
    _c("cudagraph_mode", "text", "vLLM's", required=False),
    _c("cudagraph_capture_sizes", "ints", "tokens of each captured graph", required=False),
    _c("attention_backend", "text", "vLLM's", required=False),
    _c("moe_backend", "text", "vLLM's", required=False),
    _c("dtype", "text", "of the weights", required=False),
    _c("kv_cache_dtype", "text", "vLLM's", required=False),
    _c("block_size", "int", "tokens of a cache block", required=False, least=1),
    _c("max_model_len", "int", "vLLM's", required=False, least=1),
    _c("max_num_seqs", "int", "vLLM's, default of its server", required=False, least=1),
    _c("max_num_batched_tokens", "int", "vLLM's, default of its server", required=False, least=1),
    _c("gpu_memory_utilization", "float", "vLLM's", required=False, least=0, most=1),
    _c("enable_prefix_caching", "bool", "vLLM's", required=False),
    _c("enable_chunked_prefill", "bool", "vLLM's", required=False),
    _c("tensor_parallel_size", "int", "ranks", required=False, least=1),
    _c("target_parameters", "int", "counted from the shape", required=False, least=1),
    _c("drafter_parameters", "int", "counted from the shape", required=False, least=1),
    _c("total_bytes", "int", "the GPU's memory; bytes from the log's GiB with two decimals", required=False, least=0),
    _c("free_bytes_at_start", "int", "of it free before the engine", required=False, least=0),
    _c("requested_bytes", "int", "utilization x total", required=False, least=0),
    _c("weight_bytes", "int", "target and drafter", required=False, least=0),
    _c("activation_bytes", "int", "peak of the profile run", required=False, least=0),
    _c("non_torch_bytes", "int", "driver and libraries", required=False, least=0),
    _c("graph_bytes", "int", "what capturing took", required=False, least=0),
    _c("estimated_graph_bytes", "int", "what was set aside for it", required=False, least=0),
    _c("kv_cache_bytes", "int", "available to the cache", required=False, least=0),
    _c("kv_cache_tokens", "int", "the cache's size in tokens", required=False, least=0),
    _c("startup_s", "float", "engine start as its caller saw it", required=False, least=0),
    _c("model_load_s", "float", "of it loading", required=False, least=0),
    _c("init_s", "float", "of it profiling, capturing, warming", required=False, least=0),
    _c("compile_s", "float", "of it torch.compile", required=False, least=0),
    _c("dynamo_s", "float", "of it Dynamo", required=False, least=0),
    _c("graph_capture_s", "float", "of it capturing graphs", required=False, least=0),
    _c("cells", "int", "cells measured", required=False, least=0),
    _c("seconds", "float", "the engine's life", required=False, least=0),
    _c("gpu", "text", "as nvidia-smi names it", required=False),
    _c("gpu_count", "int", "GPUs of the host", required=False, least=0),
    _c("driver", "text", "NVIDIA driver", required=False),
    _c("host_cpu", "text", "as /proc/cpuinfo names it", required=False),
    _c("host_cpu_count", "int", "cores", required=False, least=1),
    _c("git_revision", "text", "this repository's, when measuring", required=False),
)


def column_names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The names in file order."""
    return tuple(column.name for column in columns)


def column_table(columns: tuple[Column, ...]) -> str:
    """The data card's table of these columns, as Markdown."""
    lines = ["| column | kind | meaning |", "| --- | --- | --- |"]
    for column in columns:
        kind = column.kind + ("" if column.required else ", may be empty") + (", derived" if column.derived else "")
        lines.append(f"| `{column.name}` | {kind} | {column.meaning} |")
    return "\n".join(lines)
