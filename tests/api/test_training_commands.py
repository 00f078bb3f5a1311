"""`specworth train` and `specworth evaluate`, by the installed script, on few cells of two targets (it is quicker)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler.measurements.table import read_cells, read_engines, write_cells, write_engines

DATA = Path(__file__).parents[2] / "data" / "measurements"
TARGETS = ("Qwen3-4B", "Qwen3-32B")


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    """A folder of measurements with few cells, its shapes beside it."""
    folder = tmp_path_factory.mktemp("measured")
    few = [row for row in read_cells(DATA) if row["target"] in TARGETS and row["concurrency"] <= 2]
    write_cells(folder, few)
    write_engines(folder, [row for row in read_engines(DATA) if row["target"] in TARGETS])
    (folder / "shapes.yaml").write_text((DATA.parent / "grids" / "shapes.yaml").read_text())
    return folder


def test_evaluate_tells_every_family_and_rival_as_json(specworth, tables):
    """Held-out figures of the model and of what it has to beat, for a program to read."""
    result = specworth("evaluate", "--data", tables, "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert set(told) == {"step_cost", "acceptance", "benefit"}
    cost = told["step_cost"]
    both = cost["families"]["one target out"]["eagle3"]
    assert {"specworth", "AL / (1 + k c)", "roofline alone", "always enable"} <= set(both)
    assert both["specworth"]["mape"] < both["AL / (1 + k c)"]["mape"]
    assert {"mape", "p90", "tpot_mape", "balanced_accuracy", "regret", "calibration_error", "coverage"} <= set(
        both["specworth"]
    )
    assert {"target", "method", "concurrency"} <= set(cost["coverage"])
    assert all(isinstance(aim["met"], bool) for aim in cost["aims"])


def test_train_writes_a_folder_that_serves_and_judges_own_rows(specworth, tables, tmp_path):
    """Artefacts, manifest and card; rows of a second folder are told before and after."""
    result = specworth("train", "--data", tables, "--data", tables, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    for said in ("Aims, one target out", "Your own speculative rows", "before", "after", str(tmp_path)):
        assert said in result.stdout
    card = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    assert {entry["file"] for entry in card["data"]} == {"cost_cells.csv", "engines.csv"}
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert set(manifest["files"]) == set(card["artefacts"])
    assert "# Model card" in (tmp_path / "MODEL_CARD.md").read_text(encoding="utf-8")
    prompts = Path(__file__).parents[2] / "data" / "example_prompts.jsonl"
    ask = ("advise", prompts, "--target", "Qwen/Qwen3-4B", "--gpu", "H200", "--concurrency", "2", "--json")
    shipped = json.loads(specworth(*ask).stdout)
    answer = specworth(*ask, SPECWORTH_MODELS=str(tmp_path))
    assert answer.returncode == 0, answer.stderr
    own = json.loads(answer.stdout)
    assert manifest["files"]["step_cost.json"]["sha256"][:8] in own["model_version"]
    assert own["model_version"] != shipped["model_version"]
    assert own["speedup"] != shipped["speedup"]


def test_a_folder_that_holds_no_models_is_one_line(specworth, tmp_path):
    """A typing mistake in SPECWORTH_MODELS must not fall back to the shipped numbers."""
    result = specworth("advise", "-", "--target", "Qwen/Qwen3-4B", "--gpu", "H200", stdin="Count to ten.",
                       SPECWORTH_MODELS=str(tmp_path / "nowhere"))  # fmt: skip
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    for said in ("nowhere", "manifest", "specworth train --out", "SPECWORTH_MODELS"):
        assert said in result.stderr


@pytest.mark.parametrize("command", [("evaluate",), ("train", "--out", "never")])
def test_a_folder_without_measurements_is_one_line(specworth, tmp_path, command):
    """The installed package carries no measurements: the message says where they lie, and nothing is written."""
    result = specworth(*command, "--data", tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "data/measurements in a checkout" in result.stderr
    assert not Path("never").exists()
