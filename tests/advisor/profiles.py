"""Profiles as a probe would have written them: Llama-3.1-8B with an EAGLE-3 head on an H200."""

from __future__ import annotations

from typing import Any

from profiler.probe.profile import Profile


def ratio(value: float, log_sd: float = 0.02) -> dict[str, Any]:
    """A measured speedup."""
    half = 1.0 + 1.645 * log_sd
    return {"value": value, "low": value / half, "high": value * half, "level": 0.9, "looks": 1, "log_sd": log_sd,
            "pairs": 64}  # fmt: skip


def point(concurrency: int, value: float, **changes: Any) -> dict[str, Any]:
    """A probed load: 900 tokens of prompt, 200 of answer, at temperature 0."""
    known = {
        "concurrency": concurrency, "temperature": None, "sent_temperature": 0.0, "pairs": 64, "input_tokens": 900.0,
        "output_tokens": 200.0, "end_to_end": ratio(value), "tpot": ratio(value), "settled": None,
        "identical_share": 1.0, "output_ratio": 1.0, "baseline": None, "speculative": None, "acceptance": None,
    }  # fmt: skip
    return known | changes


def profile(*points: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A whole profile with these points; acceptance length 2.5 over 4,000 drafts."""
    content = {
        "kind": "specworth.profile", "schema_version": 1, "status": "complete", "ended": "settled", "created": "now",
        "target": "llama-8b",
        "speculation": {"method": "eagle3", "num_speculative_tokens": 3, "draft": "head", "config": {}},
        "environment": {
            "mode": "launched", "engine_version": "0.26.0", "platform": "gpu", "gpus": ["NVIDIA H200"],
            "gpu_memory_bytes": None, "driver": None, "host_cpu": None, "serve_arguments": [],
            "per_request_metrics": False, "max_model_len": 8192, "kv_tokens_baseline": None,
            "kv_tokens_speculative": None,
        },
        "policy": {"objective": "end_to_end", "min_speedup": 1.05, "confidence": 0.95},
        "prompts": {"source": None, "usable": 64, "sent": 64, "structure": {}, "max_tokens": None, "cut_share": 0.0},
        "decision": {"verdict": "enable", "decisive": True, "text": ""},
        "points": list(points), "crossover": {"pays_at": None, "fails_at": None},
        "acceptance": {"drafts": 4000, "drafted_tokens": 12000, "accepted_tokens": 6000,
                       "accepted_per_position": [2800, 2000, 1200], "decode_tokens": 10000},
        "structure": {}, "waves": [], "spent": {}, "refused": [], "notes": [],
    }  # fmt: skip
    content |= changes
    Profile.model_validate(content)
    return content
