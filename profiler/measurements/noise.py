"""How far do two measurements of one cell differ? The noise floor: no prediction can be better than that.

Runs flagged `clumped` do not count: they differ from later ones by their protocol, which is not noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import numpy as np

from profiler.measurements.table import Row


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Relative differences |a - b| / mean of the runs of one cell, over all pairs that count; nan without any."""

    cells: int
    pairs: int
    median: float
    p90: float
    largest: float
    largest_cell: str | None


def noise_floor(rows: Iterable[Row], label: str = "output_tokens_per_s") -> NoiseFloor:
    """The floor of one label over the cells that have several runs."""
    runs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row[label] is not None and "clumped" not in (row["flags"] or "").split():
            runs[row["cell_id"]].append(row)
    differences = [
        (abs(a[label] - b[label]) / (0.5 * (a[label] + b[label])), f"{a['engine']} {point_name(a)}")
        for group in runs.values() for place, a in enumerate(group) for b in group[place + 1 :]
    ]  # fmt: skip
    if not differences:
        return NoiseFloor(0, 0, float("nan"), float("nan"), float("nan"), None)
    values = [difference for difference, _ in differences]
    largest, cell = max(differences)
    return NoiseFloor(
        cells=sum(len(group) > 1 for group in runs.values()), pairs=len(values), median=median(values),
        p90=float(np.quantile(values, 0.9)), largest=largest, largest_cell=cell,
    )  # fmt: skip


def point_name(row: Row) -> str:
    """`concurrency x input + output` of a row."""
    return f"{row['concurrency']}x{row['input_tokens']}+{row['output_tokens']}"
