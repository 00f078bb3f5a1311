"""Counts of public models, whose dimensions are typed here, against their published parameter counts.

The totals are those that the models' own repositories state for their weight files (multi-token modules left out).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.architecture import read_architecture

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("published.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_counts_match_the_published_ones(case: dict[str, Any]) -> None:
    """Parameters agree within 0.1 %, KV bytes exactly, active parameters within 1 % where they are known."""
    found = read_architecture(case["config"], name=case["name"])
    assert found.parameters == pytest.approx(case["parameters"], rel=1e-3)
    assert found.kv_bytes_per_token() == case["kv_bytes_per_token"]
    if "active" in case:
        assert found.active_parameters == pytest.approx(case["active"], rel=1e-2)
    else:
        assert found.active_parameters <= found.parameters


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_model_is_a_target_in_16_bit(case: dict[str, Any]) -> None:
    """No public target is taken for a drafter head, and unquantised weights take two bytes each."""
    found = read_architecture(case["config"], name=case["name"])
    assert not found.is_drafter_head
    assert found.weight_bytes == 2 * found.parameters
    assert found.quantization is None


def test_multi_token_module_is_apart() -> None:
    """DeepSeek-V3's MTP module (14B with its copies of both tables) is described beside the 671B, not in them."""
    config = next(case["config"] for case in CASES if case["name"] == "DeepSeek-V3")
    found = read_architecture(config, name="DeepSeek-V3")
    assert found.mtp_layers == 1
    assert found.mtp_head is not None
    assert found.mtp_head.head_kind == "mtp"
    tables = 2 * 129280 * 7168
    assert found.mtp_head.parameters + tables == pytest.approx(14e9, rel=0.05)
    assert found.mtp_head.kv_bytes_per_token() == found.kv_bytes_per_token() // 61
