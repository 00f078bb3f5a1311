"""Which quantisation does a checkpoint use? From its config, the file beside it and the engine's argument.

Follows vLLM's own order (vllm/config/model.py and model_executor/layers/quantization): quantization_config in the
config or its text_config, `quantization` in Mistral's params.json, ModelOpt's hf_quant_config.json beside it, and at
last the engine's `quantization=` argument, which may name the checkpoint's own method or quantise a 16-bit one while
loading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from profiler.architecture.exclusions import ModuleNames
from profiler.architecture.fields import Fields
from profiler.architecture.quantization import Quantization, Scheme
from profiler.errors import ArchitectureError

FP8: Final = Scheme(8, activations=True)  # one scale a tensor
FP8_ROWS: Final = Scheme(8, group=0, activations=True)
FP8_BLOCKS: Final = Scheme(8, block=128, activations=True)
INT8_ROWS: Final = Scheme(8, group=0, activations=True)
MXFP4: Final = Scheme(4, group=32, scale_bytes=1)  # OCP microscaling 1.0: 32 elements share an 8-bit exponent
MXFP8: Final = Scheme(8, group=32, scale_bytes=1, activations=True)
NVFP4: Final = Scheme(4, group=16, scale_bytes=1, activations=True)  # 16 elements share an fp8 scale
NF4: Final = Scheme(4, group=64, scale_bytes=4)  # bitsandbytes: absmax in float32 per 64, as vLLM unpacks it

# What vLLM can do to a 16-bit checkpoint while loading it (engine argument `quantization`).
_ONLINE: Final[dict[str, tuple[Scheme, bool]]] = {
    "fp8": (FP8, False), "fp8_per_tensor": (FP8, False), "ptpc_fp8": (FP8_ROWS, False), "fp8_per_block": (FP8_BLOCKS,
    False),
    "mxfp8": (MXFP8, False), "bitsandbytes": (NF4, False), "experts_int8": (Scheme(8, group=0), True),
    "int8_per_channel": (INT8_ROWS, False), "mxfp4": (MXFP4, True),
}  # fmt: skip
# Methods whose weights must come quantised; without their config the usual group of 128 is taken, and said.
_USUAL_GROUPS: Final = {"awq": Scheme(4, 128, 2, 4), "gptq": Scheme(4, 128, 2, 4, row_index_bytes=4)}
# Kernels that vLLM picks by itself; each serves the method on the right.
_KERNELS: Final = {
    "awq_marlin": "awq", "gptq_marlin": "gptq", "gptq_bitblas": "gptq", "modelopt_fp4": "modelopt",
    "modelopt_mxfp8": "modelopt",
    "modelopt_mixed": "modelopt", "fp_quant": "compressed-tensors", "gpt_oss_mxfp4": "mxfp4", "inc": "auto-round",
}  # fmt: skip
_MODELOPT: Final = {
    "FP8": FP8, "FP8_PER_CHANNEL_PER_TOKEN": FP8_ROWS, "FP8_PB_WO": Scheme(8, block=128), "NVFP4": NVFP4,
    "W4A16_NVFP4": Scheme(4, group=16, scale_bytes=1), "MXFP8": MXFP8, "MXFP4": MXFP4, "W4A16_AWQ": Scheme(4, 128, 2),
    "W4A8_AWQ": Scheme(4, 128, 2, activations=True), "NVFP4_AWQ": NVFP4, "W4A8_NVFP4_FP8": NVFP4,
}  # fmt: skip
_EXCLUDED: Final = (
    "modules_to_not_convert",
    "ignore",
    "ignored_layers",
    "exclude_modules",
    "exclude",
    "llm_int8_skip_modules",
)


def read_quantization(
    top: Fields, text: Fields, *, argument: str | None, hf_quant_config: Mapping[str, Any] | None
) -> Quantization | None:
    """The quantisation of a model, None for 16 bit; raises ArchitectureError for what is not known."""
    given = top.part("quantization_config") or text.part("quantization_config") or top.part("compression_config")
    found: Quantization | None = None
    if given is not None and given.values:
        found = _from_config(given)
    elif (mistral := top.part("quantization")) is not None:
        found = _from_mistral(mistral)
    if hf_quant_config is not None and (found is None or found.name == "modelopt"):
        found = _from_modelopt_file(hf_quant_config, top.name)
    if found is not None and text.text("expert_dtype") == "fp4":
        found = Quantization(found.name, found.default, found.named, found.excluded, MXFP4, kv_cache=found.kv_cache)
    return _with_argument(found, argument, top)


def _with_argument(found: Quantization | None, argument: str | None, top: Fields) -> Quantization | None:
    if argument is None or argument.lower() in ("none", "auto"):
        return found
    name = argument.lower()
    if found is not None:
        if (
            name in (found.name, "modelopt" if found.name.startswith("modelopt") else "")
            or _KERNELS.get(name) == found.name
        ):
            return found
        raise ArchitectureError(
            f"{top.name} is quantised already", expected=f"quantization left out or {found.name}", got=argument,
            field="quantization",
        )  # fmt: skip
    if name in _ONLINE:
        scheme, experts_only = _ONLINE[name]
        return Quantization(name, scheme, experts=scheme if experts_only else None, experts_only=experts_only)
    name = _KERNELS.get(name, name)
    if name in _USUAL_GROUPS:
        note = f"{name} without a quantization_config: 4 bits in groups of 128 taken, as its published checkpoints have"
        return Quantization(name, _USUAL_GROUPS[name], notes=(note,))
    known = sorted({*_ONLINE, *_USUAL_GROUPS})
    raise ArchitectureError(
        "The quantisation cannot be sized from this config alone", expected=", ".join(known), got=argument,
        remedy="give the quantised checkpoint's own config.json", field="quantization",
    )  # fmt: skip


def _from_config(given: Fields) -> Quantization:
    method = (given.text("quant_method") or "").lower()
    if not method and given.values.get("quant_algo"):  # ModelOpt's older exports name no method; vLLM overlooks them
        return _modelopt(given, ("quantization_config names no quant_method: read as ModelOpt by its quant_algo",))
    method = _KERNELS.get(method, method)
    if method in ("awq", "gptq", "auto-round", "auto_round"):
        return _grouped_integers(given, method)
    if method == "fp8":
        block = _block(given, "weight_block_size")
        scheme = Scheme(8, block=block, activations=True) if block else FP8
        return Quantization("fp8", scheme, excluded=_excluded(given))
    if method == "fbgemm_fp8":
        return Quantization(method, FP8_ROWS, excluded=_excluded(given))
    if method == "mxfp4":
        return Quantization(method, None, excluded=_excluded(given), experts=MXFP4, experts_only=True)
    if method == "bitsandbytes":
        eight = given.flag("load_in_8bit", False)
        return Quantization(method, Scheme(8, group=0) if eight else NF4, excluded=_excluded(given))
    if method in ("compressed-tensors", "compressed_tensors"):
        return _compressed_tensors(given)
    if method == "modelopt":
        return _modelopt(given)
    if method == "quark":
        return _quark(given)
    known = "awq, gptq, auto-round, fp8, fbgemm_fp8, mxfp4, bitsandbytes, compressed-tensors, modelopt, quark"
    raise given.error("The quantisation method is not known", "quant_method", known, method or "no quant_method")


def _excluded(given: Fields, *more: str) -> ModuleNames:
    entries: list[object] = list(more)
    for key in _EXCLUDED:
        entries += given.items(key) or ()
    return ModuleNames(entries)


def _grouped_integers(given: Fields, method: str) -> Quantization:
    key = next((k for k in ("bits", "w_bit", "wbits") if k in given), "bits")
    bits = given.integer(key, most=16)
    group = _group(given, "q_group_size" if "q_group_size" in given else "group_size")
    if method == "awq":
        return Quantization(
            "awq", Scheme(bits, group, 2, bits if given.flag("zero_point", True) else 0), excluded=_excluded(given)
        )
    negative: list[object] = []  # GPTQModel: "-:regex" leaves a module out
    dynamic = given.part("dynamic")
    if dynamic is not None:
        negative = [f"re:{key[2:]}" for key in dynamic.values if key.startswith("-:")]
    extra = given.part("extra_config")
    if extra is not None:  # AutoRound
        negative += [k for k, v in extra.values.items() if isinstance(v, Mapping) and v.get("bits", 0) >= 16]
    names = ModuleNames([*negative, *(entry for key in _EXCLUDED for entry in (given.items(key) or ()))])
    return Quantization(
        method.replace("_", "-"), Scheme(bits, group, 2, bits, row_index_bytes=4), excluded=names,
        head=given.flag("lm_head", False),
    )  # fmt: skip


def _group(given: Fields, key: str) -> int:
    """Inputs per scale; 0 stands for a whole row, which the formats write as -1."""
    size = given.optional_integer(key, least=-1)
    if size is None:
        raise given.missing(key, "the number of inputs that share a scale, -1 for a whole row")
    return max(size, 0)


def _block(given: Fields, key: str) -> int | None:
    """Side of the square that shares a scale, None where scales are not by squares."""
    sides = given.integers(key)
    if sides is None:
        return None
    if len(sides) != 2 or min(sides) < 1:
        raise given.error(f"{key} cannot be used", key, "two positive numbers", sides)
    return math.isqrt(sides[0] * sides[1])


def _weights_scheme(weights: Fields, activations: Fields | None) -> Scheme:
    """One entry of compressed-tensors' (or ModelOpt's) config_groups."""
    bits = weights.integer("num_bits", most=16)
    kind = weights.text("type") or "int"
    group = weights.optional_integer("group_size", least=-1)
    narrow = activations is not None and (activations.optional_integer("num_bits") or 16) <= 8
    strategy = weights.text("strategy")
    block = _block(weights, "block_structure") if strategy == "block" else None
    if block:
        return Scheme(bits, block=block, activations=narrow)
    if group and group > 0:
        scale = 1 if kind == "float" and bits == 4 else 2  # fp4 carries 8-bit scales, integers 16-bit ones
        zero = bits if kind == "int" and not weights.flag("symmetric", True) else 0
        return Scheme(bits, group, scale, zero, activations=narrow)
    return Scheme(bits, None if strategy == "tensor" else 0, 4, activations=narrow)


def _compressed_tensors(given: Fields) -> Quantization:
    groups = given.part("config_groups")
    if groups is None or not groups.values:
        raise given.missing("config_groups", "the groups of modules and their bits")
    default: Scheme | None = None
    named: list[tuple[ModuleNames, Scheme | None]] = []
    excluded = _excluded(given)
    for key in groups.values:
        group = groups.part(key)
        weights = None if group is None else group.part("weights")
        if group is None or weights is None:
            continue  # only activations or the cache are quantised by this group
        scheme = _weights_scheme(weights, group.part("input_activations"))
        targets = list(group.items("targets") or ("Linear",))
        others = [target for target in targets if target not in ("Linear", "MoEGMM", "FusedMoE")]
        if others:
            named.append((ModuleNames(others), scheme))
        if len(others) < len(targets):
            default = default or scheme
    if default is None and not named:
        raise given.error(
            "config_groups quantises no weights", "config_groups", "a group with weights", dict(groups.values)
        )
    if excluded:
        named.insert(0, (excluded, None))
    return Quantization("compressed-tensors", default, named, kv_cache=_kv_cache(given))


def _modelopt(given: Fields, notes: tuple[str, ...] = (), name: str = "modelopt") -> Quantization:
    excluded = _excluded(given)
    kv_cache = _kv_cache(given)
    algorithm = (given.text("quant_algo") or "").upper()
    if algorithm == "MIXED_PRECISION":
        layers = given.part("quantized_layers")
        if layers is None:
            raise given.missing("quantized_layers", "the scheme of each module of a mixed precision")
        schemes: dict[Scheme, list[str]] = {}
        for module in layers.values:
            part = Fields({"entry": layers.values[module]}, name=given.name, path=layers.path).part("entry")
            if part is not None:
                schemes.setdefault(_modelopt_scheme(part), []).append(module)
        named: list[tuple[ModuleNames, Scheme | None]] = [(ModuleNames(modules), s) for s, modules in schemes.items()]
        return Quantization(name, None, named, excluded, kv_cache=kv_cache, notes=notes)
    return Quantization(name, _modelopt_scheme(given), excluded=excluded, kv_cache=kv_cache, notes=notes)


def _modelopt_scheme(given: Fields) -> Scheme:
    algorithm = (given.text("quant_algo") or "").upper()
    if algorithm not in _MODELOPT:
        raise given.error(
            "The ModelOpt algorithm is not known", "quant_algo", ", ".join(_MODELOPT), algorithm or "no quant_algo"
        )
    scheme = _MODELOPT[algorithm]
    group = given.optional_integer("group_size", least=-1)
    if group and group > 0 and scheme.group:
        return Scheme(scheme.bits, group, scheme.scale_bytes, scheme.zero_bits, activations=scheme.activations)
    return scheme


def _from_modelopt_file(values: Mapping[str, Any], name: str) -> Quantization:
    if not isinstance(values, Mapping):
        raise ArchitectureError(
            "hf_quant_config.json cannot be used", expected="an object", got=repr(values)[:60], field="hf_quant_config"
        )
    part = Fields(values, name=name, path="hf_quant_config.").part("quantization")
    if part is None:
        raise ArchitectureError(
            "hf_quant_config.json says nothing", expected="an object quantization with quant_algo",
            got=", ".join(values) or "{}",
            field="hf_quant_config.quantization",
        )  # fmt: skip
    algorithm = (part.text("quant_algo") or "").upper()
    return _modelopt(part, name="modelopt_fp4" if algorithm.endswith("NVFP4") else "modelopt")


def _kv_cache(given: Fields) -> str | None:
    algorithm = given.values.get("kv_cache_quant_algo")
    scheme = given.values.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        algorithm = "FP8" if scheme.get("num_bits") == 8 and scheme.get("type", "float") == "float" else algorithm
    elif isinstance(scheme, str):
        algorithm = scheme
    return "fp8" if isinstance(algorithm, str) and algorithm.upper() == "FP8" else None


def _from_mistral(given: Fields) -> Quantization | None:
    form = given.text("qformat_weight")
    if form == "fp8_e4m3":
        return Quantization("fp8", FP8)
    if form is None and (config := given.part("config")) is not None:
        return _from_config(config)
    raise given.error("The quantisation is not known", "qformat_weight", "fp8_e4m3", form)


def _quark(given: Fields) -> Quantization:
    settings = given.part("global_quant_config")
    weight = None if settings is None else settings.part("weight")
    if settings is None or weight is None:
        raise given.missing("global_quant_config", "the weights' data type")
    kinds = {"fp8_e4m3": FP8, "int8": INT8_ROWS, "fp4": MXFP4, "int4": Scheme(4, 128, 2)}
    kind = weight.text("dtype") or ""
    if kind not in kinds:
        raise weight.error("The data type is not known", "dtype", ", ".join(kinds), kind)
    return Quantization("quark", kinds[kind], excluded=_excluded(given))
