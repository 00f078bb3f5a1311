"""Which vLLM arguments does an engine of real weights take? The same for every runner that asks such engines.

Suffix decoding keeps no tree over earlier requests: a prompt that is asked again would be answered from memory, which
is no gain of decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler.sweep.grid import GridError, SweptSpeculation


def engine_arguments(
    target: str, speculation: SweptSpeculation | None, *, models: Mapping[str, str], folder: Path,
    settings: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Arguments of one engine; `models` names the model folders below `folder`."""
    arguments: dict[str, Any] = {
        "model": str(folder / models[target]), "disable_log_stats": False, "generation_config": "vllm",
    }  # fmt: skip
    if speculation is not None:
        config = speculative_config(speculation, folder / models[speculation.draft] if speculation.draft else None)
        if speculation.method == "suffix":
            config["suffix_decoding_max_cached_requests"] = 0
        arguments["speculative_config"] = config
    return arguments | dict(settings)


def speculative_config(speculation: SweptSpeculation, drafter: Path | None) -> dict[str, Any]:
    """vLLM's argument of that name, of any weights; `drafter` is the drafter's folder."""
    config: dict[str, Any] = {
        "method": speculation.method, "num_speculative_tokens": speculation.num_speculative_tokens,
    }  # fmt: skip
    if drafter is not None:
        config |= {"model": str(drafter), "draft_sample_method": speculation.draft_sample_method}
    if speculation.schedule:
        config["num_speculative_tokens_per_batch_size"] = [list(entry) for entry in speculation.schedule]
    for name in ("prompt_lookup_min", "prompt_lookup_max"):
        if (value := getattr(speculation, name)) is not None:
            config[name] = value
    return config


def check_models(name: str, target: str, speculation: SweptSpeculation | None, models: Mapping[str, str]) -> None:
    """Refuse an engine that names unknown models, or imposes the acceptance that real weights are to give."""
    for model in [target] + ([speculation.draft] if speculation and speculation.draft else []):
        if model not in models:
            raise GridError(f"engine {name} names an unknown model", got=model, expected=str(list(models)))
    if speculation is not None and speculation.acceptance_length is not None:
        raise GridError(f"engine {name} imposes an acceptance that is to be measured", field="speculation")
