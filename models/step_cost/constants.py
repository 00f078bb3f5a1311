"""The fitted constants of the step cost: their values, what they leave open, and where each came from.

They ship as models/artifacts/step_cost.json, written by `specworth train` from data/measurements and read only where
the manifest says that it was made for these constants and is what was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from models.artefact import read_numbers
from models.estimate import Floats
from models.step_cost.coverage import GAPS, Measured
from profiler.errors import ArtefactError

ARTEFACT = "step_cost.json"

# What each constant is; "_ms" are overheads, "e_" efficiencies (attained / peak), "joining_" counts of passes.
CONSTANTS: dict[str, str] = {
    "o_layer_ms": "per layer of every pass, on the GPU beside its roofline",
    "e_bw": "weight traffic / memory bandwidth",
    "e_kv": "KV traffic / memory bandwidth",
    "e_f": "FLOPs of decode tokens / peak",
    "e_p": "FLOPs of prefill tokens / peak",
    "o_piece_ms": "host, per layer of a pass with a prefill or with decodes of unequal length: piecewise graphs",
    "o_ungraphed_ms": "host, per layer of a pass of more tokens than the largest captured graph has",
    "o_seq_ms": "host, per sequence of a pass that is not one graph",
    "o_seq_graph_ms": "per sequence of every pass, on the GPU beside its roofline: sampling",
    "o_verify_ms": "per step: rejection sampling and draft bookkeeping of asynchronously scheduled methods",
    "o_head_ms": "per pass of a drafter head, beside its roofline",
    "o_head_host_ms": "host, to launch a pass of a drafter head beside a prefill or beyond the graphs",
    "o_head_bare_ms": "host, to launch the first pass of a drafter head beyond the graphs",
    "o_draft_host_ms": "host, per pass of a draft model: what it takes to launch, a floor",
    "o_sync_ms": "per step of methods that vLLM schedules synchronously, verification included",
    "o_propose_ms": "per step and sequence of methods that vLLM schedules synchronously",
    "o_request_ms": "host, once a request",
    "joining_async": "passes that go by before an asynchronous scheduler takes a request in",
    "joining_sync": "passes that go by before a synchronous scheduler takes a request in",
    "o_reduce_ms": "per all-reduce, a small message",
    "e_link": "all-reduce traffic of decode tokens / interconnect",
    "e_link_large": "all-reduce traffic of prefill tokens / interconnect",
    "o_eager_ms": "host, per layer where CUDA graphs are off",
}


@dataclass(frozen=True, slots=True)
class StepCostConstants:
    """Values by name, and the spread of a log speedup that they leave open."""

    value: dict[str, float]
    band_starts: Floats  # (bands,): lowest concurrency of each band of `residual`
    residual: dict[str, Floats]  # method -> (2, bands): log sd of held-out end-to-end and TPOT speedups
    gap_log_sd: Floats  # (gaps,): what each gap of coverage adds, in the order of GAPS
    measured: Measured  # what the fit saw
    idle_tier_factor: float  # a schedule's k = 0 tier against no speculation at all


@cache
def read_constants(folder: Path | None = None) -> StepCostConstants:
    """The constants of a folder of artefacts, the shipped ones where left out; ArtefactError where refused."""
    document = read_numbers(ARTEFACT, features=tuple(CONSTANTS), folder=folder)
    try:
        return constants_from(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ArtefactError("The step-cost constants are damaged", expected=f"an entry {error}") from error


def constants_from(document: dict[str, Any]) -> StepCostConstants:
    """Constants from the file's mapping; KeyError names what is missing."""
    entries = {name: document["constants"][name] for name in CONSTANTS}
    return StepCostConstants(
        value={name: float(entry["value"]) for name, entry in entries.items()},
        band_starts=np.array([float(band[0]) for band in document["residual_bands"]]),
        residual={
            method: np.array([sds["end_to_end"], sds["tpot"]], dtype=np.float64)
            for method, sds in document["residual_log_sd"].items()
        },
        gap_log_sd=np.array([float(document["gaps"][gap]["log_sd"]) for gap in GAPS]),
        measured=Measured.from_json(document["measured"]),
        idle_tier_factor=float(document["idle_tier_factor"]["value"]),
    )
