"""Training: the same tables give the same bytes, small and quickly read; own rows are judged where no fit saw them."""

import json
import time
from dataclasses import replace

import numpy as np

from models.artefact import FOLDER, MANIFEST
from models.step_cost import StepCostModel
from models.step_cost.constants import ARTEFACT, CONSTANTS
from models.training.card import CARD, TEXT
from models.training.card_text import model_card
from models.training.cells import Cells
from models.training.own_rows import compare_own_rows
from models.training.train import data_digest, train_step_cost
from tests.models.training.conftest import MEASUREMENTS


def test_training_twice_gives_the_same_bytes(cells, tmp_path):
    """Nothing is drawn and nothing is dated; what ships is what these tables give."""
    digest = data_digest([MEASUREMENTS])
    for name in ("one", "two"):
        train_step_cost(cells, tmp_path / name, data_sha256=digest)
    for name in (ARTEFACT, MANIFEST):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    made = json.loads((tmp_path / "one" / ARTEFACT).read_text())
    shipped = json.loads((FOLDER / ARTEFACT).read_text())
    assert made["data"] == shipped["data"]
    for name in CONSTANTS:
        np.testing.assert_allclose(made["constants"][name]["value"], shipped["constants"][name]["value"], rtol=0.01)


def test_what_is_trained_is_read(cells, tmp_path):
    """A folder of one's own serves as the shipped one does."""
    train_step_cost(cells, tmp_path, data_sha256="00")
    own, shipped = StepCostModel.from_artefact(tmp_path), StepCostModel.from_artefact()
    np.testing.assert_allclose(list(own.constants_.value.values()), list(shipped.constants_.value.values()), rtol=0.01)


def test_artefacts_are_small_and_quickly_read():
    """Under 10 MB together; the step cost is read in under half a second."""
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 10e6
    begin = time.perf_counter()
    StepCostModel.from_artefact(FOLDER)
    assert time.perf_counter() - begin < 0.5


def test_the_shipped_card_is_rendered_from_its_figures():
    """MODEL_CARD.md says what card.json says, word for word."""
    card = json.loads((FOLDER / CARD).read_text(encoding="utf-8"))
    assert model_card(card) == (FOLDER / TEXT).read_text(encoding="utf-8")
    manifest = json.loads((FOLDER / MANIFEST).read_text())["files"]
    assert {name: its["sha256"] for name, its in card["artefacts"].items()} == {
        name: its["sha256"] for name, its in manifest.items()
    }


def test_own_rows_help_where_the_host_differs(cells):
    """A host a third slower in what it launches: errors on rows that neither fit saw shrink once its rows join."""
    both = Cells.read(MEASUREMENTS, MEASUREMENTS)
    own = both.folder > 0
    slow = np.where(own & np.isin(both.method, ("draft_model", "ngram")), 0.75, 1.0)
    found = compare_own_rows(replace(both, output_tokens_per_s=both.output_tokens_per_s * slow))
    assert found is not None
    assert found.before.cells == found.after.cells == int((own & both.judged).sum())
    assert found.after.mape < found.before.mape
    assert compare_own_rows(cells) is None
