"""What follows from an architecture for one step: bytes read, FLOPs, cache, all over arrays."""

from __future__ import annotations

import numpy as np
import pytest

from profiler.architecture import read_architecture
from profiler.errors import ArchitectureError
from tests.profiler.architecture.configs import ATTENTION, EXPERTS, MLP, TABLE, TINY


def test_a_pass_reads_all_but_the_input_table() -> None:
    """A dense pass reads every weight but the input table, however many tokens it has."""
    found = read_architecture(TINY, name="t")
    assert found.decode_weight_bytes(1.0) == found.weight_bytes - 2 * TABLE
    many = found.decode_weight_bytes(np.array([1.0, 8.0, 512.0]))
    assert many.shape == (3,)
    assert np.all(many == many[0])


def test_experts_touched() -> None:
    """One token reads k experts, many read nearly all: E (1 - (1 - k/E)^tokens) of them are expected."""
    found = read_architecture(EXPERTS, name="e")
    expert = 2 * 4 * 3 * 64 * 32  # bytes of one expert in all layers
    one, few, many = found.decode_weight_bytes(np.array([1.0, 3.0, 10_000.0]))
    rest = found.weight_bytes - 2 * TABLE - 16 * expert
    assert one == pytest.approx(rest + 2 * expert)
    assert few == pytest.approx(rest + 16 * (1 - (14 / 16) ** 3) * expert)
    assert many == pytest.approx(rest + 16 * expert)


def test_flops() -> None:
    """2 FLOPs per active matmul parameter, and 4 x heads x head size per layer and token attended to."""
    found = read_architecture(TINY, name="t")
    matrices = 4 * (ATTENTION + MLP) + TABLE
    assert np.array_equal(
        found.flops_per_token(np.array([0.0, 100.0])), [2 * matrices, 2 * matrices + 4 * 100 * 4 * 64]
    )


def test_flops_follow_the_chosen_experts() -> None:
    """Only the experts that a token passes cost FLOPs."""
    found = read_architecture(EXPERTS, name="e")
    assert found.flops_per_token(0.0) == 2 * (4 * (ATTENTION + 64 * 16 + 2 * 3 * 64 * 32) + TABLE)


def test_windows_cap_the_flops() -> None:
    """Beyond its window a sliding layer costs no more."""
    found = read_architecture(TINY | {"model_type": "mistral", "sliding_window": 64}, name="t")
    assert found.flops_per_token(64.0) == found.flops_per_token(4000.0)


def test_cache_comes_in_blocks() -> None:
    """A sequence occupies whole blocks of 16 tokens; a step reads what is there."""
    found = read_architecture(TINY, name="t")
    token = found.kv_bytes_per_token()
    assert np.array_equal(found.kv_cache_bytes(np.array([0.0, 1.0, 16.0, 17.0])), np.array([0, 16, 16, 32]) * token)
    assert found.kv_cache_bytes(1.0, "auto", 32) == 32 * token
    assert np.array_equal(found.kv_read_bytes(np.array([1.0, 17.0])), np.array([1, 17]) * token)


def test_cache_types() -> None:
    """fp8 halves the cache, float32 doubles it, and an unknown type is refused with the known ones."""
    found = read_architecture(TINY, name="t")
    assert found.kv_bytes_per_token("fp8") * 2 == found.kv_bytes_per_token() == found.kv_bytes_per_token("float32") // 2
    with pytest.raises(ArchitectureError, match="fp8_e4m3") as caught:
        found.kv_bytes_per_token("int3")
    assert caught.value.field == "kv_cache_dtype"


def test_float32_checkpoints_are_served_in_16_bit() -> None:
    """vLLM's dtype "auto" cuts float32 checkpoints to 16 bit; so do the counts."""
    found = read_architecture(TINY | {"torch_dtype": "float32"}, name="t")
    assert found.dtype == "bfloat16"
    assert found.weight_bytes == 2 * found.parameters


def test_frozen_and_comparable() -> None:
    """Reading twice gives equal values that cannot be changed."""
    first, second = read_architecture(TINY, name="t"), read_architecture(TINY, name="t")
    assert first == second
    with pytest.raises(AttributeError):
        first.hidden_size = 1  # type: ignore[misc]
