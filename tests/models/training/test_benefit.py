"""What the benefit classifier learns from: nested predictions, weights that make a workload, and a card that agrees."""

import json
from dataclasses import replace

import numpy as np
import pytest

from models.artefact import FOLDER
from models.benefit.classifier import ARTEFACT
from models.training.benefit import evaluate_benefit, train_benefit
from models.training.benefit_card import CARD
from models.training.benefit_learners import LEARNERS
from models.training.benefit_rows import FEATURES, GIVEN, PREDICTED, THRESHOLDS, Nested, balanced, questions
from models.training.folds import TARGET_OUT
from tests.models.training.conftest import MEASUREMENTS


@pytest.fixture(scope="module")
def nested(cells):
    return Nested(cells)


@pytest.fixture(scope="module")
def composed(cells, nested):
    return nested.compose(np.ones(len(cells), dtype=bool))


def ask(cells, found, rows=None, mode=GIVEN):
    every = np.ones(len(cells), dtype=bool) if rows is None else rows
    return questions(cells, found, every, thresholds=THRESHOLDS, mode=mode, spare=np.ones(len(cells)))


def test_a_held_out_target_s_measurements_change_nothing_of_what_is_said_about_it(cells):
    """Doubling its throughputs moves neither its predictions and spreads nor what the others are trained on."""
    out = cells.target == "Qwen3-32B"
    faster = np.where(out & cells.speculative, 2.0 * cells.output_tokens_per_s, cells.output_tokens_per_s)
    other = Nested(replace(cells, output_tokens_per_s=faster))
    before, after = Nested(cells).compose(~out), other.compose(~out)
    judged = cells.judged
    assert np.array_equal(before.log_speedup[judged], after.log_speedup[judged])
    assert np.array_equal(before.log_sd[judged], after.log_sd[judged])
    assert np.array_equal(ask(cells, before, ~out).features, ask(other.cells, after, ~out).features)


def test_a_target_s_rows_are_predicted_by_a_fit_without_them(cells, nested, composed):
    """The training rows are out of fold: what they say is what a fit to the other targets says."""
    own = cells.target == "Qwen3-4B"
    without = nested.compose(~own)
    rows = own & cells.judged
    assert np.array_equal(composed.log_speedup[rows], without.log_speedup[rows])
    shared = cells.baseline[rows]
    assert own[shared].all()  # so that no baseline cell stands on both sides


def test_labels_are_measured_and_thresholds_enter_as_margins(cells, composed):
    """A question pays where the measured speedup reaches its threshold; its margin is log(prediction / threshold)."""
    asked = ask(cells, composed)
    assert np.array_equal(asked.pays, cells.speedup[asked.cell] >= asked.threshold)
    assert asked.features[:, FEATURES.index("log_margin")] == pytest.approx(np.log(asked.prediction / asked.threshold))
    assert min(THRESHOLDS) > 1.0
    assert max(THRESHOLDS) < 1.5


def test_predicted_acceptance_is_wider(cells, composed):
    """Where acceptance is predicted the spread includes what the acceptance model leaves open."""
    given, predicted = ask(cells, composed), ask(cells, composed, mode=PREDICTED)
    assert len(predicted) == 5 * len(given)
    for method in np.unique(cells.method[cells.judged]):
        wide, narrow = (np.median(q.log_sd[cells.method[q.cell] == method]) for q in (predicted, given))
        assert wide > narrow


def test_weights_make_groups_alike_and_change_no_label(cells, composed):
    """Groups of target, method, k and band count the same; a workload's margins at most fourfold or a quarter."""
    asked = ask(cells, composed)
    even = balanced(cells, asked)
    by_target = {t: even[cells.target[asked.cell] == t].sum() for t in np.unique(cells.target[cells.judged])}
    assert sum(by_target.values()) == pytest.approx(1.0)
    assert asked.weight.sum() == pytest.approx(1.0)
    ratio = asked.weight / even
    assert ratio.max() / ratio.min() <= 16.0 * (1 + 1e-9)


@pytest.mark.parametrize("learner", [x for x in LEARNERS if x.consistent], ids=lambda x: x.name)
def test_consistent_learners_are_on_the_prediction_s_side(cells, composed, learner):
    """Those that could ship: at least 0.5 where the prediction reaches the threshold, at most 0.5 below."""
    asked = ask(cells, composed)
    p = learner.fit(cells, asked)(asked)
    assert (p[asked.margin > 0] >= 0.5 - 1e-12).all()
    assert (p[asked.margin < 0] <= 0.5 + 1e-12).all()


def test_training_again_gives_what_ships(cells, tmp_path):
    """The shipped artefact was made from these cells: the same choice, and the slope where it is used."""
    found = evaluate_benefit(cells, folders=[MEASUREMENTS], artefacts=FOLDER, families=(TARGET_OUT,), processes=1)
    train_benefit(found, tmp_path, data_sha256="0")
    made, shipped = (json.loads((folder / ARTEFACT).read_text()) for folder in (tmp_path, FOLDER))
    assert shipped["data"]["cells"] == made["data"]["cells"]
    assert shipped["kind"] == made["kind"]
    assert shipped["kind"] == "composition" or shipped["slope"] == pytest.approx(made["slope"], rel=0.02)


def test_the_card_is_of_the_shipped_classifier():
    """Its digest of the data, its slope and its decisive log losses are the artefact's."""
    text, numbers = (FOLDER / CARD).read_text(), json.loads((FOLDER / ARTEFACT).read_text())
    assert numbers["data"]["sha256"][:16] in text
    assert f"{numbers['slope']:g}" in text
    loss = numbers["held_out_log_loss"]
    said = f"Composition alone {loss['composition alone']:.3f}, with a calibrated slope {loss['calibrated slope']:.3f}"
    assert said in text
