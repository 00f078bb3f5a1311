"""Do incoming requests look like what the models were trained on?

For each feature the population stability index between the training rows and the last 1,000 recommendations, over bins
that the training rows fill about equally: PSI = sum over bins of (q - p) ln(q / p). Credit scoring reads 0.1 as a shift
worth a look and 0.25 as a large one (Siddiqi, Credit Risk Scorecards, 2006). Training data is a designed grid and no
sample of anybody's traffic, so watch how the index changes rather than how high it is; what lies outside every training
row is counted apart. Fewer than 50 recommendations give no index.

`training_features.json` holds the bins; it is made from the measured tables by

    python -m api.operation.training_features data/measurements
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.recommendation import WorkloadSummary

REFERENCE = Path(__file__).with_name("training_features.json")
NUMBERS = ("concurrency", "input_tokens", "output_tokens", "temperature")
WINDOW = 1000
FEWEST = 50
_FLOOR = 1e-3  # an empty bin counts as this share, so that one request cannot make the index infinite


@dataclass(frozen=True)
class Reference:
    """The training data's shape: inner edges of each number's bins with their shares, and the mix of structures."""

    edges: Mapping[str, Sequence[float]]
    shares: Mapping[str, Sequence[float]]
    ranges: Mapping[str, tuple[float, float]]
    structure: Mapping[str, float]


def read_reference(path: Path = REFERENCE) -> Reference:
    """The shape that was written by `api.operation.training_features`."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    numbers = {name: found["numbers"][name] for name in NUMBERS}
    return Reference(
        edges={name: its["edges"] for name, its in numbers.items()},
        shares={name: its["shares"] for name, its in numbers.items()},
        ranges={name: (its["low"], its["high"]) for name, its in numbers.items()},
        structure=found["structure"]["shares"],
    )


def stability_index(expected: Sequence[float], found: Sequence[float]) -> float:
    """PSI of two lists of shares over the same bins."""
    total = 0.0
    for before, now in zip(expected, found, strict=True):
        p, q = max(before, _FLOOR), max(now, _FLOOR)
        total += (q - p) * math.log(q / p)
    return total


class Drift:
    """The last recommendations' features, binned as the training data's."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._bins: dict[str, deque[int]] = {name: deque(maxlen=WINDOW) for name in NUMBERS}
        self._structures: deque[Mapping[str, float]] = deque(maxlen=WINDOW)

    @property
    def compared(self) -> int:
        """How many recommendations the distances are of."""
        return len(self._structures)

    def add(self, workload: WorkloadSummary) -> list[str]:
        """Take up one answer's workload; the features in which it lies outside the training data."""
        outside = []
        for name in NUMBERS:
            value = float(getattr(workload, name))
            self._bins[name].append(bisect_right(self._reference.edges[name], value))
            low, high = self._reference.ranges[name]
            if not low <= value <= high:
                outside.append(name)
        self._structures.append(workload.structure)
        return outside

    def distances(self) -> dict[str, float]:
        """PSI of each feature; nothing before there are enough recommendations."""
        count = self.compared
        if count < FEWEST:
            return {}
        found = {}
        for name, bins in self._bins.items():
            expected = self._reference.shares[name]
            held = list(bins)
            found[name] = stability_index(expected, [held.count(b) / count for b in range(len(expected))])
        mix = self._reference.structure
        mean = [sum(one.get(name, 0.0) for one in self._structures) / count for name in mix]
        found["structure"] = stability_index(list(mix.values()), mean)
        return found
