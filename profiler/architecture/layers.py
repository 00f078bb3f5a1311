"""Of which kind is each layer? Attention over everything, over a window, a recurrent mixer, or nothing.

Configs say it in a dozen ways: a list of names, a pattern string, an interval, index lists (from 0 or from 1),
per-layer blocks, or only through the family. What names a kind that is not known here is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from profiler.architecture.families import Family
from profiler.architecture.fields import Fields

MixerKind = Literal[
    "full", "sliding", "chunked", "cross", "gated_delta", "delta", "kda", "lightning", "mamba", "mamba2", "conv",
    "parallel_mamba2", "linear_map", "none",
]  # fmt: skip
FeedForwardKind = Literal["dense", "experts", "default", "none", "linear_map"]
MOST_LAYERS: Final = 4096


@dataclass(frozen=True, slots=True)
class Plan:
    """What one layer is made of; "default" leaves dense or experts to feedforward.py."""

    kind: MixerKind
    window: int | None = None
    attended: int | None = None
    shares_kv: bool = False
    feed_forward: FeedForwardKind = "default"
    heads_in_group: int | None = None  # Nemotron-NAS
    ffn_mult: float | None = None  # Nemotron-NAS


# transformers 5 says "indexed" or "compressed" of layers whose sparsity other fields describe.
_FULL: Final = (
    "full_attention", "attention", "global_attention", "global", "full", "indexed_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)  # fmt: skip
_SLIDING: Final = ("sliding_attention", "sliding_window", "local_attention", "sliding", "local", "swa")


def layer_count(fields: Fields) -> int:
    """Number of layers, from the number itself or from the list that names each."""
    count = fields.optional_integer("num_hidden_layers", most=MOST_LAYERS)
    if count is not None:
        return count
    for key in ("layers_block_type", "hybrid_override_pattern", "layer_types", "block_configs"):
        value = fields.values.get(key)
        if isinstance(value, list | tuple | str) and value:
            return len(value)
    return fields.integer("num_hidden_layers", most=MOST_LAYERS)


def layer_plans(fields: Fields, family: Family) -> list[Plan]:
    """One plan a layer, in order."""
    count = layer_count(fields)
    if family.special == "nas" and "block_configs" in fields:
        return _nas(fields, count)
    if "hybrid_override_pattern" in fields:
        return _pattern(fields, count)
    named = fields.per_layer("layers_block_type", count) or fields.per_layer("layer_types", count)
    if named is None:
        return _with_sharing(fields, _unnamed(fields, family, count))
    return _with_sharing(fields, [_named(fields, family, name) for name in named])


def _window(fields: Fields) -> int | None:
    """The sliding window, None where there is none or where it is no narrower than the longest context."""
    if fields.optional_flag("use_sliding_window") is False:
        return None
    window = fields.optional_integer("sliding_window", least=0)
    longest = fields.optional_integer("max_position_embeddings")
    return None if not window or window < 0 or (longest is not None and window >= longest) else window


def _sliding(fields: Fields) -> Plan:
    window = _window(fields)
    if window is None and "sliding_window" not in fields:
        raise fields.missing("sliding_window", "the window of the layers that layer_types calls sliding")
    return Plan("sliding", window) if window is not None else Plan("full")


def _named(fields: Fields, family: Family, name: object) -> Plan:
    mixer_only = family.layer_norms == 1 and not family.gated  # Nemotron-H: a layer is a mixer or an MLP, never both
    rest: FeedForwardKind = "none" if mixer_only else "default"
    if name in _FULL:
        return Plan("full", feed_forward=rest)
    if name in _SLIDING:
        return _sliding(fields)
    if name == "chunked_attention":
        return _chunked(fields)
    if name == "linear_attention":
        return Plan(_linear_kind(fields), feed_forward=rest)
    if name in ("mamba", "mamba2"):
        classic = "mamba_dt_rank" in fields and "mamba_n_heads" not in fields
        return Plan("mamba" if classic else "mamba2", feed_forward=rest)
    if name == "conv":
        return Plan("conv")
    if name in ("moe", "mlp") and mixer_only:
        return Plan("none", feed_forward="experts" if name == "moe" else "dense")
    raise fields.error(
        "A layer is of a kind that is not known", "layer_types",
        "full_attention, sliding_attention, chunked_attention, linear_attention, mamba, conv, moe or mlp", name,
    )  # fmt: skip


def _linear_kind(fields: Fields) -> MixerKind:
    if "linear_num_value_heads" in fields:
        return "delta" if fields.text("model_type") == "olmo_hybrid" else "gated_delta"
    if fields.part("linear_attn_config") is not None or "linear_num_heads" in fields:
        return "kda"
    if any(key in fields for key in ("mamba_n_heads", "mamba_num_heads")):
        return "mamba2"
    if "mamba_dt_rank" in fields:
        return "mamba"
    if (fields.text("model_type") or "").startswith("minimax"):
        return "lightning"
    raise fields.missing("linear_num_value_heads", "the sizes of the layers that layer_types calls linear_attention")


def _chunked(fields: Fields) -> Plan:
    # vLLM keeps whole contexts for chunked layers unless VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is set.
    chunk = fields.optional_integer("attention_chunk_size")
    return Plan("chunked", attended=chunk) if chunk else Plan("full")


def _pattern(fields: Fields, count: int) -> list[Plan]:
    """Nemotron-H's string: M is Mamba-2, * attention, - an MLP, E experts."""
    pattern = fields.text("hybrid_override_pattern") or ""
    letters = {
        "M": Plan("mamba2", feed_forward="none"), "*": Plan("full", feed_forward="none"),
        "-": Plan("none", feed_forward="dense"), "E": Plan("none", feed_forward="experts"),
    }  # fmt: skip
    unknown = sorted(set(pattern) - set(letters))
    if unknown or len(pattern) != count:
        raise fields.error(
            "hybrid_override_pattern cannot be read", "hybrid_override_pattern", f"{count} of the letters M, E, *, -",
            f"{len(pattern)} letters" + (f", among them {', '.join(unknown)}" if unknown else ""),
        )  # fmt: skip
    return [letters[letter] for letter in pattern]


def _nas(fields: Fields, count: int) -> list[Plan]:
    """Puzzle (Nemotron-NAS) blocks: attention kept, replaced by a linear map or left out; MLP of its own width."""
    plans: list[Plan] = []
    for index, block in enumerate(fields.per_layer("block_configs", count) or ()):
        part = Fields({"block": block}, name=fields.name, path=f"block_configs.{index}.").part("block")
        attention, ffn = (part.part("attention"), part.part("ffn")) if part is not None else (None, None)
        if attention is None or ffn is None:
            raise fields.error(
                "block_configs cannot be read", "block_configs", "attention and ffn in each entry", block
            )
        kind: MixerKind = "full"
        if attention.flag("no_op", False):
            kind = "none"
        elif attention.flag("replace_with_linear", False):
            kind = "linear_map"
        group = attention.integer("n_heads_in_group") if kind == "full" else None
        width: FeedForwardKind = "dense"
        if ffn.flag("no_op", False):
            width = "none"
        elif ffn.flag("replace_with_linear", False):
            width = "linear_map"
        if width == "dense" and "ffn_mult" not in ffn:
            raise ffn.missing("ffn_mult", "the MLP's width over the hidden size")
        mult = ffn.number("ffn_mult", 1.0) if width == "dense" else None
        window = attention.optional_integer("window_length")
        plans.append(Plan("sliding" if window and kind == "full" else kind, window, None, False, width, group, mult))
    return plans


def _unnamed(fields: Fields, family: Family, count: int) -> list[Plan]:
    """Kinds from intervals, index lists and the family."""
    kimi = fields.part("linear_attn_config")
    if kimi is not None:
        full = set(kimi.integers("full_attn_layers") or ())  # counted from 1
        return [Plan("full" if index + 1 in full else "kda") for index in range(count)]
    interval = fields.optional_integer("full_attention_interval")
    if interval is not None:
        return _every(count, lambda i: (i + 1) % interval == 0, Plan(_linear_kind(fields)))
    kinds = fields.per_layer("attn_type_list", count)  # MiniMax-01: 1 is softmax attention
    if kinds is not None:
        return _every(count, lambda i: kinds[i] == 1, Plan("lightning"))
    period = fields.optional_integer("attn_layer_period")
    if period is not None:
        offset = fields.optional_integer("attn_layer_offset", least=0) or 0
        return _every(count, lambda i: i % period == offset, Plan("mamba"))
    for key, other in (("attn_layer_indices", "mamba2"), ("full_attn_idxs", "conv")):
        indices = fields.integers(key)
        if indices is not None:
            kept = frozenset(indices)
            return _every(count, lambda i, kept=kept: i in kept, Plan(other))  # type: ignore[misc, arg-type]
    if fields.text("model_type") == "bamba":
        return [Plan("mamba2")] * count
    if family.special == "mamba":
        version: MixerKind = "mamba2" if fields.text("model_type") == "mamba2" else "mamba"
        return [Plan(version, feed_forward="none")] * count
    if family.special == "falcon_h1":
        return [Plan("parallel_mamba2")] * count
    if family.special == "mllama":
        cross = set(fields.integers("cross_attention_layers") or ())
        return [Plan("cross" if index in cross else "full") for index in range(count)]
    if family.special == "llama4":
        nope = fields.integers("no_rope_layers") or [int((i + 1) % 4 != 0) for i in range(count)]
        return [_chunked(fields) if index < len(nope) and nope[index] else Plan("full") for index in range(count)]
    return _windows(fields, family, count)


def _every(count: int, full: Callable[[int], bool], other: Plan) -> list[Plan]:
    return [Plan("full") if full(index) else other for index in range(count)]


def _windows(fields: Fields, family: Family, count: int) -> list[Plan]:
    """Sliding windows without layer_types."""
    given = fields.values.get("sliding_window")
    if isinstance(given, list | tuple):  # Mistral's params.json: one entry a layer, or a pattern that repeats
        return _listed_windows(fields, given, count)
    hybrid = fields.per_layer("hybrid_layer_pattern", count)
    if hybrid is not None:
        return [_sliding(fields) if entry else Plan("full") for entry in hybrid]
    window = _window(fields)
    if window is None or family.window == "none":
        return [Plan("full")] * count
    if family.window == "flag":
        if not fields.flag("use_sliding_window", False):
            return [Plan("full")] * count
        first = fields.optional_integer("max_window_layers", least=0) or 0
        return [Plan("sliding", window) if index >= first else Plan("full") for index in range(count)]
    pattern = fields.values.get("sliding_window_pattern") or fields.values.get("_sliding_window_pattern")
    pattern = pattern or fields.values.get("global_attn_every_n_layers") or family.window
    if isinstance(pattern, str) and pattern != "all":
        if set(pattern) - {"L", "G"}:
            raise fields.error(
                "The window pattern cannot be read", "sliding_window_pattern", "letters L and G", pattern
            )
        return [Plan("full") if pattern[i % len(pattern)] == "G" else Plan("sliding", window) for i in range(count)]
    if isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0:
        return _every(count, lambda i: (i + 1) % pattern == 0, Plan("sliding", window))
    if pattern == "all":
        return [Plan("sliding", window)] * count
    raise fields.error(
        "The window pattern cannot be read", "sliding_window_pattern", "a positive number or letters", pattern
    )


def _listed_windows(fields: Fields, given: Sequence[Any], count: int) -> list[Plan]:
    if not given or count % len(given):
        raise fields.error("sliding_window does not cover the layers", "sliding_window", f"{count} entries", len(given))
    plans: list[Plan] = []
    for index in range(count):
        entry = given[index % len(given)]
        window = _window(Fields({**fields.values, "sliding_window": entry}, name=fields.name, path=fields.path))
        plans.append(Plan("sliding", window) if window is not None else Plan("full"))
    return plans


def _with_sharing(fields: Fields, plans: list[Plan]) -> list[Plan]:
    """Mark layers that read another layer's keys and values instead of keeping their own."""
    from dataclasses import replace

    shared = fields.optional_integer("num_kv_shared_layers", least=0) or 0  # Gemma 3n and 4: the last ones
    if shared > len(plans):
        raise fields.error(
            "num_kv_shared_layers cannot be used", "num_kv_shared_layers", f"at most {len(plans)}", shared
        )
    first = len(plans) - shared
    plans = [replace(plan, shares_kv=True) if index >= first else plan for index, plan in enumerate(plans)]
    if fields.flag("use_cla", False):  # Hunyuan: each group of cla_share_factor layers keeps one cache
        factor = fields.integer("cla_share_factor")
        plans = [replace(plan, shares_kv=index % factor != 0) for index, plan in enumerate(plans)]
    return plans
