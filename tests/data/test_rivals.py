"""The file of a rival's predictions joins to the measured cells and holds nothing but plausible speedups."""

import csv
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data"
KEY = ("target", "quantization", "method", "drafter", "num_speculative_tokens", "concurrency", "input_tokens",
       "output_tokens", "temperature")  # fmt: skip
SPEEDUPS = [f"{mode}_{of}" for mode in ("speedup", "static", "agg", "agg_budget") for of in ("end_to_end", "tpot")]


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def predictions():
    return table(DATA / "rivals" / "aiconfigurator.csv")


@pytest.fixture(scope="module")
def cells():
    return {row["cell_id"]: row for row in table(DATA / "measurements" / "cost_cells.csv")}


def test_every_prediction_is_of_one_measured_cell(predictions, cells):
    """Each cell is predicted once, is speculative and has a baseline; what the file repeats of it is the cell's own."""
    keys = [row["cell_id"] for row in predictions]
    assert keys
    assert len(set(keys)) == len(keys)
    for row in predictions:
        cell = cells[row["cell_id"]]
        assert {name: row[name] for name in KEY} == {name: cell[name] for name in KEY}
        assert cell["method"] != "none"
        assert cell["speedup_end_to_end"]


def test_answers_are_positive_and_silence_is_explained(predictions):
    """A row has all speedups, each positive and below what k + 1 tokens a step could give, or says why it has none."""
    for row in predictions:
        if row["unknown"]:
            assert not any(row[name] for name in SPEEDUPS)
            continue
        for name in SPEEDUPS:
            assert 0.0 < float(row[name]) <= float(row["num_speculative_tokens"]) + 1.0


def test_the_rival_is_one_of_the_modes(predictions):
    """What the file calls the rival's speedup is the named mode's, the same mode in every row."""
    answered = [row for row in predictions if not row["unknown"]]
    assert len({(row["mode"], row["version"], row["data_version"]) for row in answered}) == 1
    for row in answered:
        assert row["speedup_end_to_end"] == row[f"{row['mode']}_end_to_end"]
        assert row["speedup_tpot"] == row[f"{row['mode']}_tpot"]


def test_the_other_models_price_is_given_for_draft_models_alone(predictions):
    """Only where there is another model to price is its price put together with the target's."""
    for row in predictions:
        priced = bool(row["composed_end_to_end"])
        assert priced == (row["method"] == "draft_model" and not row["unknown"])
        assert not priced or (float(row["composed_end_to_end"]) > 0.0 and float(row["composed_tpot"]) > 0.0)
