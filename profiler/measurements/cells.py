"""What do the tables of measured cells share? A cell's identity, its runs, the order of rows, labels of acceptance.

A cell is all of its settings (`key`); what was measured of one key at different moments are its runs.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profiler.measurements.columns import Column
from profiler.measurements.table import Row


def cell_id(key: str) -> str:
    """The digest of a cell's key, by which rows refer to each other."""
    return hashlib.sha256(key.encode()).hexdigest()[:10]


def not_yet_in(cells: Iterable[Row], raw: Iterable[Row]) -> list[Row]:
    """The rows of a sweep that the table does not hold: another cell, or the same at another moment."""
    known = {(cell["key"], cell["measured_at"]) for cell in cells}
    return [row for row in raw if (row["key"], row["measured_at"]) not in known]


def numbered(rows: Iterable[Row]) -> list[Row]:
    """The rows in the order of their moments, each given its `cell_id` and `run`."""
    ordered = sorted(rows, key=lambda row: str(row["measured_at"]))
    runs: dict[str, int] = defaultdict(int)
    for row in ordered:
        row["cell_id"] = cell_id(row["key"])
        runs[row["cell_id"]] += 1
        row["run"] = runs[row["cell_id"]]
    return ordered


def by_engine(rows: Sequence[Row]) -> list[Row]:
    """The order of a file: engines as they first appear in `rows`, each one's rows in the order of their moments."""
    order = {row["engine"]: place for place, row in reversed(list(enumerate(rows)))}
    return sorted(rows, key=lambda row: (order[row["engine"]], row["measured_at"]))


def acceptance_labels(row: Mapping[str, Any]) -> Row:
    """AL, τ, m and α by position of a row whose decode steps were counted; m is None for a baseline."""
    drafts, steps, accepted = row["drafts"], row["decode_steps"], tuple(row["accepted_per_position"] or ())
    rates = [round(now / before, 4) for before, now in zip((drafts, *accepted), accepted, strict=False) if before]
    return {
        "acceptance_length": round(1 + row["accepted_tokens"] / drafts, 4) if drafts else None,
        "tokens_per_step": round(row["decode_tokens"] / steps, 4) if steps else 1.0,
        "draft_share": (round(drafts / steps, 4) if steps else 0.0) if row["method"] != "none" else None,
        "acceptance_per_position": tuple(rates) or None,
        "accepted_per_position": accepted or None,
    }


def not_derived_anew(file: str, columns: Iterable[Column], rows: Sequence[Row], again: Sequence[Row]) -> list[str]:
    """Rows whose derived columns differ from those `again` made of them, one line each."""
    problems = []
    for row, other in zip(rows, again, strict=True):
        if odd := [one.name for one in columns if one.derived and row[one.name] != other[one.name]]:
            problems.append(f"{file}: {row['cell_id']} run {row['run']}: not derived anew: {', '.join(odd)}")
    return problems
