"""Raw rows of a small sweep, as profiler.sweep writes them, for the tests of this folder."""

import json


def raw_cell(
    *, engine="base", method="none", concurrency=4, input_tokens=100, output_tokens=10, at="2026-01-01T00:00:00+00:00",
    tokens=400, prefills=40, seconds=4.0, accepted=0, drafts=0, k=0, settings=None, **more,
):  # fmt: skip
    """One line of rows.jsonl; throughput is tokens / seconds."""
    speculation = {"method": method, "num_speculative_tokens": k} if k else {}
    key = {"target": "T", "concurrency": concurrency, "input_tokens": input_tokens, "output_tokens": output_tokens}
    key |= {"settings": settings or {}} | ({"speculation": speculation} if k else {})
    return {
        "key": json.dumps(key, sort_keys=True), "protocol": 1, "measured_at": at, "engine": engine, "target": "T",
        "quantization": None, "method": method, "drafter": None, "num_speculative_tokens": k,
        "asked_acceptance_length": 1.5 if k else None, "draft_sample_method": None, "schedule": None,
        "weights": "dummy", "acceptance": "synthetic" if k else None, "concurrency": concurrency,
        "input_tokens": input_tokens, "output_tokens": output_tokens, "temperature": 0.0, "unmatched_share": 0.0,
        "ttft_ms_p50": 10.0, "ttft_ms_p95": 12.0, "tpot_ms_mean": 10.0, "tpot_ms_p50": 10.0, "tpot_ms_p95": 11.0,
        "e2e_ms_p50": 100.0, "requests_timed": 5, "output_tokens_per_s": tokens / seconds,
        "output_tokens_per_s_pooled": tokens / seconds, "output_tokens_per_s_cv": 0.01, "repeats": 3,
        "repeat_output_tokens_per_s": [99.0, 100.0, 101.0], "step_ms_mean": 10.0, "step_ms_p10": 9.0,
        "step_ms_p50": 10.0, "step_ms_p90": 11.0, "steps": 100, "completions": prefills, "generation_tokens": tokens,
        "decode_tokens": tokens - prefills, "prompt_tokens": prefills * input_tokens, "drafts": drafts,
        "drafted_tokens": drafts * k, "accepted_tokens": accepted,
        "accepted_per_position": [accepted] + [0] * (k - 1) if k else [], "preemptions": 0, "cached_prompt_tokens": 0,
        "complete": True, "fill_s": 0.1, "measured_s": seconds, "startup_s": 60.0, "cell_s": seconds + 0.2,
    } | more  # fmt: skip


def raw_engine(engine="base", **more):
    """One line of engines.jsonl."""
    return {
        "engine": engine, "error": None, "startup_s": 60.0, "cells": 1,
        "arguments": {"model": "/scratch/models/T", "max_model_len": 1000}, "cudagraph_capture_sizes": [1, 2, 4],
    } | more  # fmt: skip


def write_sweep(folder, cells, engines):
    """The --out folder of a sweep."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cells))
    (folder / "engines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in engines))
    return folder
