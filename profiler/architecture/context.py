"""How long may a context be? What the config allows, position scaling included.

vLLM's rule (vllm/config/model.py, _get_and_verify_max_len): YaRN multiplies the original length, linear and dynamic
scaling the stated one; llama3, longrope and su state the final length already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.architecture.fields import Fields


def max_positions(text: Fields, row: str) -> int | None:
    """Longest context in tokens, None where the config says none."""
    stated = text.optional_integer("max_position_embeddings")
    yarn = text.values.get("yarn")
    if stated is None:
        return 2048 if row == "falcon" else None  # FalconConfig's own default
    scaling: Any = text.values.get("rope_scaling") or text.values.get("rope_parameters") or {}
    if isinstance(yarn, Mapping) or not isinstance(scaling, Mapping):
        return stated  # Mistral's params.json states the final length
    kind = scaling.get("rope_type") or scaling.get("type")
    factor = scaling.get("factor")
    if (
        not isinstance(factor, int | float)
        or isinstance(factor, bool)
        or not 1 <= factor < 10_000
        or row.startswith("gemma")
    ):
        return stated
    if kind in ("yarn", "deepseek_yarn"):
        original = scaling.get("original_max_position_embeddings")
        return round((original if isinstance(original, int) and original > 0 else stated) * factor)
    return round(stated * factor) if kind in ("linear", "dynamic") else stated
