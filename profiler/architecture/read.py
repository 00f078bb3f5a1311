"""Which model does this config describe? First form: plain dense decoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.architecture.architecture import Architecture
from profiler.architecture.parts import LayerGroup, WeightGroup
from profiler.errors import ArchitectureError


def read_architecture(
    config: Mapping[str, Any], *, name: str, quantization: str | None = None,
    hf_quant_config: Mapping[str, Any] | None = None,
) -> Architecture:  # fmt: skip
    """Read a plain dense config (Llama, Qwen)."""
    def need(key: str) -> int:
        if key not in config:
            raise ArchitectureError(f"The config of {name} lacks a field", expected=key, field=key)
        return int(config[key])

    h, n, v, f = need("hidden_size"), need("num_hidden_layers"), need("vocab_size"), need("intermediate_size")
    heads = need("num_attention_heads")
    kv = int(config.get("num_key_value_heads") or heads)
    d = int(config.get("head_dim") or h // heads)
    tied = bool(config.get("tie_word_embeddings", False))
    head = tuple(config.get("architectures") or ())
    eagle3 = "draft_vocab_size" in config
    attention = n * (h * d * (heads + 2 * kv) + heads * d * h)
    mlp = n * 3 * h * f
    groups = [
        WeightGroup("attention", attention, attention * 2, attention),
        WeightGroup("mlp", mlp, mlp * 2, mlp),
        WeightGroup("norm", n * 2 * h + h, (n * 2 * h + h) * 2, 0),
    ]
    if eagle3:
        draft = int(config["draft_vocab_size"])
        groups.append(WeightGroup("projection", 3 * h * h, 6 * h * h, 3 * h * h))
        groups.append(WeightGroup("lm_head", draft * h, draft * h * 2, draft * h))
    else:
        groups.append(WeightGroup("embedding", v * h, v * h * 2, 0))
        if not tied:
            groups.append(WeightGroup("lm_head", v * h, v * h * 2, v * h))
    return Architecture(
        name=name, model_type=str(config.get("model_type", "")), architectures=head, hidden_size=h, num_layers=n,
        vocab_size=v, num_attention_heads=heads, num_kv_heads=kv, head_dim=d,
        max_position_embeddings=config.get("max_position_embeddings"), tie_word_embeddings=tied, dtype="bfloat16",
        weights=tuple(groups), layers=(LayerGroup("full", n, 2 * kv * d, score_width=2 * heads * d),),
        head_kind="eagle3" if eagle3 else None, draft_vocab_size=config.get("draft_vocab_size"),
    )  # fmt: skip
