"""Weight bytes under each quantisation, by hand, and what stays in 16 bit."""

from __future__ import annotations

from typing import Any

import pytest

from profiler.architecture import Architecture, read_architecture
from profiler.errors import ArchitectureError
from tests.profiler.architecture.configs import ATTENTION, EXPERTS, MLP, TABLE, TINY

MATRICES = 4 * (ATTENTION + MLP)  # what a method quantises in TINY
REST = 2 * (2 * TABLE + 64 + 4 * 2 * 64)  # bytes of both tables and the norms


def read(quantization_config: dict[str, Any], base: dict[str, Any] = TINY, **changes: Any) -> Architecture:
    return read_architecture(base | {"quantization_config": quantization_config} | changes, name="probe")


@pytest.mark.parametrize(
    ("config", "bytes_per_element", "compute"),
    [
        ({"quant_method": "fp8", "weight_block_size": [32, 32]}, 1 + 4 / 1024, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True}, 0.5 + (2 + 0.5) / 32, "bf16"),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 32, "zero_point": False}, 0.5 + 2 / 32, "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5 + 4 / 64, "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5 + 1 / 16, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, 1 + 1 / 32, "fp8"),
    ],
    ids=lambda value: str(value.get("quant_method")) if isinstance(value, dict) else "",
)
def test_bytes_by_hand(config: dict[str, Any], bytes_per_element: float, compute: str) -> None:
    """Elements x bits, plus the scales of each group or block; tables and norms in 16 bit."""
    found = read(config)
    assert found.weight_bytes == pytest.approx(MATRICES * bytes_per_element + REST, abs=1)
    assert found.compute_dtype == compute
    assert found.parameters == read_architecture(TINY, name="t").parameters


def test_gptq_carries_an_index_of_its_inputs() -> None:
    """GPTQ keeps scales, zero points and four bytes an input of each matrix."""
    found = read({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True})
    inputs = 4 * (3 * 64 + 64 + 2 * 64 + 128)  # q, k, v, o, gate, up, down
    assert found.weight_bytes == pytest.approx(MATRICES * (0.5 + 2.5 / 32) + 4 * inputs + REST, abs=1)


def test_gptq_group_of_a_row() -> None:
    """A group size of -1 is a whole row."""
    rows = read({"quant_method": "gptq", "bits": 4, "group_size": -1})
    groups = read({"quant_method": "gptq", "bits": 4, "group_size": 32})
    assert rows.weight_bytes < groups.weight_bytes


@pytest.mark.parametrize(
    "entry",
    ["self_attn", "model.layers.*.self_attn", "re:.*self_attn.*", "language_model.model.layers.*.self_attn*"],
)
def test_excluded_modules_stay_16_bit(entry: str) -> None:
    """Names, globs and regular expressions exclude modules, behind whatever wrapper they are written."""
    found = read({"quant_method": "fp8", "weight_block_size": [32, 32], "modules_to_not_convert": [entry, "lm_head"]})
    quantised = 4 * MLP
    assert found.weight_bytes == pytest.approx(quantised * (1 + 4 / 1024) + 2 * 4 * ATTENTION + REST, abs=1)


def test_one_layer_excluded() -> None:
    """An entry with a layer's number holds for that layer alone, also under the fused name of its module."""
    block = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    whole = read(block).weight_bytes
    one = read(block | {"modules_to_not_convert": ["model.layers.1.mlp"]}).weight_bytes
    fused = read(block | {"modules_to_not_convert": ["model.layers.1.mlp.gate_up_proj"]}).weight_bytes
    assert one - whole == pytest.approx(MLP * (1 - 4 / 1024), abs=1)
    assert fused - whole == pytest.approx(2 / 3 * MLP * (1 - 4 / 1024), abs=1)


def test_a_short_name_is_no_prefix() -> None:
    """Excluding the router "gate" leaves gate_proj quantised."""
    block = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    assert read(block | {"modules_to_not_convert": ["gate"]}).weight_bytes == read(block).weight_bytes


def test_mxfp4_is_for_experts_only() -> None:
    """mxfp4 stores experts in 4 bit with a byte per 32; attention, router and tables stay 16 bit."""
    found = read({"quant_method": "mxfp4"}, EXPERTS)
    plain = read_architecture(EXPERTS, name="e")
    routed = 4 * 16 * 3 * 64 * 32
    assert found.weight_bytes == pytest.approx(plain.weight_bytes - 2 * routed + routed * (0.5 + 1 / 32), abs=1)
    assert found.compute_dtype == "bf16"


def test_compressed_tensors_groups() -> None:
    """Targets and ignores of compressed-tensors hold; symmetric int4 groups have 16-bit scales and no zero points."""
    weights = {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group", "symmetric": True}
    config = {
        "quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}},
    }  # fmt: skip
    found = read(config)
    assert found.weight_bytes == pytest.approx(4 * MLP * (0.5 + 2 / 32) + 2 * 4 * ATTENTION + REST, abs=1)
    assert found.compute_dtype == "bf16"


def test_modelopt_mixed_precision() -> None:
    """A table of single modules gives each its own scheme; what it does not name stays 16 bit."""
    layers = {f"model.layers.{i}.mlp.{n}_proj": {"quant_algo": "FP8"} for i in range(4) for n in ("gate", "up", "down")}
    layers |= {"lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}
    found = read({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    expected = 4 * MLP + 2 * 4 * ATTENTION + REST - 2 * TABLE + TABLE * (0.5 + 1 / 16)
    assert found.weight_bytes == pytest.approx(expected, abs=100)


def test_hf_quant_config_beside() -> None:
    """What config.json does not say, hf_quant_config.json does.

    Without it the weights would seem 3.5 times as large.
    """
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    found = read_architecture(TINY, name="t", hf_quant_config=beside)
    assert found.quantization == "modelopt_fp4"
    assert found.kv_cache_quantization == "fp8"
    assert found.weight_bytes == pytest.approx(MATRICES * (0.5 + 1 / 16) + REST, abs=1)
    assert found.kv_bytes_per_token() == 2 * found.kv_bytes_per_token("fp8")


def test_quantization_inside_text_config() -> None:
    """A wrapper's quantization_config may sit in its text_config."""
    inner = TINY | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32]}}
    assert read_architecture({"model_type": "llava", "text_config": inner}, name="v").quantization == "fp8"


def test_mistral_quantization() -> None:
    """params.json says fp8 in words of its own."""
    config = {
        "dim": 64, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 128, "vocab_size": 1000,
        "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"},
    }  # fmt: skip
    assert read_architecture(config, name="m").quantization == "fp8"


def test_missing_quant_method_is_noted() -> None:
    """ModelOpt's older exports name no method: read by their algorithm, and said, since vLLM overlooks them."""
    found = read({"quant_algo": "FP8", "ignore": ["lm_head"]})
    assert found.quantization == "modelopt"
    assert any("quant_method" in note for note in found.notes)


def test_engine_argument_quantises_while_loading() -> None:
    """quantization="fp8" on a 16-bit checkpoint halves its matrices and runs them at the 8-bit rate."""
    found = read_architecture(TINY, name="t", quantization="fp8")
    assert found.weight_bytes == pytest.approx(MATRICES + REST, abs=4 * 4 * 7)
    assert found.matmul_dtype_bytes == 1


def test_engine_argument_may_repeat_the_checkpoint() -> None:
    """The argument may name the checkpoint's own method or vLLM's kernel for it, not another."""
    config = TINY | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}}
    assert read_architecture(config, name="t", quantization="awq_marlin").quantization == "awq"
    with pytest.raises(ArchitectureError, match="quantised already"):
        read_architecture(config, name="t", quantization="fp8")


def test_usual_groups_are_said() -> None:
    """quantization="awq" without the checkpoint's config is read in groups of 128, and the note says so."""
    found = read_architecture(TINY, name="t", quantization="awq")
    assert any("groups of 128" in note for note in found.notes)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"quant_method": "novel4"}, "quant_method"),
        ({"bits": 4}, "quant_method"),
        ({"quant_method": "gptq", "group_size": 128}, "bits"),
        ({"quant_method": "awq", "bits": 4}, "group_size"),
        ({"quant_method": "gptq", "bits": "4", "group_size": 128}, "bits"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "modelopt", "quant_algo": "FP5"}, "quant_algo"),
        ({"quant_method": "compressed-tensors"}, "config_groups"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "config_groups"),
    ],
    ids=str,
)
def test_what_cannot_be_sized(config: dict[str, Any], field: str) -> None:
    """Unknown methods and configs that do not say how many bits are refused with the field."""
    with pytest.raises(ArchitectureError) as caught:
        read(config)
    assert caught.value.field == f"quantization_config.{field}"


@pytest.mark.parametrize("argument", ["gguf", "nonsense"])
def test_arguments_that_cannot_be_sized(argument: str) -> None:
    """An engine argument that says nothing about bytes is refused with those that do."""
    with pytest.raises(ArchitectureError) as caught:
        read_architecture(TINY, name="t", quantization=argument)
    assert caught.value.field == "quantization"
    assert "fp8" in str(caught.value)
