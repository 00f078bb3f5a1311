"""What do held-out cells say, in tables: errors by temperature and kind, and how many lie in their intervals?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.acceptance.coefficients import AcceptanceCoefficients
from models.estimate import Floats
from models.training.acceptance_folds import Groups

COUNTED_DRAFTS = 30.0  # fewer say too little of an acceptance length to judge one
Table = list[dict[str, object]]


def observed_length(groups: Groups) -> Floats:
    """AL of the first JUDGED_K positions, as counted."""
    length: Floats = 1.0 + groups.accepted / groups.drafts
    return length


def counted(groups: Groups, method: str) -> Groups:
    """The groups of one method that drafted often enough to be judged."""
    chosen = (groups.method == method) & (groups.drafts >= COUNTED_DRAFTS)
    return Groups(**{name: getattr(groups, name)[chosen] for name in Groups.__slots__})


def rounded(value: float) -> float:
    """Three decimals."""
    return round(float(value), 3)


def coverage_table(held: Mapping[str, Groups], coefficients: AcceptanceCoefficients) -> Table:
    """Share of held-out cells inside the intervals that ship, of AL - 1 and of τ - 1, by family and method."""
    table: Table = []
    for family, cells in held.items():
        for method in sorted(set(cells.method.tolist())):
            part = counted(cells, method)
            place = coefficients.methods.index("ngram" if method.startswith("n-gram") else "draft_model")
            length_sd = coefficients.length_log_sd[place]
            gain_sd = np.hypot(length_sd, coefficients.share_logit_sd[place] * (1.0 - part.share))
            length = np.log(part.length - 1.0) - np.log(np.maximum(observed_length(part) - 1.0, 1e-3))
            observed = np.maximum(part.tokens / part.steps - 1.0, 1e-3)
            gain = np.log(part.tokens_per_step - 1.0) - np.log(observed)
            table.append({
                "left out": family, "method": method, "cells": len(part.cell),
                "AL inside": rounded(np.mean(np.abs(length) < 1.645 * length_sd)),
                "τ inside": rounded(np.mean(np.abs(gain) < 1.645 * gain_sd)),
            })  # fmt: skip
    return table


def temperatures_table(cells: Groups) -> Table:
    """Mean absolute error of AL and bias, by method and temperature."""
    table: Table = []
    for method in sorted(set(cells.method.tolist())):
        part = counted(cells, method)
        row: dict[str, object] = {"method": method}
        for temperature in np.unique(cells.temperature):
            error = (part.length - observed_length(part))[part.temperature == temperature]
            row[f"T {temperature:g}"] = rounded(np.abs(error).mean()) if len(error) else None
            row[f"bias {temperature:g}"] = rounded(error.mean()) if len(error) else None
        table.append(row)
    return table


def kinds_table(cells: Groups) -> Table:
    """Observed and predicted AL of each kind at temperature 0 and 1; n-gram's m at 0, of its shortest match."""
    table: Table = []
    for kind in np.unique(cells.kind):
        row: dict[str, object] = {"kind": str(kind)}
        for method, temperature in (("draft model", 0.0), ("draft model", 1.0), ("n-gram", 0.0)):
            chosen = (cells.kind == kind) & (cells.method == method) & (cells.temperature == temperature)
            first = int(np.argmax(chosen * cells.drafts)) if (chosen & (cells.drafts > 0)).any() else None
            row[f"{method}, T {temperature:g}"] = None if first is None else rounded(observed_length(cells)[first])
            row[f"predicted {method}, T {temperature:g}"] = None if first is None else rounded(cells.length[first])
            if method == "n-gram":
                row["m"] = None if first is None else rounded(cells.drafts[first] / cells.steps[first])
                row["m predicted"] = None if first is None else rounded(cells.share[first])
        table.append(row)
    return table
