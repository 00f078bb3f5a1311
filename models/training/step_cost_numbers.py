"""models/artifacts/step_cost.json: what is fitted and what is published, with sources, spreads and interval widths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.estimate import Floats
from models.step_cost.constants import CONSTANTS
from models.step_cost.coverage import GAPS
from models.training.cells import Cells
from models.training.intervals import BANDS, Intervals
from models.training.step_cost import NAMES, PRIOR, PUBLISHED, StepCostFit, predict
from profiler.deployment import METHODS

# Log sd and source of the constants that the cells say nothing about.
PUBLISHED_SOURCES = {
    "o_reduce_ms": (
        0.35,
        "sgl-project/sglang pull request 2904, H100, 4 to 32 KB over 2 to 8 ranks: 0.0085 to 0.0118 ms "
        "for vLLM's kernel launched eagerly, 0.0037 to 0.0078 for the better one; geometric middle",
    ),
    "e_link": (
        0.3,
        "same table, 1 MB: 17 to 35 us above the small message for 1.0 to 1.75 MB of ring traffic a rank over 450 GB/s",
    ),
    "e_link_large": (
        0.15,
        "nccl-tests as published by docs.alayanew.com 2026-05-06: bus bandwidth 460 to 480 of 450 GB/s "
        "on 8 x H100, 230 to 250 of 300 on 8 x A100",
    ),
    "o_eager_ms": (
        0.5,
        "vllm-project/vllm-omni issue 7960: Qwen2.5-Omni-7B (28 layers) decodes at 22 to 23 ms a token "
        "in eager mode, 13 with graphs; the same on an H200 4.3 times for the 3B: host-bound",
    ),
}

_HOST = ("o_piece_ms", "o_ungraphed_ms", "o_seq_ms", "o_sync_ms", "o_draft_host_ms", "o_verify_ms")
# What a gap of coverage adds to the log sd of constants, the least that it adds to a speedup's, and why. The first is
# carried through the composition over the measured cells; the larger of both is what the model adds.
GAP_SPREADS: dict[str, tuple[dict[str, float], float, str]] = {
    "gpu": (
        {"e_bw": 0.12, "e_kv": 0.3, "e_f": 0.3, "e_p": 0.3, "o_layer_ms": 0.5, **dict.fromkeys(_HOST, 0.4)},
        0.0,
        "bandwidth: ai-dynamo/aiconfigurator uses 0.8 for A100 to GB200 where this fit has 0.89 and its tests 0.92; "
        "compute: two sds reach from half of what this GPU attains to its peak; host: the design notes saw 3 to 7 ms "
        "for one draft pass on one host",
    ),
    "engine": (
        {"o_layer_ms": 0.3, **dict.fromkeys(_HOST, 0.5)},
        0.0,
        "asynchronous scheduling on or off is what differs most between versions (vllm-project/vllm pull request "
        "31998): half the log distance of o_verify and o_sync",
    ),
    "method": (
        {"o_verify_ms": 0.7, "o_sync_ms": 0.7, "o_head_ms": 1.0, "o_head_host_ms": 0.7, "o_propose_ms": 1.0},
        0.1,
        "leaving one measured method out: the others' cost of a step is off by the log distance of o_verify and o_sync",
    ),
    "tensor_parallel": (
        {"o_layer_ms": 0.3, "e_bw": 0.1},
        0.08,
        "no measurement; the sources of the all-reduce constants span a factor of two",
    ),
    "interconnect": (
        {},
        0.15,
        "the traffic is not priced; sgl-project/sglang-V100 pull request 2 shows 4 to 120 us an all-reduce over PCIe",
    ),
    "experts": (
        {"e_bw": 0.2, "e_f": 0.4, "o_layer_ms": 0.5},
        0.1,
        "no measurement; experts are neither drawn evenly nor independently by neighbouring tokens, grouped products "
        "attain less: documented as wide",
    ),
    "quantization": (
        {"e_bw": 0.2, "e_f": 0.3, "e_p": 0.3},
        0.05,
        "no measurement; kernels differ by format: documented as wide",
    ),
    "eager": ({"o_seq_ms": 0.5}, 0.15, "no measurement in this project; two published ones"),
    "attention": (
        {"e_kv": 0.4, "e_f": 0.2},
        0.05,
        "no measurement of latent, windowed, linear or hybrid attention: documented as wide",
    ),
    "traffic": (
        {},
        0.1,
        "beyond the most sequences or the longest context that were measured; leaving out 128 sequences and more, "
        "EAGLE-3's speedups there were off by 11 % on average (models/artifacts/step_cost.md), of which the bands' own "
        "spread holds most",
    ),
    "size": (
        {"o_layer_ms": 0.3, "e_bw": 0.1, "e_f": 0.2, "e_p": 0.2, **dict.fromkeys(_HOST, 0.2)},
        0.05,
        "no measurement; small matrices attain less of either peak, and layers of another width cost the host and the "
        "GPU other than those of 2,560 to 5,120: half of what a GPU gap shifts",
    ),
}
_SPREAD_SOURCE = (
    "half-width of the 90 % interval over 1.645: split-conformal, residuals of targets that a fit had not seen, scaled "
    "by method and band of concurrency with pooling (models/training/intervals.py); the widest of a band for methods "
    "that were not measured"
)


def step_cost_numbers(
    cells: Cells, fitted: StepCostFit, end_to_end: Intervals, tpot: Intervals, *, data_sha256: str
) -> dict[str, Any]:
    """The file's mapping: constants with what they leave open, interval widths, what gaps of coverage add."""
    return {
        "data": {"file": "cost_cells.csv", "sha256": data_sha256, "cells": len(cells)},
        "measured": cells.measured.as_json(),
        "constants": _constants(fitted, data_sha256),
        "log_correlation": _correlations(fitted.covariance),
        "residual_bands": [list(band) for band in BANDS],
        "residual_log_sd": _widths(end_to_end, tpot),
        "residual_source": _SPREAD_SOURCE,
        "conformal_factor": {"end_to_end": round(end_to_end.factor, 4), "tpot": round(tpot.factor, 4)},
        "gaps": {
            gap: {
                "log_sd": round(max(_carried(cells, fitted.constants, shifts), least), 3),
                "constants": shifts,
                "source": source,
            }
            for gap, (shifts, least, source) in ((gap, GAP_SPREADS[gap]) for gap in GAPS)
        },
        "idle_tier_factor": {
            "value": 1.145,
            "source": "vllm-project/vllm issue 49986: a schedule's k = 0 tier costs 7 to 22 %; the middle",
        },
    }


def _constants(fitted: StepCostFit, data_sha256: str) -> dict[str, Any]:
    sds = np.sqrt(np.diag(fitted.covariance))
    entries = {}
    for name, meaning in CONSTANTS.items():
        if name in PUBLISHED:
            sd, source = PUBLISHED_SOURCES[name]
        else:
            start, wide, why = PRIOR[name]
            sd = float(sds[NAMES.index(name)])
            source = f"fit to data {data_sha256[:16]}, from {start:g} (log sd {wide:g}: {why})"
        entries[name] = {
            "value": float(f"{fitted.constants[name]:.4g}"),
            "log_sd": round(sd, 3),
            "meaning": meaning,
            "source": source,
        }
    return entries


def _correlations(covariance: Floats, least: float = 0.3) -> dict[str, dict[str, float]]:
    """Of pairs of fitted constants whose logarithms go together."""
    sds = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(sds, sds)
    return {
        first: its
        for i, first in enumerate(NAMES)
        if (
            its := {
                second: round(float(correlation[i, j]), 2)
                for j, second in enumerate(NAMES[:i])
                if abs(correlation[i, j]) >= least
            }
        )
    }


def _widths(end_to_end: Intervals, tpot: Intervals) -> dict[str, dict[str, list[float]]]:
    """Method -> {end_to_end, tpot} -> log sd of each band; 0 for the baseline, whose speedup is 1."""
    lows = np.array([float(low) for low, _ in BANDS])
    found = {
        method: {
            name: [round(float(sd), 4) for sd in its.log_sd_of(np.array([method] * len(BANDS)), lows)]
            for name, its in (("end_to_end", end_to_end), ("tpot", tpot))
        }
        for method in METHODS
    }
    return found | {"baseline": {name: [0.0] * len(BANDS) for name in ("end_to_end", "tpot")}}


def _carried(cells: Cells, constants: Mapping[str, float], shifts: Mapping[str, float]) -> float:
    """Root mean square over the measured cells of what independent shifts of constants do to the log speedup."""
    now = np.log(predict(cells, constants).end_to_end[cells.judged])
    variance = np.zeros(now.shape)
    for name, sd in shifts.items():
        moved = dict(constants) | {name: constants[name] * float(np.exp(sd))}
        variance += (np.log(predict(cells, moved).end_to_end[cells.judged]) - now) ** 2
    return float(np.sqrt(variance.mean()))
