"""Drafter heads look like small targets: they must be told apart, and weigh what they load."""

from __future__ import annotations

from typing import Any

import pytest

from profiler.architecture import read_architecture
from profiler.errors import ArchitectureError
from tests.profiler.architecture.configs import TINY

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
ONE_LAYER = LLAMA_8B | {"num_hidden_layers": 1, "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 2048}
EAGLE3 = ONE_LAYER | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000}
MLP = 3 * 4096 * 14336
ATTENTION = 2 * 4096 * 4096 + 2 * 4096 * 1024


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (ONE_LAYER, "eagle"),
        (ONE_LAYER | {"architectures": ["EagleLlamaForCausalLM"]}, "eagle"),
        ({"model_type": "eagle", "model": ONE_LAYER}, "eagle"),
        (ONE_LAYER | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}, "eagle"),
        (EAGLE3, "eagle3"),
        (ONE_LAYER | {"draft_vocab_size": 32000}, "eagle3"),
        (ONE_LAYER | {"architectures": ["PEagleDraftModel"], "draft_vocab_size": 32000}, "peagle"),
        (ONE_LAYER | {"model_type": "qwen3", "architectures": ["DFlashDraftModel"]}, "dflash"),
        (ONE_LAYER | {"model_type": "qwen3", "architectures": ["DSparkDraftModel"], "block_size": 7}, "dspark"),
        (ONE_LAYER | {"model_type": "qwen3", "num_hidden_layers": 5, "dflash_config": {"block_size": 16}}, "dflash"),
    ],
)
def test_heads_are_told_from_targets(config: dict[str, Any], kind: str) -> None:
    """A head is known by its class, its own fields, or by being one plain layer."""
    found = read_architecture(config, name="head")
    assert found.is_drafter_head
    assert found.head_kind == kind


def test_targets_are_no_heads() -> None:
    """A small model of several layers is a target."""
    assert not read_architecture(TINY, name="t").is_drafter_head
    assert not read_architecture(LLAMA_8B, name="t").is_drafter_head


def test_one_plain_layer_says_how_it_was_read() -> None:
    """A one-layer Llama config without any mark is read as an EAGLE head, and says so."""
    assert any("EAGLE head" in note for note in read_architecture(ONE_LAYER, name="h").notes)


def test_eagle_borrows_both_tables() -> None:
    """EAGLE-1 loads one layer and a 2h x h projection; it reads the target's output head in each pass."""
    found = read_architecture(ONE_LAYER, name="h")
    assert found.parameters == ATTENTION + MLP + 2 * 4096 * 4096 + 4096
    assert found.embedding_parameters == 0
    assert found.decode_weight_bytes(1.0) == found.weight_bytes + 2 * 128256 * 4096
    assert found.kv_bytes_per_token() == 4096


def test_eagle3_has_its_own_output_head() -> None:
    """EAGLE-3.

    Keys, queries and values read two states, fc joins three features, the output head has the draft vocabulary.
    """
    found = read_architecture(EAGLE3, name="h")
    assert found.parameters == ATTENTION + 4096 * (4096 + 2048) + MLP + 3 * 4096 * 4096 + 32000 * 4096 + 4 * 4096
    assert found.decode_weight_bytes(1.0) == found.weight_bytes
    assert found.draft_vocab_size == 32000
    assert found.max_position_embeddings == 2048


def test_tied_head_still_has_its_output_head() -> None:
    """tie_word_embeddings in an EAGLE-3 config does not tie: the draft vocabulary differs from the table's."""
    tied = read_architecture(EAGLE3 | {"tie_word_embeddings": True}, name="h")
    assert tied.parameters == read_architecture(EAGLE3, name="h").parameters


def test_speculators_format() -> None:
    """The speculators library nests the layer and names its default number of draft tokens."""
    config = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 32000,
        "transformer_layer_config": {k: v for k, v in ONE_LAYER.items() if k != "architectures"},
        "speculators_config": {"proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}]},
    }  # fmt: skip
    found = read_architecture(config, name="h")
    assert found.parameters == read_architecture(EAGLE3, name="h").parameters
    assert found.draft_tokens == 5


def test_block_drafters() -> None:
    """DFlash joins as many target layers as it names and borrows both tables; block_size may sit in dflash_config."""
    config = ONE_LAYER | {
        "model_type": "qwen3", "architectures": ["DFlashDraftModel"], "num_hidden_layers": 2, "num_target_layers": 36,
        "dflash_config": {"target_layer_ids": [1, 9, 17, 25, 33], "block_size": 16},
    }  # fmt: skip
    found = read_architecture(config, name="h")
    layer = ATTENTION + MLP + 2 * 4096 + 2 * 128
    assert found.parameters == 2 * layer + 5 * 4096 * 4096 + 2 * 4096
    assert (found.draft_tokens, found.target_layers) == (15, 36)


def test_unpublished_projector_is_noted() -> None:
    """A projector whose layout is not published is named, not guessed."""
    config = ONE_LAYER | {
        "model_type": "qwen3", "architectures": ["DominoDraftModel"], "dflash_config": {"projector_type": "domino"},
    }  # fmt: skip
    assert any("domino" in note for note in read_architecture(config, name="h").notes)


MEDUSA = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "lmsys/vicuna-7b-v1.3"}


def test_medusa_without_its_target_is_refused() -> None:
    """Medusa configs leave the sizes to the target: refused with the target's name, not read as something else."""
    with pytest.raises(ArchitectureError, match=r"lmsys/vicuna-7b-v1\.3") as caught:
        read_architecture(MEDUSA, name="medusa")
    assert caught.value.field == "hidden_size"


def test_medusa_beside_its_target() -> None:
    """With the target at hand: each head is a residual block and an output head of the target's vocabulary."""
    target = read_architecture(LLAMA_8B, name="t")
    found = read_architecture(MEDUSA, name="medusa", target=target)
    assert found.head_kind == "medusa"
    assert found.draft_tokens == 2
    assert found.parameters == 2 * (4096 * 4096 + 4096 + 4096 * 128256)
    assert found.kv_bytes_per_token() == 0


@pytest.mark.parametrize("field", ["hidden_size", "intermediate_size", "vocab_size", "num_attention_heads"])
def test_a_head_that_lacks_a_field(field: str) -> None:
    """A head's config is refused with the field that it lacks."""
    with pytest.raises(ArchitectureError) as caught:
        read_architecture({key: value for key, value in EAGLE3.items() if key != field}, name="h")
    assert caught.value.field == field


def test_mtp_module_alone_is_refused() -> None:
    """An MTP module's own config gives no sizes: it is read with its target."""
    with pytest.raises(ArchitectureError, match="target"):
        read_architecture(ONE_LAYER | {"architectures": ["DeepSeekMTPModel"]}, name="mtp")


def test_promised_mtp_that_vllm_does_not_read() -> None:
    """use_mtp without the field that vLLM reads promises nothing, and says so."""
    found = read_architecture(TINY | {"use_mtp": True, "num_mtp_modules": 3}, name="t")
    assert found.mtp_layers == 0
    assert any("MTP" in note for note in found.notes)


def test_a_tower_makes_no_head() -> None:
    """An image model whose class is called Eagle is not taken for a head."""
    config = {
        "model_type": "eagle_2_5_vl", "architectures": ["Eagle2_5_VLForConditionalGeneration"], "text_config": TINY,
        "vision_config": {"model_type": "newvit"},
    }  # fmt: skip
    assert not read_architecture(config, name="v").is_drafter_head


def test_mtp_module_left_out_of_the_quantisation() -> None:
    """A checkpoint that keeps its MTP module in 16 bit says so in its exclusions."""
    config = TINY | {"num_nextn_predict_layers": 1}
    block = {"quant_method": "modelopt", "quant_algo": "FP8"}
    whole = read_architecture(config | {"quantization_config": block}, name="t").mtp_head
    kept = read_architecture(config | {"quantization_config": block | {"ignore": ["mtp*"]}}, name="t").mtp_head
    assert whole is not None
    assert kept is not None
    assert kept.weight_bytes == 2 * kept.parameters > whole.weight_bytes
