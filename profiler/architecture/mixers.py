"""What do recurrent layers weigh and keep? Mamba, delta rules, lightning attention, short convolutions.

Their cache is a state of constant size per sequence, so that long contexts cost nothing more. Shapes: Mamba (arXiv
2312.00752), Mamba-2 (2405.21060), Gated DeltaNet (2412.06464) as in Qwen3-Next, Kimi Linear (2510.26692), lightning
attention (2501.08313), LFM2's gated short convolution; each as the family's class in transformers builds it. States as
vllm/model_executor/layers/mamba/mamba_utils.py sizes them: convolution state in 16 bit, recurrent state in the type
that the config names (float32 for linear attention).
"""

from __future__ import annotations

from profiler.architecture.fields import Fields
from profiler.architecture.layers import MixerKind
from profiler.architecture.parts import Block, LayerGroup, Weight, matrix, vector

_HALF = 2  # bytes of a 16-bit element
_SINGLE = 4


def mixer_block(fields: Fields, kind: MixerKind, hidden: int) -> Block:
    """One layer whose mixer is no attention."""
    build = {
        "gated_delta": _gated_delta, "delta": _delta, "kda": _kda, "lightning": _lightning, "mamba": _mamba,
        "mamba2": _mamba2, "conv": _conv,
    }[kind]  # fmt: skip
    return build(fields, hidden)


def _state_size(fields: Fields, default: int) -> int:
    """Bytes of one element of the recurrent state."""
    name = fields.text("mamba_ssm_dtype") or fields.text("mamba_ssm_cache_dtype")
    if name is None:
        return default
    sizes = {"float32": _SINGLE, "bfloat16": _HALF, "float16": _HALF, "auto": default}
    if name not in sizes:
        raise fields.error("The state's type is not known", "mamba_ssm_dtype", ", ".join(sizes), name)
    return sizes[name]


def _gated_delta(fields: Fields, hidden: int) -> Block:
    keys, values = fields.integer("linear_num_key_heads"), fields.integer("linear_num_value_heads")
    key_size, value_size = fields.integer("linear_key_head_dim"), fields.integer("linear_value_head_dim")
    kernel = fields.integer("linear_conv_kernel_dim")
    mixed = 2 * keys * key_size + values * value_size
    weights = matrix("linear_attn.in_proj_qkv", "mixer", hidden, mixed)
    weights += matrix("linear_attn.in_proj_z", "mixer", hidden, values * value_size)
    weights += matrix("linear_attn.in_proj_b", "mixer", hidden, values)
    weights += matrix("linear_attn.in_proj_a", "mixer", hidden, values)
    weights += matrix("linear_attn.out_proj", "mixer", values * value_size, hidden)
    weights.append(vector("linear_attn.conv1d", "mixer", mixed * kernel))
    weights.append(vector("linear_attn.norm", "mixer", value_size + 2 * values))  # with dt_bias and A_log
    state = (kernel - 1) * mixed * _HALF + values * key_size * value_size * _state_size(fields, _HALF)
    return Block(tuple(weights), (LayerGroup("gated_delta", state_bytes=state),))


def _delta(fields: Fields, hidden: int) -> Block:
    """OLMo hybrid: the same rule, its projections unfused and a gate of full rank."""
    keys, values = fields.integer("linear_num_key_heads"), fields.integer("linear_num_value_heads")
    key_size, value_size = fields.integer("linear_key_head_dim"), fields.integer("linear_value_head_dim")
    kernel = fields.integer("linear_conv_kernel_dim")
    mixed = 2 * keys * key_size + values * value_size
    weights: list[Weight] = []
    for name, size in (
        ("q", keys * key_size),
        ("k", keys * key_size),
        ("v", values * value_size),
        ("g", values * value_size),
    ):
        weights += matrix(f"linear_attn.{name}_proj", "mixer", hidden, size)
    weights += matrix("linear_attn.a_proj", "mixer", hidden, values) + matrix(
        "linear_attn.b_proj", "mixer", hidden, values
    )
    weights += matrix("linear_attn.o_proj", "mixer", values * value_size, hidden)
    weights.append(vector("linear_attn.conv1d", "mixer", mixed * kernel + 2 * values + value_size))
    state = (kernel - 1) * mixed * _HALF + values * key_size * value_size * _state_size(fields, _SINGLE)
    return Block(tuple(weights), (LayerGroup("gated_delta", state_bytes=state),))


def _kda(fields: Fields, hidden: int) -> Block:
    part = fields.part("linear_attn_config")
    if part is not None:
        heads, size, kernel = (
            part.integer("num_heads"),
            part.integer("head_dim"),
            part.integer("short_conv_kernel_size"),
        )
    else:
        part = fields
        heads, size = part.integer("linear_num_heads"), part.integer("linear_head_dim")
        kernel = part.integer("linear_conv_kernel_dim")
    wide = heads * size
    weights: list[Weight] = []
    for name in ("q_proj", "k_proj", "v_proj"):
        weights += matrix(f"self_attn.{name}", "mixer", hidden, wide)
    weights += matrix("self_attn.f_a_proj", "mixer", hidden, size) + matrix("self_attn.f_b_proj", "mixer", size, wide)
    if part.flag("use_full_rank_gate", False):
        weights += matrix("self_attn.g_proj", "mixer", hidden, wide)
    else:
        weights += matrix("self_attn.g_a_proj", "mixer", hidden, size) + matrix(
            "self_attn.g_b_proj", "mixer", size, wide
        )
    weights += matrix("self_attn.b_proj", "mixer", hidden, heads) + matrix("self_attn.o_proj", "mixer", wide, hidden)
    weights.append(
        vector("self_attn.conv1d", "mixer", 3 * wide * kernel + wide + heads + size)
    )  # dt_bias, A_log, o_norm
    state = (kernel - 1) * 3 * wide * _HALF + heads * size * size * _SINGLE
    return Block(tuple(weights), (LayerGroup("kda", state_bytes=state),))


def _lightning(fields: Fields, hidden: int) -> Block:
    heads = fields.integer("num_attention_heads")
    size = fields.optional_integer("head_dim") or hidden // heads
    wide = heads * size
    weights = matrix("self_attn.qkv_proj", "mixer", hidden, 3 * wide) + matrix(
        "self_attn.out_proj", "mixer", wide, hidden
    )
    weights += matrix("self_attn.output_gate", "mixer", hidden, wide)
    weights.append(vector("self_attn.norm", "mixer", wide))
    return Block(tuple(weights), (LayerGroup("lightning", state_bytes=heads * size * size * _SINGLE),))


def _mamba(fields: Fields, hidden: int) -> Block:
    inner = fields.optional_integer("mamba_expand") or fields.optional_integer("expand") or 2
    inner *= hidden
    if fields.text("model_type") in ("mamba", "falcon_mamba"):
        inner = fields.optional_integer("intermediate_size") or fields.optional_integer("d_inner") or inner
    state = _first(fields, "mamba_d_state", "state_size")
    kernel = _first(fields, "mamba_d_conv", "conv_kernel")
    rank = fields.values.get("mamba_dt_rank", fields.values.get("time_step_rank"))
    rank = -(-hidden // 16) if rank in (None, "auto") else Fields({"r": rank}, name=fields.name).integer("r")
    bias = fields.flag("mamba_conv_bias", fields.flag("use_conv_bias", True))
    wide_bias = fields.flag("mamba_proj_bias", fields.flag("use_bias", False))
    weights = matrix("mamba.in_proj", "mixer", hidden, 2 * inner, bias=wide_bias)
    weights += matrix("mamba.x_proj", "mixer", inner, rank + 2 * state)
    weights += matrix("mamba.dt_proj", "mixer", rank, inner, bias=True)
    weights += matrix("mamba.out_proj", "mixer", inner, hidden, bias=wide_bias)
    weights.append(vector("mamba.A_log", "mixer", inner * (state + 1)))  # with D
    weights.append(vector("mamba.conv1d", "mixer", inner * (kernel + bias)))
    if fields.text("model_type") == "jamba":
        weights.append(vector("mamba.norms", "mixer", rank + 2 * state))
    kept = (kernel - 1) * inner * _HALF + inner * state * _state_size(fields, _HALF)
    return Block(tuple(weights), (LayerGroup("mamba", state_bytes=kept),))


def _mamba2(fields: Fields, hidden: int) -> Block:
    heads = _first(fields, "mamba_num_heads", "mamba_n_heads", "num_heads")
    size = _first(
        fields,
        "mamba_head_dim",
        "mamba_d_head",
        "head_dim",
        absent=("auto",),
        fallback=_expanded(fields, hidden, heads),
    )
    groups = _first(fields, "mamba_n_groups", "n_groups")
    state = _first(fields, "mamba_d_state", "ssm_state_size", "state_size")
    kernel = _first(fields, "mamba_d_conv", "conv_kernel")
    inner = heads * size
    channels = inner + 2 * groups * state
    wide_bias = fields.flag("mamba_proj_bias", fields.flag("use_bias", False))
    bias = fields.flag("mamba_conv_bias", fields.flag("use_conv_bias", True))
    weights = matrix("mamba.in_proj", "mixer", hidden, inner + channels + heads, bias=wide_bias)
    weights += matrix("mamba.out_proj", "mixer", inner, hidden, bias=wide_bias)
    weights.append(vector("mamba.conv1d", "mixer", channels * (kernel + bias)))
    weights.append(vector("mamba.dt_bias", "mixer", 3 * heads))  # with A_log and D
    if fields.flag("mamba_rms_norm", fields.text("model_type") != "falcon_h1"):
        weights.append(vector("mamba.norm", "mixer", inner))
    kept = (kernel - 1) * channels * _HALF + inner * state * _state_size(fields, _HALF)
    return Block(tuple(weights), (LayerGroup("mamba2", state_bytes=kept),))


def _conv(fields: Fields, hidden: int) -> Block:
    kernel = fields.integer("conv_L_cache")
    bias = fields.flag("conv_bias", False)
    weights = matrix("conv.in_proj", "mixer", hidden, 3 * hidden, bias=bias)
    weights += matrix("conv.out_proj", "mixer", hidden, hidden, bias=bias)
    weights.append(vector("conv.conv", "mixer", hidden * (kernel + bias)))
    return Block(tuple(weights), (LayerGroup("conv", state_bytes=(kernel - 1) * hidden * _HALF),))


def _expanded(fields: Fields, hidden: int, heads: int) -> int | None:
    factor = fields.optional_integer("mamba_expand") or fields.optional_integer("expand")
    return None if factor is None or factor * hidden % heads else factor * hidden // heads


def _first(fields: Fields, *keys: str, absent: tuple[str, ...] = (), fallback: int | None = None) -> int:
    """The first of several names that the config has; the error names the first where it has none."""
    for key in keys:
        if fields.values.get(key) is not None and fields.values[key] not in absent:
            return Fields({key: fields.values[key]}, name=fields.name, path=fields.path).integer(key)
    if fallback is not None:
        return fallback
    raise fields.missing(keys[0], f"a whole number, under {' or '.join(keys)}")
