"""`specworth evaluate`: prints held-out errors beside those of rivals, and the aims beside what was reached."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from api.report.content import Table
from api.report.terminal import print_table
from models.artefact import FOLDER
from models.training.cells import Cells
from models.training.own_rows import OwnRows
from models.training.train import evaluate_all

_COLUMNS = {
    "MAPE": "mape", "p90": "p90", "TPOT": "tpot_mape", "balanced accuracy": "balanced_accuracy",
    "clear cells": "balanced_accuracy_clear", "regret": "regret", "calibration": "calibration_error",
    "coverage": "coverage",
}  # fmt: skip


def run_evaluate(data: Path, *, as_json: bool) -> int:
    """Evaluate and print; 0."""
    parts = evaluate_all(Cells.read(data), folders=[data], artefacts=FOLDER)
    if as_json:
        print(json.dumps(parts, ensure_ascii=False))
        return 0
    card = parts["step_cost"]
    for family, methods in card["families"].items():
        rows = (
            (f"{method}: {name}", str(its["cells"]), *(_figure(its.get(key)) for key in _COLUMNS.values()))
            for method, names in methods.items()
            for name, its in names.items()
        )
        print_table(f"{family[0].upper()}{family[1:]}", Table(("method: predictor", "cells", *_COLUMNS), tuple(rows)))
        print()
    covered = (
        (f"{group}: {name}", str(its["cells"]), f"{its['inside']:.0%}")
        for group, names in card["coverage"].items()
        for name, its in names.items()
    )
    print_table("Cells in their 90 % interval, one target out", Table(("group", "cells", "inside"), tuple(covered)))
    print()
    print_aims(card["aims"])
    for part in ("acceptance", "benefit"):
        print("\n" + "\n".join(parts[part]["text"]))
    return 0


def print_aims(aims: Iterable[Mapping[str, Any]]) -> None:
    """Each aim beside what was found."""
    met = {True: "yes", False: "NO", None: "not measured"}
    rows = (
        (
            f"{aim['method']}: {aim['name']}", _figure(aim["least"]), _figure(aim["most"]), _figure(aim["found"]),
            met[aim["met"]],
        )
        for aim in aims
    )  # fmt: skip
    print_table("Aims, one target out", Table(("aim", "at least", "at most", "found", "met"), tuple(rows)))


def table_of_own_rows(own: OwnRows) -> Table:
    """Errors before and after the rows joined the fit."""
    rows = (
        (name, str(its.cells), _figure(its.mape), _figure(its.p90), _figure(its.balanced_accuracy), _figure(its.regret))
        for name, its in (("before", own.before), ("after", own.after))
    )
    return Table(("", "cells", "MAPE", "p90", "balanced accuracy", "regret"), tuple(rows))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
