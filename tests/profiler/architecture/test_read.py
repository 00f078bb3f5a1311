"""What is read, under which names, and what is refused with which words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from profiler.architecture import read_architecture
from profiler.errors import ArchitectureError
from tests.profiler.architecture.configs import ATTENTION, EXPERTS, MLP, TABLE, TINY


def refused(config: dict[str, Any], **arguments: Any) -> ArchitectureError:
    with pytest.raises(ArchitectureError) as caught:
        read_architecture(config, name="probe", **arguments)
    return caught.value


def test_dense_count_by_hand() -> None:
    """A plain decoder is layers x (attention + MLP + two norms), a last norm and two tables."""
    found = read_architecture(TINY, name="tiny")
    assert found.parameters == 4 * (ATTENTION + MLP + 2 * 64) + 64 + 2 * TABLE
    assert found.embedding_parameters == TABLE


def test_tied_table_counts_once_and_is_read_as_head() -> None:
    """A tied table is one table in memory, and is read once a step as the output head."""
    untied, tied = (read_architecture(TINY | {"tie_word_embeddings": flag}, name="t") for flag in (False, True))
    assert untied.parameters - tied.parameters == TABLE
    assert untied.decode_weight_bytes(1.0) == tied.decode_weight_bytes(1.0)
    assert untied.flops_per_token(0.0) == tied.flops_per_token(0.0)


def test_old_names_mean_the_same() -> None:
    """n_embd, n_layer, n_head, ... describe the same model as today's names."""
    old = {
        "model_type": "llama", "n_embd": 64, "n_layer": 4, "n_head": 4, "num_kv_heads": 2, "n_inner": 128,
        "vocab_size": 1000, "n_positions": 4096,
    }  # fmt: skip
    ours, theirs = read_architecture(old, name="o"), read_architecture(TINY, name="t")
    assert (ours.parameters, ours.kv_bytes_per_token()) == (theirs.parameters, theirs.kv_bytes_per_token())
    assert ours.max_position_embeddings == 4096


def test_mistral_params() -> None:
    """params.json without a model_type is Mistral's; the missing longest context is said, not made up."""
    config = {"dim": 64, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 128, "vocab_size": 1000}
    found = read_architecture(config, name="m")
    assert found.parameters == read_architecture(TINY, name="t").parameters
    assert found.max_position_embeddings is None
    assert any("longest context" in note for note in found.notes)


def test_params_without_a_width_are_refused() -> None:
    """ffn_dim_multiplier and multiple_of do not give the MLP's width: vendors apply them differently."""
    config = {"dim": 64, "n_layers": 4, "n_heads": 4, "vocab_size": 1000, "ffn_dim_multiplier": 1.3, "multiple_of": 256}
    error = refused(config)
    assert error.field == "intermediate_size"
    assert "ffn_dim_multiplier" in str(error)


def test_text_config_is_the_model_and_its_tie_flag_counts() -> None:
    """A wrapper's text_config is read; the text model's own tie flag wins over the wrapper's, and that is noted."""
    inner = TINY | {"tie_word_embeddings": True}
    found = read_architecture({"model_type": "llava", "tie_word_embeddings": False, "text_config": inner}, name="v")
    assert found.is_multimodal
    assert found.tie_word_embeddings
    assert any("tie_word_embeddings" in note for note in found.notes)


def test_unknown_tower_is_noted_not_guessed() -> None:
    """An image tower whose layout is not known is left out of the count and named."""
    config = {"model_type": "llava", "text_config": TINY, "vision_config": {"model_type": "newvit", "hidden_size": 64}}
    found = read_architecture(config, name="v")
    assert found.vision_parameters == 0
    assert any("newvit" in note for note in found.notes)


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
)
def test_a_missing_field_is_named(field: str) -> None:
    """A config that lacks a size is refused with that field's name."""
    error = refused({key: value for key, value in TINY.items() if key != field})
    assert error.field == field
    assert field in str(error)
    assert "probe" in str(error)


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "num_key_value_heads", "head_dim", "vocab_size"])
@pytest.mark.parametrize("value", [-1, 10**12, "32", 1.5, True, math.nan, math.inf, {}], ids=repr)
def test_odd_values_are_refused(field: str, value: object) -> None:
    """Negative, absurd, textual, fractional and infinite sizes are refused with what was expected and what came."""
    error = refused(TINY | {field: value})
    assert error.field == field
    assert error.expected is not None
    assert repr(value) in str(error.got)


def test_head_size_needs_a_divisor() -> None:
    """Without head_dim, a hidden size that the heads do not divide is refused, not rounded."""
    error = refused(TINY | {"hidden_size": 65})
    assert error.field == "head_dim"
    assert "65 / 4" in str(error)


def test_head_dim_need_not_be_hidden_over_heads() -> None:
    """head_dim given explicitly holds, even where heads x head_dim is not the hidden size."""
    found = read_architecture(TINY | {"head_dim": 32}, name="t")
    assert found.kv_bytes_per_token() == 4 * 2 * 2 * 32 * 2


def test_kv_heads_must_divide() -> None:
    """KV heads that do not divide the query heads are refused."""
    assert refused(TINY | {"num_key_value_heads": 3}).field == "num_key_value_heads"


def test_twins_must_agree() -> None:
    """Two names of one size with two values are a contradiction, which is told."""
    error = refused(TINY | {"n_head": 8})
    assert "contradict" in str(error)
    assert error.field == "n_head"


@pytest.mark.parametrize("model_type", ["t5", "bart", "whisper"])
def test_encoder_decoders_are_refused(model_type: str) -> None:
    """vLLM speculates on decoders only: encoder-decoders are refused by name."""
    assert "encoder-decoder" in str(refused(TINY | {"model_type": model_type}))


def test_unknown_families_are_refused() -> None:
    """A model_type without a row is refused, however much it looks like Llama."""
    error = refused(TINY | {"model_type": "brandnew", "architectures": ["BrandNewForCausalLM"]})
    assert error.field == "model_type"
    assert "brandnew" in str(error)


def test_class_name_stands_in_for_model_type() -> None:
    """Without model_type the class in `architectures` tells the family."""
    found = read_architecture({key: value for key, value in TINY.items() if key != "model_type"}, name="t")
    assert found.parameters == read_architecture(TINY, name="t").parameters


def test_neither_family_nor_class() -> None:
    """A config that names neither model_type nor class is refused for that."""
    bare = {key: value for key, value in TINY.items() if key not in ("model_type", "architectures")}
    assert refused(bare).field == "model_type"


@pytest.mark.parametrize("config", [[], "text", None, 3], ids=repr)
def test_a_config_that_is_no_object(config: Any) -> None:
    """Anything but an object is refused with its type."""
    assert "object" in str(refused(config))


def test_experts_replace_the_mlp() -> None:
    """With experts in every layer, intermediate_size adds nothing."""
    found = read_architecture(EXPERTS, name="e")
    wider = read_architecture(EXPERTS | {"intermediate_size": 4096}, name="e")
    assert found.parameters == wider.parameters
    routed = 4 * 16 * 3 * 64 * 32
    norms = 2 * 16  # over queries and keys of each layer
    assert found.parameters == routed + 4 * (ATTENTION + 64 * 16 + 2 * 64 + norms) + 64 + 2 * TABLE
    assert found.active_parameters == found.parameters - routed * 14 // 16


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({"mlp_only_layers": [0, 3]}, 2),
        ({"decoder_sparse_step": 2}, 2),
        ({"first_k_dense_replace": 1}, 3),
        ({"moe_layer_freq": [0, 1, 1, 0]}, 2),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}, 3),
        ({"num_dense_layers": 3}, 1),
        ({"moe_layers_enum": "1,2"}, 2),
    ],
)
def test_which_layers_have_experts(changes: dict[str, Any], layers: int) -> None:
    """Dense layers among the experts are found in each of the ways in which configs tell them."""
    found = read_architecture(EXPERTS | changes, name="e")
    routed = sum(group.parameters for group in found.weights if group.role == "expert")
    assert routed == layers * 16 * 3 * 64 * 32


def test_experts_without_a_number_a_token() -> None:
    """How many experts a token passes must be said, and cannot exceed their number."""
    assert refused({k: v for k, v in EXPERTS.items() if k != "num_experts_per_tok"}).field == "num_experts_per_tok"
    assert refused(EXPERTS | {"num_experts_per_tok": 17}).field == "num_experts_per_tok"


def test_null_experts_are_a_dense_model() -> None:
    """num_experts null or 0 in a family with experts is its dense sibling."""
    dense = read_architecture(EXPERTS | {"num_experts": None}, name="e")
    assert dense.experts is None
    assert dense.active_parameters == dense.parameters


@pytest.mark.parametrize(
    ("scaling", "longest"),
    [
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16384),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}, 4096),
        ({"type": "linear", "factor": 2.0}, 8192),
        ({"rope_type": "longrope", "factor": 32.0}, 4096),
    ],
)
def test_longest_context(scaling: dict[str, Any], longest: int) -> None:
    """YaRN stretches the original length and linear scaling the stated one.

    Llama3 and longrope state the end result.
    """
    assert read_architecture(TINY | {"rope_scaling": scaling}, name="t").max_position_embeddings == longest
