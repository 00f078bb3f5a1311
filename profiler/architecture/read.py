"""Which model does this config describe? From a config.json or params.json to an Architecture, or a refusal with its reason.

Weights and caches are counted module by module (attention.py, feedforward.py, mixers.py), each in the form its family's
published code builds it (families.py), and sized as the checkpoint stores them (quantization.py). Refused: families
without a row, missing or absurd fields, encoder-decoders (vLLM speculates on decoders only).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from profiler.architecture.architecture import Architecture
from profiler.architecture.attention import Heads, attention_block, base_heads, latent_block, layer_heads
from profiler.architecture.context import max_positions
from profiler.architecture.families import FAMILIES, Family, family_of
from profiler.architecture.feedforward import (
    Experts,
    dense_block,
    dense_width,
    expert_block,
    expert_layers,
    read_experts,
)
from profiler.architecture.fields import Fields
from profiler.architecture.heads import head_kind, mtp_module, read_head
from profiler.architecture.layers import Plan, layer_plans
from profiler.architecture.mixers import mixer_block
from profiler.architecture.parts import Block, LayerGroup, Weight, WeightGroup, matrix, vector
from profiler.architecture.quantization import Quantization
from profiler.architecture.quantization_config import read_quantization
from profiler.architecture.sizing import group_layers, group_weights
from profiler.architecture.towers import tower_parameters
from profiler.architecture.uncommon import compressed_block, per_layer_inputs, streams
from profiler.errors import ArchitectureError

_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config", "thinker_config")
_ENCODERS: Final = frozenset(
    {"t5", "mt5", "umt5", "bart", "mbart", "pegasus", "marian", "whisper", "blenderbot", "m2m_100", "nllb-moe", "prophetnet", "led"}
)


def read_architecture(
    config: Mapping[str, Any], *, name: str, quantization: str | None = None,
    hf_quant_config: Mapping[str, Any] | None = None, target: Architecture | None = None,
) -> Architecture:  # fmt: skip
    """Read one config.

    `quantization` is vLLM's engine argument; `hf_quant_config` the file of that name beside the config; `target` the model
    that a drafter head belongs to, needed where the head's config leaves its sizes to it (Medusa). Raises
    ArchitectureError with the field that is missing or wrong.
    """
    if not isinstance(config, Mapping):
        raise ArchitectureError(
            f"The config of {name} cannot be read", expected="a JSON object", got=type(config).__name__, field="config"
        )
    top = Fields(config, name=name)
    if head_kind(top) is not None:
        return read_head(top, quantization=quantization, target=target)
    text = _text_part(top)
    row, family = _family(top, text)
    stored = read_quantization(top, text, argument=quantization, hf_quant_config=hf_quant_config)
    return _assemble(top, text, row, family, stored)


def _text_part(top: Fields) -> Fields:
    for key in _TEXT_PARTS:
        part = top.part(key)
        if part is not None:
            return _text_part(part)
    return top


def _family(top: Fields, text: Fields) -> tuple[str, Family]:
    classes = [str(c) for fields in (text, top) for c in fields.items("architectures") or ()]
    model_type = text.text("model_type")
    encoder = next((t for t in (model_type, top.text("model_type")) if t in _ENCODERS), None)
    if encoder or top.flag("is_encoder_decoder", False):
        raise ArchitectureError(
            f"{top.name} is an encoder-decoder ({encoder or model_type})", expected="a decoder-only language model",
            got=", ".join(classes) or str(model_type), remedy="vLLM has no speculative decoding for encoder-decoders",
            field="model_type",
        )  # fmt: skip
    if model_type is None and "dim" in text.values:  # Mistral's params.json names no family
        latent = text.optional_integer("kv_lora_rank") is not None
        return ("mistral_large_3", FAMILIES["mistral_large_3"]) if latent else ("mistral", FAMILIES["mistral"])
    found = family_of(model_type) or (family_of(top.text("model_type")) if text is not top else None)
    if found is None and model_type is None:
        found = next((f for f in map(family_of, classes) if f is not None), None)
    if found is None:
        raise ArchitectureError(
            f"{top.name} is of a family that is not known: its layers cannot be counted from the config alone",
            expected="a model_type such as " + ", ".join(sorted(FAMILIES)[:60:6]) + f" ({len(FAMILIES)} are known)",
            got=f"model_type {model_type!r}" if model_type else "no model_type" + (f", {classes[0]}" if classes else ""),
            field=text.path + "model_type",
        )  # fmt: skip
    return found


def _assemble(top: Fields, text: Fields, row: str, family: Family, stored: Quantization | None) -> Architecture:
    hidden, vocabulary = text.integer("hidden_size"), text.integer("vocab_size")
    plans = layer_plans(text, family)
    experts = read_experts(text, family)
    if row == "phi":
        plans = [replace(plan) for plan in plans]
    has_attention = any(plan.kind in ("full", "sliding", "chunked", "cross", "parallel_mamba2") for plan in plans)
    latent = family.mla and text.optional_integer("kv_lora_rank") is not None
    base = _base(text, family, hidden) if has_attention and not latent else None
    routed = expert_layers(text, family, plans) if experts else [False] * len(plans)
    model, layer_extra = _model_weights(text, family, hidden, vocabulary, len(plans))
    tied, notes = _tied(top, text, family)
    if not tied:
        model += matrix("lm_head", "lm_head", hidden, vocabulary, bias=family.head_bias or text.flag("lm_head_bias", False))
    blocks: Counter[tuple[int, Block]] = Counter()
    built: dict[tuple[object, ...], Block] = {}
    uniform = stored is None or stored.is_uniform
    per_layer = any(isinstance(v, list | tuple) for v in text.values.values()) or family.special is not None
    for index, plan in enumerate(plans):
        key = (plan, routed[index], index if per_layer else 0)
        if key not in built:
            built[key] = _layer(text, family, plan, base, experts if routed[index] else None, hidden, index, latent, layer_extra)
        blocks[(0 if uniform else index, built[key])] += 1
    tower, tower_note = tower_parameters(top, hidden)
    if tower:
        model.append(vector("vision", "vision", tower))
    dtype = _dtype(top, text)
    groups = group_weights(model, blocks, stored, experts)
    heads = base.queries if base else text.optional_integer("num_attention_heads") or 0
    keys = (heads if latent else base.keys if base else 0)
    mtp, mtp_note = _mtp(text, family, hidden, blocks, stored, experts, base, dtype, heads, top)
    all_notes = [*notes, tower_note, mtp_note, *(stored.notes if stored else ())]
    return Architecture(
        name=top.name, model_type=text.text("model_type") or top.text("model_type") or row,
        architectures=tuple(str(c) for c in top.items("architectures") or text.items("architectures") or ()),
        hidden_size=hidden, num_layers=len(plans), vocab_size=vocabulary, num_attention_heads=heads, num_kv_heads=keys,
        head_dim=_head_dim(text, base, latent), max_position_embeddings=max_positions(text, row), tie_word_embeddings=tied,
        dtype=dtype, weights=groups, layers=group_layers(blocks), quantization=stored.name if stored else None,
        compute_dtype=stored.compute_dtype if stored else "bf16", kv_cache_quantization=stored.kv_cache if stored else None,
        experts=experts.count if experts else None, experts_per_token=experts.per_token if experts else None, mtp_head=mtp,
        is_mla=latent, is_multimodal=text is not top or bool(top.values.get("vision_config") or "mm_vision_tower" in top),
        notes=tuple(note for note in all_notes if note),
    )  # fmt: skip


def _base(text: Fields, family: Family, hidden: int) -> Heads:
    return base_heads(text, family, hidden)


def _head_dim(text: Fields, base: Heads | None, latent: bool) -> int:
    if latent:  # as vLLM reports it: what the cache keeps per token
        return text.integer("kv_lora_rank") + text.integer("qk_rope_head_dim")
    return base.key_size if base else 0


def _layer(
    text: Fields, family: Family, plan: Plan, base: Heads | None, experts: Experts | None, hidden: int, index: int,
    latent: bool, extra: Sequence[Weight],
) -> Block:  # fmt: skip
    """All weights and caches of one layer."""
    caches: list[LayerGroup] = []
    weights: list[Weight] = []
    mixers: list[Block] = []
    if family.special == "deepseek_v4":
        mixers.append(compressed_block(text, hidden, index))
    elif latent and plan.kind in ("full", "sliding"):
        mixers.append(latent_block(text, plan, hidden, index))
    elif plan.kind in ("full", "sliding", "chunked", "cross", "none", "linear_map"):
        heads = layer_heads(text, family, plan, base, index) if base else Heads(1, 1, 1, 1)
        mixers.append(attention_block(text, family, plan, heads, hidden))
    elif plan.kind == "parallel_mamba2":
        assert base is not None  # a parallel plan counts as attention
        mixers += [attention_block(text, family, replace(plan, kind="full"), base, hidden), mixer_block(text, "mamba2", hidden)]
    else:
        mixers.append(mixer_block(text, plan.kind, hidden))
    for block in mixers:
        weights += block.weights
        caches += block.caches
    weights += _feed_forward(text, family, plan, experts, hidden, index)
    weights += [vector("norms", "norm", _norms(text, family, plan) * hidden * (2 if family.norm == "layer" else 1))]
    if family.special == "gemma4" and experts:
        weights.append(vector("norms", "norm", 3 * hidden))
    return Block((*weights, *extra), tuple(caches))


def _feed_forward(
    text: Fields, family: Family, plan: Plan, experts: Experts | None, hidden: int, index: int
) -> list[Weight]:
    if plan.feed_forward == "none":
        return []
    if plan.feed_forward == "linear_map":
        return matrix("mlp.linear_mlp", "mlp", hidden, hidden)
    weights = expert_block(text, family, experts, hidden) if experts else []
    if experts and family.special != "gemma4":
        return weights
    if plan.ffn_mult is not None:  # Puzzle: 2/3 of the factor, rounded up to a multiple of 256
        width = 256 * -(-int(2 * plan.ffn_mult * hidden / 3) // 256)
        return dense_block(text, family, hidden, width)
    dense = dense_width(text, family, hidden, index)
    if dense is None and not experts and text.optional_integer("shared_width"):  # Granite 4 without routed experts
        dense = text.integer("shared_width")
    if text.text("model_type") == "granitemoehybrid" and not text.layer_integer("experts", 0, least=0):
        dense = text.optional_integer("shared_width") or dense
    if dense is None:
        raise text.missing("intermediate_size", "the width of the MLP")
    if plan.shares_kv and text.flag("use_double_wide_mlp", False):
        dense *= 2
    return weights + dense_block(text, family, hidden, dense)


def _norms(text: Fields, family: Family, plan: Plan) -> int:
    if family.norm == "none":
        return 0
    if family.special == "falcon":
        if text.flag("new_decoder_architecture", False):
            return text.optional_integer("num_ln_in_parallel_attn") or 2
        return 1 if text.flag("parallel_attn", True) else 2
    if family.special == "stablelm":
        return 1 if text.flag("use_parallel_residual", False) else 2
    if family.special == "nas":
        return (plan.kind not in ("none", "linear_map")) + (plan.feed_forward == "dense")
    return family.layer_norms


def _model_weights(
    text: Fields, family: Family, hidden: int, vocabulary: int, layers: int
) -> tuple[list[Weight], list[Weight]]:
    """Weights outside the layers, and extra ones that each layer has."""
    width = text.optional_integer("word_embed_proj_dim") or hidden
    model = [vector("model.embed_tokens", "embedding", vocabulary * width)]
    if width != hidden:  # OPT-350m
        model += matrix("model.project_in", "projection", width, hidden) + matrix("model.project_out", "projection", hidden, width)
    each = hidden * (2 if family.norm == "layer" else 1)
    if family.norm != "none" and family.final_norm:
        model.append(vector("model.norm", "norm", each))
    if family.embedding_norm:
        model.append(vector("model.embedding_norm", "norm", each))
    if family.positions is not None:
        model.append(vector("model.positions", "position", (text.integer("max_position_embeddings") + family.positions) * hidden))
    outer, extra = per_layer_inputs(text, hidden, layers) if family.special in ("gemma3n", "gemma4") else ([], [])
    model += outer
    if family.special == "gemma3n":
        outer, inner = streams(text, hidden)
        return model + outer, extra + inner
    return model, extra


def _tied(top: Fields, text: Fields, family: Family) -> tuple[bool, list[str]]:
    """Whether input and output tables are one: the text model's own word, then the wrapper's, then the family's default."""
    inner, outer = text.optional_flag("tie_word_embeddings"), top.optional_flag("tie_word_embeddings")
    notes = []
    if inner is not None and outer is not None and inner != outer:
        notes.append(f"tie_word_embeddings is {outer} outside and {inner} in the text model: the latter is taken")
    chosen = inner if inner is not None else outer
    return (family.tied if chosen is None else chosen), notes


def _dtype(top: Fields, text: Fields) -> str:
    """The 16-bit type that vLLM serves in: the config's own, float32 checkpoints being cut to 16 bit (dtype "auto")."""
    for fields in (text, top):
        for key in ("dtype", "torch_dtype"):
            name = fields.values.get(key)
            if isinstance(name, str) and name.removeprefix("torch.") in ("float16", "half"):
                return "float16"
    return "bfloat16"


def _mtp(
    text: Fields, family: Family, hidden: int, blocks: Counter[tuple[int, Block]], stored: Quantization | None,
    experts: Experts | None, base: Heads | None, dtype: str, heads: int, top: Fields,
) -> tuple[Architecture | None, str | None]:  # fmt: skip
    return mtp_module(text, hidden=hidden, blocks=blocks, stored=stored, experts=experts, dtype=dtype, heads=heads, name=top.name)
