"""What does an attention layer weigh, keep and compute? Grouped-query, multi-latent and sparse attention.

Weights: query heads x h + 2 KV heads x h + output, plus biases, norms and gates (Ainslie et al. 2023 for grouped
queries; DeepSeek-V2, arXiv 2405.04434, section 2.1 for the latent form). Cache: 2 x KV heads x head size elements per
token; latent attention keeps one vector of kv_lora_rank + qk_rope_head_dim for all heads (ibid., table 1).
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.architecture.families import Family
from profiler.architecture.fields import Fields
from profiler.architecture.layers import Plan
from profiler.architecture.parts import Block, LayerGroup, LayerKind, Weight, matrix, vector


@dataclass(frozen=True, slots=True)
class Heads:
    """Head counts and sizes of one attention layer."""

    queries: int
    keys: int
    key_size: int
    value_size: int


def base_heads(fields: Fields, family: Family, hidden: int) -> Heads:
    """Head counts and sizes that hold where no layer says otherwise."""
    queries = fields.integer("num_attention_heads")
    size = fields.optional_integer("head_dim")
    if size is None:
        if hidden % queries:
            raise fields.error(
                "The head size cannot be told", "head_dim",
                f"head_dim, or a hidden size that num_attention_heads divides ({hidden} / {queries})", "no head_dim",
            )  # fmt: skip
        size = hidden // queries
    if isinstance(fields.find("num_key_value_heads")[1], list | tuple):
        keys = fields.layer_integer("num_key_value_heads", 0, least=0) or queries
    else:
        keys = _kv_heads(fields, family) or queries
    if queries % keys:
        key = fields.find("num_key_value_heads")[0]
        raise fields.error("KV heads do not divide the query heads", key, f"a divisor of {queries}", keys)
    return Heads(queries, keys, size, fields.optional_integer("v_head_dim") or size)


def _kv_heads(fields: Fields, family: Family) -> int | None:
    if family.special == "falcon":  # FalconConfig: num_kv_heads holds only in the new decoder; multi_query means one
        if fields.flag("new_decoder_architecture", False):
            return fields.optional_integer("num_key_value_heads")
        return 1 if fields.flag("multi_query", True) else None
    if fields.text("model_type") == "gpt_bigcode":
        return 1 if fields.flag("multi_query", True) else None
    if "multi_query_group_num" in fields:  # ChatGLM
        return fields.integer("multi_query_group_num") if fields.flag("multi_query_attention", False) else None
    for nested in ("attn_config",):  # MPT, DBRX
        part = fields.part(nested)
        if part is not None:
            return part.optional_integer("kv_n_heads")
    return fields.optional_integer("num_key_value_heads")


def layer_heads(fields: Fields, family: Family, plan: Plan, base: Heads, index: int) -> Heads:
    """Head counts and sizes of one layer: sliding and global layers may differ, and lists give one entry a layer."""
    number = fields.optional_integer
    if plan.kind == "sliding" and family.special == "mimo_v2":
        size = number("swa_head_dim") or base.key_size
        return Heads(
            number("swa_num_attention_heads") or base.queries, number("swa_num_key_value_heads") or base.keys, size,
            number("swa_v_head_dim") or base.value_size,
        )  # fmt: skip
    if plan.kind == "sliding" and family.special == "step":
        other = fields.part("attention_other_setting")
        if other is not None:
            size = other.optional_integer("head_dim") or base.key_size
            queries = other.optional_integer("num_attention_heads") or base.queries
            return Heads(queries, other.optional_integer("num_key_value_heads") or base.keys, size, size)
    if plan.kind == "full" and family.special == "gemma4":
        size = number("global_head_dim") or base.key_size
        keys = number("num_global_key_value_heads") if fields.flag("attention_k_eq_v", False) else None
        return Heads(base.queries, keys or base.keys, size, size)
    if plan.heads_in_group is not None:
        if base.queries % plan.heads_in_group:
            raise fields.error(
                "block_configs does not fit",
                "block_configs",
                f"n_heads_in_group dividing {base.queries}",
                plan.heads_in_group,
            )
        return Heads(base.queries, base.queries // plan.heads_in_group, base.key_size, base.value_size)
    if isinstance(fields.find("num_key_value_heads")[1], list | tuple):
        keys = fields.layer_integer("num_key_value_heads", index)
        return Heads(base.queries, keys or base.keys, base.key_size, base.value_size)
    return base


def attention_block(
    fields: Fields, family: Family, plan: Plan, heads: Heads, hidden: int, *, inputs: int | None = None
) -> Block:
    """One grouped-query layer; `inputs` is wider than hidden in drafter heads that read two states at once."""
    if plan.kind in ("none", "linear_map"):
        weights = matrix("self_attn.linear_attn", "attention", hidden, hidden) if plan.kind == "linear_map" else []
        return Block(tuple(weights))
    width = inputs or hidden
    bias, out_bias = _biases(fields, family)
    query_size, value_size = heads.queries * heads.key_size, heads.queries * heads.value_size
    gated = family.attention_gate and fields.flag("attn_output_gate", True)
    weights = matrix("self_attn.q_proj", "attention", width, query_size * (2 if gated else 1), bias=bias)
    if not plan.shares_kv:
        weights += matrix("self_attn.k_proj", "attention", width, heads.keys * heads.key_size, bias=bias)
        if not (family.special == "gemma4" and plan.kind == "full" and fields.flag("attention_k_eq_v", False)):
            weights += matrix("self_attn.v_proj", "attention", width, heads.keys * heads.value_size, bias=bias)
    weights += matrix("self_attn.o_proj", "attention", value_size, hidden, bias=out_bias)
    weights += _extras(fields, family, plan, heads, hidden)
    score = heads.queries * (heads.key_size + heads.value_size)
    if plan.kind == "cross":  # keys and values of an image, not of the text
        return Block(tuple(weights), (LayerGroup("cross"),))
    elements = heads.keys * (heads.key_size + heads.value_size)
    kind: LayerKind = plan.kind if plan.kind in ("sliding", "chunked") else "full"
    if plan.shares_kv:  # reads another layer's cache: the read costs, the memory does not
        return Block(
            tuple(weights), (LayerGroup("shared", 1, elements, plan.window, plan.attended, score_width=score),)
        )
    return Block(tuple(weights), (LayerGroup(kind, 1, elements, plan.window, plan.attended, score_width=score),))


def _biases(fields: Fields, family: Family) -> tuple[bool, bool]:
    for key in family.bias_keys:
        given = fields.optional_flag(key)
        if given is not None:
            given = given != family.inverted_bias
            out = fields.flag("attention_out_bias", False) if family.bias_qkv_only else given
            return given, out
    if family.inverted_bias:  # MPT: no_bias absent means true
        return False, False
    out = fields.flag("attention_out_bias", family.out_bias) if family.bias_qkv_only else family.out_bias
    return family.qkv_bias, out


def _extras(fields: Fields, family: Family, plan: Plan, heads: Heads, hidden: int) -> list[Weight]:
    """Norms over queries and keys, attention sinks, gates."""
    found: list[Weight] = []
    switched = family.qk_norm_key is None or fields.flag(family.qk_norm_key, False)
    if family.qk_norm and switched:
        full = family.qk_norm == "full"
        found.append(vector("self_attn.q_norm", "attention", heads.key_size * (heads.queries if full else 1)))
        if not plan.shares_kv:
            found.append(vector("self_attn.k_norm", "attention", heads.key_size * (heads.keys if full else 1)))
    if plan.kind == "cross":
        found.append(vector("self_attn.qk_norm", "attention", 2 * heads.key_size))
    if family.special == "stablelm" and fields.flag("qk_layernorm", False):
        found.append(vector("self_attn.qk_norm", "attention", heads.key_size * (heads.queries + heads.keys)))
    if family.sinks or (plan.kind == "sliding" and fields.flag("add_swa_attention_sink_bias", False)):
        found.append(vector("self_attn.sinks", "attention", heads.queries))
    if family.special == "afmoe":
        found += matrix("self_attn.gate_proj", "attention", hidden, heads.queries * heads.key_size)
    if family.special == "step":
        found += matrix("self_attn.g_proj", "attention", hidden, heads.queries)
    return found


def latent_block(fields: Fields, plan: Plan, hidden: int, index: int, *, expanded: bool = False) -> Block:
    """One layer of multi-head latent attention, with the sparse indexer where the config has one.

    expanded: vLLM runs the family as plain attention and keeps keys and values of every head, values padded to the
    keys' size (vllm/model_executor/models/minicpm3.py; the latent form is for the model types that
    ModelArchConfigConvertor.is_deepseek_mla lists).
    """
    heads = fields.integer("num_attention_heads")
    rank, rope = fields.integer("kv_lora_rank"), fields.integer("qk_rope_head_dim")
    nope, value = fields.integer("qk_nope_head_dim"), fields.integer("v_head_dim")
    query_rank = fields.optional_integer("q_lora_rank")
    bias = fields.flag("attention_bias", False)
    if query_rank:
        weights = matrix("self_attn.q_a_proj", "attention", hidden, query_rank, bias=bias)
        weights.append(vector("self_attn.q_a_layernorm", "attention", query_rank))
        weights += matrix("self_attn.q_b_proj", "attention", query_rank, heads * (nope + rope))
    else:
        weights = matrix("self_attn.q_proj", "attention", hidden, heads * (nope + rope))
    weights += matrix("self_attn.kv_a_proj_with_mqa", "attention", hidden, rank + rope, bias=bias)
    weights.append(vector("self_attn.kv_a_layernorm", "attention", rank))
    weights += matrix("self_attn.kv_b_proj", "attention", rank, heads * (nope + value))
    weights += matrix("self_attn.o_proj", "attention", heads * value, hidden, bias=bias)
    if fields.flag("mla_use_output_gate", False):
        weights += matrix("self_attn.g_proj", "attention", hidden, heads * value)
    attended, index_bytes = None, 0
    key = fields.optional_integer("index_head_dim")
    if key is not None and fields.optional_integer("index_topk") is not None:
        attended = fields.integer("index_topk")
        types = fields.items("indexer_types")
        if (
            types is None or index >= len(types) or types[index] == "full"
        ):  # "shared" layers take the indices of the last full one
            lanes = fields.integer("index_n_heads")
            weights += matrix("self_attn.indexer.wq_b", "attention", query_rank or hidden, lanes * key)
            weights += matrix("self_attn.indexer.wk", "attention", hidden, key)
            weights.append(vector("self_attn.indexer.k_norm", "attention", 2 * key))
            weights += matrix("self_attn.indexer.weights_proj", "attention", hidden, lanes)
            # fp8 keys and one 4-byte scale per 128 of them (vllm/v1/attention, DeepseekV32IndexerCache).
            index_bytes = key + 4 * -(-key // 128)
    if expanded:
        size = nope + rope
        return Block(tuple(weights), (LayerGroup("full", 1, 2 * heads * size, score_width=2 * heads * size),))
    # Decoding attends in the latent space: scores over rank + rope, values over rank.
    kind: LayerKind = "mla" if attended is None else "sparse"
    group = LayerGroup(
        kind, 1, rank + rope, plan.window, attended, score_width=heads * (2 * rank + rope), index_bytes=index_bytes
    )
    return Block(tuple(weights), (group,))
