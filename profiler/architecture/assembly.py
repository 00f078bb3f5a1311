"""All layers, tables and towers of one model, summed: from a config whose family is known to an Architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from profiler.architecture.architecture import Architecture
from profiler.architecture.attention import Heads, base_heads
from profiler.architecture.block import layer_block, model_weights
from profiler.architecture.context import max_positions
from profiler.architecture.families import Family
from profiler.architecture.feedforward import Experts, expert_layers, read_experts
from profiler.architecture.fields import Fields
from profiler.architecture.heads import mtp_module
from profiler.architecture.layers import Plan, layer_plans
from profiler.architecture.parts import Block, Weight, matrix, vector
from profiler.architecture.quantization import Quantization
from profiler.architecture.sizing import group_layers, group_weights
from profiler.architecture.towers import tower_parameters

_TOWER_KEYS: Final = ("vision_config", "vision_encoder", "mm_vision_tower")
_PER_LAYER: Final = ("num_key_value_heads", "intermediate_size", "compress_ratios", "indexer_types")


def assemble(top: Fields, text: Fields, row: str, family: Family, stored: Quantization | None) -> Architecture:
    """Count a whole model; `text` is the part of `top` that describes the language model, `row` its family's name."""
    hidden, vocabulary = text.integer("hidden_size"), text.integer("vocab_size")
    plans = layer_plans(text, family)
    experts = read_experts(text, family)
    latent = family.mla and text.optional_integer("kv_lora_rank") is not None
    expanded = latent and family.special == "expanded_latent"
    attends = any(plan.kind in ("full", "sliding", "chunked", "cross", "parallel_mamba2") for plan in plans)
    base = base_heads(text, family, hidden) if attends and not latent else None
    model, extra = model_weights(text, family, hidden, vocabulary, len(plans))
    blocks = _blocks(
        text, family, plans, experts, base, hidden, extra, separate=stored is not None and not stored.is_uniform
    )
    tied, notes = _tied(top, text, family)
    if not tied:
        bias = family.head_bias or text.flag("lm_head_bias", False)
        model += matrix("lm_head", "lm_head", hidden, vocabulary, bias=bias)
    tower, tower_note = tower_parameters(top, hidden)
    if tower:
        model.append(vector("vision", "vision", tower))
    heads = base.queries if base else text.optional_integer("num_attention_heads") or 0
    positions = max_positions(text, row)
    if positions is None and "dim" in text.values:
        notes.append("params.json states no longest context: vLLM falls back to 128000, which may be too long")
    mtp, mtp_note = mtp_module(text, top.name, hidden, heads, blocks, stored, experts, _dtype(top, text))
    notes += [note for note in (tower_note, mtp_note) if note]
    return Architecture(
        name=top.name, model_type=text.text("model_type") or top.text("model_type") or row,
        architectures=tuple(str(c) for c in top.items("architectures") or text.items("architectures") or ()),
        hidden_size=hidden, num_layers=len(plans), vocab_size=vocabulary, num_attention_heads=heads,
        num_kv_heads=heads if latent else base.keys if base else 0,
        head_dim=_head_dim(text, base, latent, expanded=expanded),
        max_position_embeddings=positions, tie_word_embeddings=tied, dtype=_dtype(top, text),
        weights=group_weights(model, blocks, stored, experts), layers=group_layers(blocks),
        quantization=stored.name if stored else None, compute_dtype=stored.compute_dtype if stored else "bf16",
        kv_cache_quantization=stored.kv_cache if stored else None, experts=experts.count if experts else None,
        experts_per_token=experts.per_token if experts else None, mtp_head=mtp,
        is_mla=(latent and not expanded) or family.special == "deepseek_v4",
        is_multimodal=text is not top or any(key in top for key in _TOWER_KEYS),
        notes=(*notes, *(stored.notes if stored else ())),
    )  # fmt: skip


def _blocks(
    text: Fields, family: Family, plans: list[Plan], experts: Experts | None, base: Heads | None, hidden: int,
    extra: Sequence[Weight], *, separate: bool,
) -> Counter[tuple[int, Block]]:  # fmt: skip
    """How often each layer stands in the model.

    `separate` keeps layers apart that quantisation may treat differently.
    """
    latent = family.mla and text.optional_integer("kv_lora_rank") is not None
    overrides = text.part("per_layer_config")
    routed = expert_layers(text, family, plans) if experts else [False] * len(plans)
    # Layers of one plan are alike unless the config gives sizes for each.
    listed = any(isinstance(text.find(key)[1], list | tuple) for key in _PER_LAYER)
    single = overrides is not None or listed or family.special == "deepseek_v4"
    blocks: Counter[tuple[int, Block]] = Counter()
    built: dict[tuple[Plan, bool, int], Block] = {}
    for index, plan in enumerate(plans):
        key = (plan, routed[index], index if single else 0)
        if key not in built:
            own, heads = text, base
            if overrides is not None:
                own = _overridden(text, overrides, index)
                heads = base_heads(own, family, hidden) if base else None
            chosen = experts if routed[index] else None
            built[key] = layer_block(own, family, plan, heads, chosen, hidden, index, latent, extra)
        blocks[(index if separate else 0, built[key])] += 1
    return blocks


def _overridden(text: Fields, overrides: Fields, index: int) -> Fields:
    """One layer's config where transformers 5 lists what differs in it, under its number ("05")."""
    for key in (str(index), f"{index:02d}", f"{index:03d}"):
        part = overrides.part(key)
        if part is not None:
            return Fields({**text.values, **part.values}, name=text.name, path=text.path)
    return text


def _head_dim(text: Fields, base: Heads | None, latent: bool, *, expanded: bool) -> int:
    if expanded:
        return text.integer("qk_nope_head_dim") + text.integer("qk_rope_head_dim")
    if latent:  # as vLLM reports it: what the cache keeps per token
        return text.integer("kv_lora_rank") + text.integer("qk_rope_head_dim")
    return base.key_size if base else 0


def _tied(top: Fields, text: Fields, family: Family) -> tuple[bool, list[str]]:
    """Whether input and output tables are one.

    The text model's own word, then the wrapper's, then the family's default.
    """
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
