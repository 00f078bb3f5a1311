"""What do the training rows look like? Bins for `api.operation.drift`, from the measured tables.

    python -m api.operation.training_features data/measurements

Concurrency and lengths come from the cost cells, temperature and the mix of structures from the prompts whose
acceptance was measured. Up to ten bins a feature, with as equal shares as repeated values allow.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from api.operation.drift import REFERENCE
from models.structure import STRUCTURES

_BINS = 10
_COST, _ACCEPTANCE = "cost_cells.csv", "acceptance_cells.csv"
_NUMBERS = {
    "concurrency": _COST, "input_tokens": _COST, "output_tokens": _COST, "temperature": _ACCEPTANCE,
}  # fmt: skip
# Prompt sets name some kinds of work in words of their own; kinds of chat without a class are left out.
_CLASS_OF = {
    "coding": "code", "edit": "code", "extraction": "json", "math_reasoning": "math", "reasoning": "math",
    "summarization": "summarisation", "qa": "question_answering", "rag": "question_answering",
    "retrieval": "question_answering", "retrieval_long": "question_answering", "writing": "creative",
}  # fmt: skip


def bins_of(values: Sequence[float]) -> dict[str, Any]:
    """Inner edges between about equally filled bins, the share of each, and the range."""
    ordered = sorted(values)
    cuts = (ordered[len(ordered) * step // _BINS] for step in range(1, _BINS))
    edges = sorted({cut for cut in cuts if cut > ordered[0]})
    counts = [0] * (len(edges) + 1)
    for value in ordered:
        counts[bisect_right(edges, value)] += 1
    shares = [round(count / len(ordered), 6) for count in counts]
    return {"rows": len(ordered), "low": ordered[0], "high": ordered[-1], "edges": edges, "shares": shares}


def features_of(folder: Path) -> dict[str, Any]:
    """The reference of a folder of measured tables."""
    tables = {}
    sources = {}
    for name in (_COST, _ACCEPTANCE):
        content = (folder / name).read_bytes()
        tables[name] = list(csv.DictReader(content.decode("utf-8").splitlines()))
        sources[name] = hashlib.sha256(content).hexdigest()
    numbers = {
        feature: bins_of([float(row[feature]) for row in tables[table] if row[feature]])
        for feature, table in _NUMBERS.items()
    }
    counts = dict.fromkeys(STRUCTURES, 0.0)
    left_out = 0
    for row in tables[_ACCEPTANCE]:
        structure = _CLASS_OF.get(row["structure"], row["structure"])
        if structure in counts:
            counts[structure] += float(row["prompts"] or 0)
        else:
            left_out += 1
    total = sum(counts.values())
    shares = {name: round(count / total, 6) for name, count in counts.items()}
    return {
        "made_by": "python -m api.operation.training_features", "sources": sources, "numbers": numbers,
        "structure": {"shares": shares, "cells_left_out": left_out},
    }  # fmt: skip


def main() -> None:
    """Write the reference beside the code that reads it."""
    parser = argparse.ArgumentParser(prog="python -m api.operation.training_features", description=__doc__)
    parser.add_argument("folder", type=Path)
    REFERENCE.write_text(json.dumps(features_of(parser.parse_args().folder), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
