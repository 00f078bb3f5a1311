"""What are the shipped models, what were they made from, and how good are they? The card, for programs and for people.

`card.json` has every figure; `MODEL_CARD.md` and `step_cost.md` are rendered from it and say nothing of their own.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from models.artefact import read_manifest
from models.training.aims import aims
from models.training.card_text import model_card, step_cost_tables
from models.training.cells import Cells
from models.training.evaluation import Evaluation, speedup_floor
from models.training.folds import TARGET_OUT
from models.training.learned_residuals import compare_learned
from models.training.residuals import band_table, residual_table

CARD, TEXT, TABLES = "card.json", "MODEL_CARD.md", "step_cost.md"
_LIBRARIES = ("specworth", "numpy", "scipy", "scikit-learn")


def step_cost_card(cells: Cells, evaluation: Evaluation) -> dict[str, Any]:
    """The step cost's part: held-out figures, aims, noise floor, where the errors lie."""
    return evaluation.as_json() | {
        "speedup_noise_floor": round(speedup_floor(evaluation.noise), 4),
        "aims": [asdict(aim) | {"met": aim.met} for aim in aims(evaluation)],
        "bands": band_table(cells, evaluation.predictions[TARGET_OUT]),
        "residuals": residual_table(cells, evaluation.constants, evaluation.predictions[TARGET_OUT].speedups),
        "learned_residuals": compare_learned(cells, evaluation.predictions),
    }


def build_card(parts: Mapping[str, Any], *, folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """The whole card: provenance, and each part's figures under its name."""
    return {
        "made_with": "specworth train",
        "git_revision": git_revision(folders[0]),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES},
        "data": [table for folder in folders for table in _tables(folder)],
        "artefacts": read_manifest(out),
        **parts,
    }


def write_card(card: Mapping[str, Any], out: Path) -> None:
    """Write the three files."""
    (out / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / TEXT).write_text(model_card(card), encoding="utf-8")
    (out / TABLES).write_text(step_cost_tables(card["step_cost"]), encoding="utf-8")


def _tables(folder: Path) -> list[dict[str, Any]]:
    """Name, digest and rows of each table of a folder of measurements."""
    found = []
    for path in sorted(folder.glob("*.csv")):
        content = path.read_bytes()
        found.append(
            {"file": path.name, "sha256": hashlib.sha256(content).hexdigest(), "rows": content.count(b"\n") - 1}
        )
    return found


def git_revision(folder: Path) -> str:
    """The checkout's revision that training started from; "unknown" outside of one."""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
