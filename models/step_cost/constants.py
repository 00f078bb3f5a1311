"""The fitted constants of the step cost: their values, their joint spread, and where each came from.

They ship as models/priors/step_cost.yaml, written by benchmarks/fit_design_table.py; a fit to fresh measurements writes
the same shape. The file is refused where a constant is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from models.estimate import Floats
from models.step_cost.coverage import GAPS
from profiler.errors import ArtefactError

# What each constant is; "_ms" are overheads, "e_" efficiencies (attained / peak).
CONSTANTS: dict[str, str] = {
    "o_layer_ms": "per layer of every pass",
    "e_bw": "weight traffic / memory bandwidth",
    "e_kv": "KV traffic / memory bandwidth",
    "e_f": "FLOPs of a decode pass / peak",
    "e_p": "FLOPs of a prefill / peak",
    "o_verify_ms": "per step: rejection sampling and draft bookkeeping of asynchronously scheduled methods",
    "o_head_ms": "per pass of a drafter head, beside its roofline",
    "o_draft_host_ms": "per pass of a draft model: what the host needs to launch it, a floor",
    "o_sync_ms": "per step of methods that vLLM schedules synchronously, verification included",
    "o_propose_ms": "per step and sequence: the host's search for a match (n-gram, suffix)",
    "o_reduce_ms": "per all-reduce, a small message",
    "e_link": "all-reduce traffic of a decode step / interconnect",
    "e_link_large": "all-reduce traffic of a prefill / interconnect",
    "o_eager_ms": "per layer without CUDA graphs: what the host needs to launch it, a floor",
}


@dataclass(frozen=True, slots=True)
class StepCostConstants:
    """Values in the order of CONSTANTS, and the covariance of their natural logarithms."""

    value: Floats  # (P,)
    covariance: Floats  # (P, P)
    gap_variance: Floats  # (gaps, P): variance that each gap of coverage adds to a constant
    residual: dict[str, float]  # method -> log sd of what the formula leaves over
    gap_residual: Floats  # (gaps,): log sd that a gap adds to the step ratio beside the constants
    idle_tier_factor: float  # a schedule's k = 0 tier against no speculation at all

    def named(self) -> dict[str, Any]:
        """The values by name."""
        return dict(zip(CONSTANTS, self.value.tolist(), strict=True))


@cache
def read_constants() -> StepCostConstants:
    """The shipped constants; ArtefactError where the file lacks one."""
    import yaml

    text = (files("models") / "priors" / "step_cost.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    try:
        return constants_from(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ArtefactError("The step-cost constants are damaged", expected=f"an entry {error}") from error


def constants_from(document: dict[str, Any]) -> StepCostConstants:
    """Constants from the file's mapping; KeyError names what is missing."""
    names = list(CONSTANTS)
    entries = [document["constants"][name] for name in names]
    covariance = np.diag([float(entry["log_sd"]) ** 2 for entry in entries])
    for first, row in document["log_correlation"].items():
        for second, correlation in row.items():
            i, j = names.index(first), names.index(second)
            covariance[i, j] = covariance[j, i] = correlation * np.sqrt(covariance[i, i] * covariance[j, j])
    gaps = [document["gaps"][gap] for gap in GAPS]
    return StepCostConstants(
        value=np.array([float(entry["value"]) for entry in entries]),
        covariance=covariance,
        gap_variance=np.array([[float(gap["log_sd"].get(name, 0.0)) ** 2 for name in names] for gap in gaps]),
        residual={name: float(value) for name, value in document["residual_log_sd"].items()},
        gap_residual=np.array([float(gap.get("residual_log_sd", 0.0)) for gap in gaps]),
        idle_tier_factor=float(document["idle_tier_factor"]["value"]),
    )
