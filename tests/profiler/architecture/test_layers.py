"""Layer kinds: which layers keep a cache, how much of it, and in which of a dozen ways configs say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profiler.architecture import Architecture, read_architecture
from profiler.errors import ArchitectureError
from tests.profiler.architecture.configs import TINY

LAYER = 2 * 2 * 16 * 2  # bytes per token and layer of TINY: keys and values, 2 heads of 16, 16 bit


def read(model_type: str = "llama", **changes: Any) -> Architecture:
    return read_architecture(TINY | {"model_type": model_type} | changes, name="probe")


@pytest.mark.parametrize(
    ("model_type", "changes", "full"),
    [
        ("qwen3", {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 64}, 2),
        ("gemma2", {"sliding_window": 64}, 2),
        ("cohere2", {"sliding_window": 64, "sliding_window_pattern": 4}, 1),
        ("exaone4", {"sliding_window": 64, "sliding_window_pattern": "LLLG"}, 1),
        ("mimo_v2_flash", {"hybrid_layer_pattern": [0, 1, 1, 1], "sliding_window": 64}, 1),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": False}, 4),
        ("qwen2", {"sliding_window": 64}, 4),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3}, 3),
        ("mistral", {"sliding_window": None}, 4),
        ("mistral", {"sliding_window": 4096}, 4),  # as wide as the longest context: no window
        ("mistral", {"sliding_window": [None, 64, 64, 64]}, 1),
    ],
)
def test_windows(model_type: str, changes: dict[str, Any], full: int) -> None:
    """Sliding layers keep their window only; the rest grow with the context."""
    found = read(model_type, **changes)
    assert found.kv_layers == full
    assert found.window_layers == 4 - full
    assert found.kv_bytes_per_token() == full * LAYER
    assert found.window == (None if full == 4 else 64)
    long = found.kv_cache_bytes(4096.0)
    assert long == full * LAYER * 4096 + (4 - full) * LAYER * 64
    assert found.kv_read_bytes(4096.0) == long


def test_all_layers_slide() -> None:
    """Where every layer slides.

    A token costs its bytes inside the window, and a long context no more than the window.
    """
    found = read("mistral", sliding_window=64)
    assert found.kv_layers == 0
    assert found.kv_bytes_per_token() == 4 * LAYER
    assert found.kv_cache_bytes(4000.0) == 4 * LAYER * 64


def test_chunked_attention_keeps_everything_and_reads_a_chunk() -> None:
    """vLLM keeps whole contexts for chunked layers, though a token attends to its chunk alone."""
    kinds = ["chunked_attention"] * 3 + ["full_attention"]
    found = read("llama4_text", layer_types=kinds, attention_chunk_size=64, intermediate_size_mlp=128)
    assert found.kv_bytes_per_token() == 4 * LAYER
    assert found.kv_cache_bytes(4096.0) == 4 * LAYER * 4096
    assert found.kv_read_bytes(4096.0) == LAYER * (4096 + 3 * 64)


def test_shared_caches_are_kept_once_and_read_twice() -> None:
    """Layers that reuse another layer's cache (Gemma 3n) have no key and value weights, keep nothing, and read it."""
    own, shared = read("gemma4_text"), read("gemma4_text", num_kv_shared_layers=2)
    assert shared.kv_bytes_per_token() == own.kv_bytes_per_token() // 2
    assert shared.kv_read_bytes(100.0) == own.kv_read_bytes(100.0)
    assert own.parameters - shared.parameters == 2 * (2 * 64 * 32 + 16)


def test_cross_layer_attention() -> None:
    """Hunyuan's groups of layers keep one cache each."""
    found = read("hunyuan_v1_dense", use_cla=True, cla_share_factor=2)
    assert found.kv_bytes_per_token() == 2 * LAYER


def test_recurrent_state_does_not_grow() -> None:
    """Gated delta layers keep a state of constant size; only the attention layers' cache grows."""
    found = read(
        "qwen3_next", full_attention_interval=4, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8, linear_conv_kernel_dim=4, mamba_ssm_dtype="float32",
    )  # fmt: skip
    assert found.kv_bytes_per_token() == LAYER
    state = 3 * (2 * 16 + 32) * 2 + 4 * 8 * 8 * 4
    assert found.state_bytes == 3 * state
    assert np.array_equal(found.kv_cache_bytes(np.array([0.0, 16.0])), [3 * state, 3 * state + 16 * LAYER])


def test_mamba_alone_has_no_cache() -> None:
    """A pure Mamba model has state, no cache, and reads no more at long contexts."""
    config = {
        "model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 4, "vocab_size": 1000, "num_heads": 8,
        "head_dim": 16,
        "n_groups": 1, "state_size": 16, "conv_kernel": 4,
    }  # fmt: skip
    found = read_architecture(config, name="probe")
    assert found.kv_bytes_per_token() == 0
    assert found.kv_read_bytes(10.0) == found.kv_read_bytes(10_000.0) == found.state_bytes > 0


def test_per_layer_overrides() -> None:
    """transformers 5 lists what differs in single layers under their numbers."""
    found = read("gemma4_text", per_layer_config={"03": {"head_dim": 32}})
    assert found.kv_bytes_per_token() == 5 * LAYER


def test_kv_heads_a_layer() -> None:
    """KV heads may be listed, one entry a layer."""
    assert read("llama", num_key_value_heads=[1, 2, 4, 4]).kv_bytes_per_token() == 11 * LAYER // 2


def test_puzzle_blocks() -> None:
    """Nemotron-NAS layers without attention keep nothing, and their MLPs have widths of their own."""

    def block(group: int | None, mult: float | None) -> dict[str, Any]:
        return {
            "attention": {"no_op": group is None, "n_heads_in_group": group, "replace_with_linear": False},
            "ffn": {"no_op": mult is None, "ffn_mult": mult, "replace_with_linear": False},
        }

    blocks = [block(2, 4.0), block(None, 4.0), block(4, None), block(None, None)]
    found = read("nemotron-nas", block_configs=blocks, num_key_value_heads=None, intermediate_size=None)
    assert found.kv_layers == 2
    assert found.kv_bytes_per_token() == LAYER + LAYER // 2
    mlp = sum(group.parameters for group in found.weights if group.role == "mlp")
    assert mlp == 2 * 3 * 64 * 256  # 2/3 x 4 x 64 = 170, up to a multiple of 256


def test_latent_attention() -> None:
    """Latent attention keeps rank + rope elements a token for all heads together, once."""
    found = read(
        "deepseek_v3", kv_lora_rank=32, q_lora_rank=48, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        num_key_value_heads=4,
    )  # fmt: skip
    assert found.is_mla
    assert found.kv_bytes_per_token() == 4 * (32 + 8) * 2


def test_sparse_attention_reads_what_it_chose() -> None:
    """An indexer bounds the latent entries read, and keeps keys of its own on top of the cache."""
    sizes = {
        "kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "num_key_value_heads": 4,
    }  # fmt: skip
    plain = read("deepseek_v32", **sizes)
    sparse = read("deepseek_v32", **sizes, index_head_dim=16, index_n_heads=4, index_topk=100)
    assert sparse.kv_bytes_per_token() == plain.kv_bytes_per_token()
    assert sparse.index_bytes_per_token == 4 * (16 + 4)
    assert sparse.kv_read_bytes(1000.0) == plain.kv_read_bytes(100.0) + 1000 * sparse.index_bytes_per_token


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"layer_types": ["full_attention", "novel_attention"] * 2}, "layer_types"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_window"),
        ({"layer_types": ["linear_attention"] * 4}, "linear_num_value_heads"),
        ({"num_kv_shared_layers": 9}, "num_kv_shared_layers"),
        ({"hybrid_override_pattern": "M-*X"}, "hybrid_override_pattern"),
    ],
)
def test_kinds_that_cannot_be_read(changes: dict[str, Any], field: str) -> None:
    """Unknown kinds, short lists and windows without a width are refused with their field."""
    with pytest.raises(ArchitectureError) as caught:
        read("llama", **changes)
    assert caught.value.field == field


def test_deci_lists_its_kv_heads() -> None:
    """DeciLM without blocks lists KV heads a layer under a name of its own."""
    config = {key: value for key, value in TINY.items() if key != "num_key_value_heads"}
    config |= {"model_type": "deci", "num_key_value_heads_per_layer": [4, 2, 2, 1]}
    assert read_architecture(config, name="probe").kv_bytes_per_token() == 9 * LAYER // 2


def test_latent_attention_that_vllm_expands_keeps_every_head() -> None:
    """MiniCPM3 has MLA's weights, but vLLM runs it as plain attention: keys and padded values of all heads are kept."""
    latent = {"kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    found, compressed = read("minicpm3", **latent), read("deepseek_v2", **latent)
    assert not found.is_mla
    assert found.head_dim == 24
    assert found.kv_bytes_per_token() == found.num_layers * 2 * found.num_attention_heads * 24 * 2
    assert compressed.kv_bytes_per_token() == compressed.num_layers * (32 + 8) * 2
