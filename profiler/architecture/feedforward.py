"""What does a layer's feed-forward part weigh? Gated and plain MLPs, routed experts, shared experts, routers.

Weights: 3 h f gated (Shazeer 2020, arXiv 2002.05202) or 2 h f plain; experts the same, each `expert_width` wide, plus a
router of h x E; shared experts are always on (DeepSeekMoE, arXiv 2401.06066). Which layers have experts is told by
configs in many ways; a mixture of experts whose widths are not told is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.architecture.families import Family
from profiler.architecture.fields import Fields
from profiler.architecture.layers import Plan
from profiler.architecture.parts import Weight, WeightRole, matrix, vector


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of a model, and what stands beside them."""

    count: int
    per_token: int
    width: int
    shared_width: int  # all shared experts together; 0 without
    latent: int | None  # the experts' own hidden size where it is not the model's


def read_experts(fields: Fields, family: Family) -> Experts | None:
    """The experts of this config, None for a dense model."""
    if family.special == "dbrx":
        part = fields.part("ffn_config")
        if part is None:
            raise fields.missing("ffn_config", "the sizes of the experts")
        return Experts(
            part.integer("moe_num_experts"), part.integer("moe_top_k"), part.integer("intermediate_size"), 0, None
        )
    moe = fields.part("moe")  # Mistral's params.json
    if moe is not None:
        merged = {**{k: v for k, v in fields.values.items() if k != "moe"}, **moe.values}
        return read_experts(Fields(merged, name=fields.name, path="moe."), family)
    count = fields.same_integer("experts", least=0)
    if family.special == "gemma4" and not fields.flag("enable_moe_block", False):
        return None
    if not count or (family.special is None and not family.shared_gate and count == 1):
        return None
    per_token = fields.same_integer("experts_per_token")
    if per_token is None:
        raise fields.missing("experts_per_token", "how many experts a token passes")
    if per_token > count:
        key = fields.find("experts_per_token")[0]
        raise fields.error("More experts a token than there are", key, f"at most {count}", per_token)
    width = fields.same_integer("expert_width")
    if width is None and family.expert_width_is_intermediate:
        width = fields.same_integer("intermediate_size")
    if width is None and (fields.text("model_type") or "").startswith(("hunyuan", "ernie")):
        width = fields.same_integer("intermediate_size")
    if width is None:
        raise fields.missing("expert_width", "the width of one expert")
    latent = fields.optional_integer("moe_latent_size") or fields.optional_integer("routed_expert_hidden_size")
    return Experts(count, per_token, width, _shared_width(fields, family, width), latent)


def _shared_width(fields: Fields, family: Family, width: int) -> int:
    if family.special == "llama4":  # one shared expert as wide as a routed one
        return width
    number = fields.same_integer("shared_experts", least=0)
    given = fields.optional_integer("shared_width", least=0)
    if given is not None:
        if fields.text("model_type") == "nemotron_h":  # width of one shared expert
            return given * (1 if number is None else number)
        return given
    return width * (number or 0)


def expert_layers(fields: Fields, family: Family, plans: list[Plan]) -> list[bool]:
    """Whether each layer routes to experts."""
    count = len(plans)
    if any(plan.feed_forward != "default" for plan in plans):
        return [plan.feed_forward == "experts" for plan in plans]
    types = fields.per_layer("mlp_layer_types", count)
    if types is not None:
        return [kind in ("sparse", "moe", "hash_moe") for kind in types]
    frequency = fields.values.get("moe_layer_freq")
    if isinstance(frequency, list | tuple):
        return [bool(entry) for entry in fields.per_layer("moe_layer_freq", count) or ()]
    listed = _listed(fields)
    if listed is not None:
        return [index in listed for index in range(count)]
    moe = fields.part("moe")
    source = moe if moe is not None else fields
    dense = 0
    for key in ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"):
        dense = max(dense, source.optional_integer(key, least=0) or 0)
    every = 1
    for key in (
        "decoder_sparse_step",
        "interleave_moe_layer_step",
        "moe_layer_interval",
        "moe_layer_freq",
        "route_every_n",
    ):
        every = source.optional_integer(key) or every
    last = source.optional_integer("moe_layer_end_index", least=-1)
    if last is None or last < 0:
        last = count - 1
    only_dense = frozenset(fields.integers("mlp_only_layers") or ())
    if "expert_layer_period" in fields:
        period, offset = (
            fields.integer("expert_layer_period"),
            fields.optional_integer("expert_layer_offset", least=0) or 0,
        )
        return [index % period == offset for index in range(count)]
    if "moe_layer_freq" in source and "first_k_dense_replace" in source:  # DeepSeek counts from layer 0
        return [index >= dense and index % every == 0 for index in range(count)]
    return [dense <= index <= last and (index + 1) % every == 0 and index not in only_dense for index in range(count)]


def _listed(fields: Fields) -> frozenset[int] | None:
    layers = fields.values.get("moe_layers")
    if isinstance(layers, list | tuple) and layers:
        return frozenset(fields.integers("moe_layers") or ())
    enumerated = fields.values.get("moe_layers_enum")  # Step: "4,5,6"
    if isinstance(enumerated, str):
        try:
            return frozenset(int(part) for part in enumerated.split(","))
        except ValueError:
            raise fields.error(
                "moe_layers_enum cannot be read", "moe_layers_enum", "numbers with commas", enumerated
            ) from None
    return None


def dense_width(fields: Fields, family: Family, hidden: int, index: int) -> int | None:
    """Width of a dense layer's MLP."""
    if family.special == "mpt":
        return round(fields.number("expansion_ratio", 4.0) * hidden)
    if family.special == "qwen":  # the first Qwen counts both halves of its gated MLP
        return fields.integer("intermediate_size") // 2
    if family.special == "llama4":
        return fields.optional_integer("intermediate_size_mlp") or fields.integer("intermediate_size")
    if family.special == "lfm2" and fields.flag("block_auto_adjust_ff_dim", True):
        width = fields.integer("block_ff_dim") if "block_ff_dim" in fields else fields.integer("intermediate_size")
        width = int(fields.number("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
        multiple = fields.optional_integer("block_multiple_of") or 256
        return multiple * -(-width // multiple)
    given = fields.layer_integer("intermediate_size", index)
    return family.ffn_factor * hidden if given is None and family.ffn_factor is not None else given


def dense_block(
    fields: Fields,
    family: Family,
    hidden: int,
    width: int,
    *,
    prefix: str = "mlp",
    role: WeightRole = "mlp",
    inputs: int | None = None,
    count: int = 1,
) -> list[Weight]:
    """One MLP: gate, up and down, or up and down."""
    bias = mlp_bias(fields, family)
    source = inputs or hidden
    weights = matrix(f"{prefix}.gate_proj", role, source, width, bias=bias, count=count) if family.gated else []
    weights += matrix(f"{prefix}.up_proj", role, source, width, bias=bias, count=count)
    weights += matrix(f"{prefix}.down_proj", role, width, source, bias=bias, count=count)
    return weights


def mlp_bias(fields: Fields, family: Family) -> bool:
    """Whether MLPs have biases."""
    for key in family.mlp_bias_keys:
        given = fields.optional_flag(key)
        if given is not None:
            return given
    return family.mlp_bias


def expert_block(fields: Fields, family: Family, experts: Experts, hidden: int) -> list[Weight]:
    """Router, routed experts and shared experts of one layer."""
    biased = family.special == "gpt_oss"
    weights = matrix("mlp.gate", "router", hidden, experts.count, bias=biased)
    width = experts.latent or hidden
    if experts.latent:
        weights += matrix("mlp.fc1_latent_proj", "shared_expert", hidden, experts.latent)
        weights += matrix("mlp.fc2_latent_proj", "shared_expert", experts.latent, hidden)
    names = ("gate_proj", "up_proj") if family.gated else ("up_proj",)
    for name in names:
        weights += matrix(f"mlp.experts.0.{name}", "expert", width, experts.width, bias=biased, count=experts.count)
    weights += matrix("mlp.experts.0.down_proj", "expert", experts.width, width, bias=biased, count=experts.count)
    if experts.shared_width:
        weights += dense_block(
            fields, family, hidden, experts.shared_width, prefix="mlp.shared_experts", role="shared_expert"
        )
        if family.shared_gate:
            weights += matrix("mlp.shared_expert_gate", "router", hidden, 1)
    if family.special == "gemma4":
        weights.append(vector("mlp.router.scale", "router", hidden + experts.count))
    return weights
