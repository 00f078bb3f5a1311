"""Where do predicted times and speedups err? By the kind of pass that a cell mostly runs, and by target.

Kinds, by the tokens of a mean mixed pass and by how many passes carry a prefill: `decode` (fewer than one pass in five
carries one), `mixed` (more do), `beyond graphs` (verified drafts and a prompt's chunk together exceed the largest
captured graph, so that the host launches every kernel).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.training.cells import Cells
from models.training.held_out import HeldOut
from models.training.intervals import BANDS, Z, band_of
from models.training.step_cost import Speedups, latencies

KINDS = ("decode", "mixed", "beyond graphs")
_MOSTLY = 0.2


def kind_of_pass(cells: Cells) -> NDArray[np.int64]:
    """Place in KINDS of each cell."""
    i = cells.inputs
    each = 1.0 + np.nan_to_num(cells.draft_share) * cells.num_speculative_tokens
    cycle = i.prefill_chunks + (cells.output_tokens - 1.0) / cells.tokens_per_step
    carrying = cells.concurrency * i.prefill_chunks / cycle  # mean prefills of a pass
    decodes = cells.concurrency * each
    beyond = (decodes + i.prefill_tokens / i.prefill_chunks > i.graph_tokens) & (carrying >= _MOSTLY)
    beyond |= decodes > i.graph_tokens
    return np.where(beyond, 2, np.where(carrying >= _MOSTLY, 1, 0))


def band_table(cells: Cells, held_out: HeldOut) -> list[dict[str, Any]]:
    """Rows by method and band of concurrency: cells, MAPE of the held-out speedup, half-width of its 90 % interval."""
    error = held_out.speedups.end_to_end / cells.speedup - 1.0
    known = cells.judged & np.isfinite(error)
    width = np.expm1(Z * held_out.log_sd_end_to_end)
    inside = np.abs(np.log1p(error)) <= Z * held_out.log_sd_end_to_end
    band, rows = band_of(cells.concurrency), []
    for method in np.unique(cells.method[known]).tolist():
        for place, (low, high) in enumerate(BANDS):
            own = known & (cells.method == method) & (band == place)
            if own.any():
                rows.append({
                    "method": method, "concurrency": f"{low} to {high}", "cells": int(own.sum()),
                    "mape": round(float(np.abs(error[own]).mean()), 4),
                    "interval": round(float(np.median(width[own])), 4), "inside": round(float(inside[own].mean()), 4),
                })  # fmt: skip
    return rows


def residual_table(cells: Cells, constants: Mapping[str, float], held_out: Speedups) -> list[dict[str, Any]]:
    """Rows by method, target and kind: cells, bias and MAPE of the fitted request time and of the held-out speedup."""
    fitted = np.log(latencies(cells, constants)[1].end_to_end_ms / cells.end_to_end_ms)
    speedup = np.log(held_out.end_to_end / cells.speedup)
    kinds = kind_of_pass(cells)
    rows = []
    for method in np.unique(cells.method).tolist():
        for target in np.unique(cells.target[cells.method == method]).tolist():
            for place, kind in enumerate(KINDS):
                own = (cells.method == method) & (cells.target == target) & (kinds == place)
                if own.any():
                    rows.append(
                        {"method": method, "target": target, "passes": kind, "cells": int(own.sum())}
                        | _errors("time", fitted[own])
                        | _errors("speedup", speedup[own & cells.judged])
                    )
    return rows


def _errors(name: str, logs: Floats) -> dict[str, float | None]:
    known = np.expm1(logs[np.isfinite(logs)])
    if not known.size:
        return {f"{name}_bias": None, f"{name}_mape": None}
    return {f"{name}_bias": round(float(known.mean()), 4), f"{name}_mape": round(float(np.abs(known).mean()), 4)}
