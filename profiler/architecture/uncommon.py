"""Layers that only one family has: Gemma's per-layer inputs, Gemma 3n's streams, DeepSeek-V4's compressed cache.

Each function counts the modules of that family's class in transformers (models/gemma3n, models/gemma4,
models/deepseek_v4).
"""

from __future__ import annotations

from profiler.architecture.fields import Fields
from profiler.architecture.parts import Block, LayerGroup, Weight, matrix, vector


def per_layer_inputs(fields: Fields, hidden: int, layers: int) -> tuple[list[Weight], list[Weight]]:
    """Gemma 3n's and 4's second embedding: weights of the model, and of each layer."""
    size = fields.optional_integer("hidden_size_per_layer_input", least=0) or 0
    if not size:
        return [], []
    vocabulary = fields.integer("vocab_size_per_layer_input")
    model = [vector("model.embed_tokens_per_layer", "position", vocabulary * layers * size)]
    model += matrix("model.per_layer_model_projection", "mlp", hidden, layers * size)
    model.append(vector("model.per_layer_projection_norm", "norm", size))
    layer = matrix("per_layer_input_gate", "mlp", hidden, size) + matrix("per_layer_projection", "mlp", size, hidden)
    return model, [*layer, vector("post_per_layer_input_norm", "norm", hidden)]


def streams(fields: Fields, hidden: int) -> tuple[list[Weight], list[Weight]]:
    """Gemma 3n's alternating updates (AltUp) and low-rank residuals (LAuReL).

    Weights of the model, and of each layer.
    """
    number, rank = fields.integer("altup_num_inputs"), fields.integer("laurel_rank")
    model: list[Weight] = []
    for name in ("altup_projections", "altup_unembed_projections"):
        model += matrix(f"model.{name}.0", "mlp", hidden, hidden, count=number - 1)
    layer = matrix("laurel.linear_left", "mlp", hidden, rank) + matrix("laurel.linear_right", "mlp", rank, hidden)
    layer += matrix("altup.modality_router", "router", hidden, number)
    layer.append(vector("altup.coefs", "norm", number * number + number**3 + 2 * hidden + hidden))
    return model, layer


def compressed_block(fields: Fields, hidden: int, index: int) -> Block:
    """One attention layer of DeepSeek-V4: a window of 128 tokens, and compressed entries of the rest of the context.

    Of `compress_ratios`, 0 keeps the window alone; r keeps one entry for r tokens, and layers of ratio 4 choose
    `index_topk` of them by an indexer.
    """
    heads, size = fields.integer("num_attention_heads"), fields.integer("head_dim")
    query_rank, out_rank, groups = (
        fields.integer("q_lora_rank"),
        fields.integer("o_lora_rank"),
        fields.integer("o_groups"),
    )
    ratio = _ratio(fields, index)
    weights = matrix("self_attn.q_a_proj", "attention", hidden, query_rank)
    weights += matrix("self_attn.q_b_proj", "attention", query_rank, heads * size)
    weights += matrix("self_attn.kv_proj", "attention", hidden, size)
    weights += matrix("self_attn.o_a_proj", "attention", heads * size // groups, groups * out_rank)
    weights += matrix("self_attn.o_b_proj", "attention", groups * out_rank, hidden)
    weights.append(vector("self_attn.norms", "attention", query_rank + size + heads))  # and one sink a head
    score = 2 * heads * size
    caches = [LayerGroup("sliding", 1, size, fields.integer("sliding_window"), score_width=score)]
    if ratio:
        chosen = "index_topk" in fields and ratio <= 4
        wide = 2 * size if chosen else size
        weights += matrix("self_attn.compressor.kv_proj", "attention", hidden, wide)
        weights += matrix("self_attn.compressor.gate_proj", "attention", hidden, wide)
        weights.append(vector("self_attn.compressor.position_bias", "attention", ratio * wide + size))
        attended, index_bytes = None, 0
        if chosen:
            key, lanes, attended = (
                fields.integer("index_head_dim"),
                fields.integer("index_n_heads"),
                fields.integer("index_topk"),
            )
            weights += matrix("self_attn.indexer.kv_proj", "attention", hidden, 2 * key)
            weights += matrix("self_attn.indexer.gate_proj", "attention", hidden, 2 * key)
            weights += matrix("self_attn.indexer.q_b_proj", "attention", query_rank, lanes * key)
            weights += matrix("self_attn.indexer.weights_proj", "attention", hidden, lanes)
            weights.append(vector("self_attn.indexer.norm", "attention", ratio * 2 * key + key))
            index_bytes = key + 4 * -(-key // 128)
        caches.append(LayerGroup("compressed", 1, size, None, attended, ratio, 0, score, index_bytes))
    return Block(
        (*weights, *_connections(fields, hidden, "attn_hc"), *_connections(fields, hidden, "ffn_hc")), tuple(caches)
    )


def _ratio(fields: Fields, index: int) -> int:
    """Tokens per compressed entry of one layer; 0 where a layer has its window alone."""
    ratios, rates = fields.integers("compress_ratios"), fields.part("compress_rates")
    if ratios is not None and index < len(ratios):
        return ratios[index]
    kinds = fields.items("layer_types")
    if rates is not None and kinds is not None and index < len(kinds):  # transformers 5's own spelling
        kind = str(kinds[index])
        return rates.integer(kind) if "compressed" in kind else 0
    raise fields.missing("compress_ratios", "the compression of each layer's cache, one number a layer")


def _connections(fields: Fields, hidden: int, name: str) -> list[Weight]:
    """Manifold-constrained hyper-connections: `hc_mult` residual streams and the maps that mix them."""
    streams = fields.optional_integer("hc_mult") or 1
    outputs = streams * (streams + 2)
    return [Weight(f"{name}.fn", "norm", streams * hidden * outputs), Weight(f"{name}.base", "norm", outputs + 3)]
