"""What does one layer hold, whatever its kind, and what stands outside the layers?

Puts together a layer's mixer, feed-forward part and norms, as its family's published code does (families.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from profiler.architecture.attention import Heads, attention_block, latent_block, layer_heads
from profiler.architecture.families import Family
from profiler.architecture.feedforward import Experts, dense_block, dense_width, expert_block
from profiler.architecture.fields import Fields
from profiler.architecture.layers import Plan
from profiler.architecture.mixers import mixer_block
from profiler.architecture.parts import Block, LayerGroup, Weight, matrix, vector
from profiler.architecture.uncommon import compressed_block, per_layer_inputs, streams


def layer_block(
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
        expanded = family.special == "expanded_latent"
        mixers.append(latent_block(text, plan, hidden, index, expanded=expanded))
    elif plan.kind in ("full", "sliding", "chunked", "cross", "none", "linear_map"):
        heads = layer_heads(text, family, plan, base, index) if base else Heads(1, 1, 1, 1)
        mixers.append(attention_block(text, family, plan, heads, hidden))
    elif plan.kind == "parallel_mamba2":
        assert base is not None  # a parallel plan counts as attention
        mixers += [
            attention_block(text, family, replace(plan, kind="full"), base, hidden),
            mixer_block(text, "mamba2", hidden),
        ]
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
    if text.text("model_type") == "granitemoehybrid" and not text.same_integer("experts", least=0):
        # Granite 4 without routed experts: what would be the shared expert is the MLP.
        dense = text.optional_integer("shared_width") or dense
    if dense is None:
        unclear = "multiple_of" in text or "ffn_dim_multiplier" in text
        hint = (
            " (ffn_dim_multiplier and multiple_of do not settle it: vendors apply them differently)" if unclear else ""
        )
        raise text.missing("intermediate_size", f"the width of the MLP{hint}")
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
    if family.special == "hyperclovax":
        return 4 if text.flag("use_post_norm", False) else 2
    if family.special == "nas":
        return (plan.kind not in ("none", "linear_map")) + (plan.feed_forward in ("dense", "default"))
    return family.layer_norms


def model_weights(
    text: Fields, family: Family, hidden: int, vocabulary: int, layers: int
) -> tuple[list[Weight], list[Weight]]:
    """Weights outside the layers, and extra ones that each layer has."""
    width = text.optional_integer("word_embed_proj_dim") or hidden
    model = [vector("model.embed_tokens", "embedding", vocabulary * width)]
    if width != hidden:  # OPT-350m
        model += matrix("model.project_in", "projection", width, hidden) + matrix(
            "model.project_out", "projection", hidden, width
        )
    each = hidden * (2 if family.norm == "layer" else 1)
    if family.norm != "none" and family.final_norm and text.flag("do_layer_norm_before", True):  # OPT-350m has none
        model.append(vector("model.norm", "norm", each))
    if family.embedding_norm:
        model.append(vector("model.embedding_norm", "norm", each))
    if family.positions is not None:
        model.append(
            vector("model.positions", "position", (text.integer("max_position_embeddings") + family.positions) * hidden)
        )
    outer, extra = per_layer_inputs(text, hidden, layers) if family.special in ("gemma3n", "gemma4") else ([], [])
    model += outer
    if family.special == "gemma3n":
        outer, inner = streams(text, hidden)
        return model + outer, extra + inner
    return model, extra
