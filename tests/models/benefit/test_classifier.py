"""The shipped classifier: one half at the threshold, rising with the margin, quick, and refused where damaged."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from models.artefact import FOLDER, write_numbers
from models.benefit import BenefitClassifier, load_benefit
from models.benefit.classifier import ARTEFACT, FEATURES, KINDS
from profiler.errors import ArtefactError

ALL = [BenefitClassifier(kind, 1.3) for kind in KINDS]
speedups = st.floats(0.1, 8.0)


@pytest.mark.parametrize("classifier", ALL, ids=KINDS)
@given(value=speedups, log_sd=st.floats(0.0, 1.0), one=speedups, other=speedups)
def test_it_falls_with_the_threshold_and_rises_with_the_prediction(classifier, value, log_sd, one, other):
    """A higher threshold is never likelier to be reached, a higher prediction never less likely to reach one."""
    low, high = sorted((one, other))
    assert classifier.probability(value, log_sd, low) >= classifier.probability(value, log_sd, high)
    assert classifier.probability(low, log_sd, value) <= classifier.probability(high, log_sd, value)


@pytest.mark.parametrize("classifier", ALL, ids=KINDS)
@given(value=speedups, log_sd=st.floats(0.0, 1.0), threshold=speedups)
def test_its_side_of_one_half_is_the_prediction_s_side_of_the_threshold(classifier, value, log_sd, threshold):
    """It cannot say enable where the prediction says less than the threshold, nor the other way round."""
    assert classifier.probability(threshold, log_sd, threshold) == 0.5
    enable = classifier.probability(value, log_sd, threshold) >= 0.5
    assert enable == (value >= threshold) or value == pytest.approx(threshold, rel=1e-12)


@pytest.mark.parametrize("classifier", ALL, ids=KINDS)
def test_less_spread_is_surer(classifier):
    """On either side of the threshold a narrower prediction is surer, and a known value is certain."""
    sds = np.array([0.0, 0.05, 0.1, 0.3])
    above, below = classifier.probability(1.2, sds, 1.05), classifier.probability(0.9, sds, 1.05)
    assert (np.diff(above) < 0).all()
    assert (np.diff(below) > 0).all()
    assert above[0] == pytest.approx(1.0)
    assert below[0] == pytest.approx(0.0)


def test_the_bare_numbers_are_scikit_learn_s():
    """The runtime's probabilities are those of the logistic regression whose coefficient it has."""
    rng = np.random.default_rng(1)
    z = rng.normal(0.0, 1.5, 400)
    model = LogisticRegression(fit_intercept=False, C=1e6).fit(z[:, None], rng.random(400) < 1 / (1 + np.exp(-1.2 * z)))
    ours = BenefitClassifier("slope", float(model.coef_[0, 0])).probability(np.exp(z * 0.1), 0.1, 1.0)
    assert ours == pytest.approx(model.predict_proba(z[:, None])[:, 1], abs=1e-12)


def test_two_hundred_rows_take_under_a_millisecond_and_no_scikit_learn():
    """Deciding costs nothing that a request would notice."""
    classifier, rows = load_benefit(), np.linspace(0.6, 2.0, 200)
    spent = []
    for _ in range(20):
        started = time.perf_counter()
        classifier.probability(rows, 0.1, 1.05)
        spent.append(time.perf_counter() - started)
    assert min(spent) < 1e-3
    code = "import sys; from models.benefit import load_benefit; load_benefit().probability(1.1, 0.1, 1.0); "
    code += "print([m for m in ('sklearn', 'scipy', 'joblib') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"


def test_the_shipped_one_tells_why_it_was_chosen():
    """The file has the held-out log losses, and the kind is the one that they ask for."""
    numbers = json.loads((FOLDER / ARTEFACT).read_text())
    loss = numbers["held_out_log_loss"]
    assert (numbers["kind"] == "slope") == (loss["calibrated slope"] < loss["composition alone"] - 0.005)
    assert load_benefit().kind == numbers["kind"]


def write(folder: Path, numbers, features=FEATURES) -> Path:
    write_numbers(ARTEFACT, numbers, features=features, folder=folder, data_sha256="0")
    return folder


def test_a_damaged_artefact_is_refused(tmp_path):
    """Changed by hand, made for other features, or without a usable slope: an error that says what to do."""
    good = write(tmp_path / "good", {"kind": "slope", "slope": 1.1})
    assert load_benefit(good) == BenefitClassifier("slope", 1.1)
    (good / ARTEFACT).write_text((good / ARTEFACT).read_text().replace("1.1", "9.1"))
    load_benefit.cache_clear()
    with pytest.raises(ArtefactError, match=r"damaged.*specworth train"):
        load_benefit(good)
    with pytest.raises(ArtefactError, match="other features"):
        load_benefit(write(tmp_path / "features", {"kind": "slope", "slope": 1.1}, features=("k",)))
    for number, numbers in enumerate([{"kind": "slope", "slope": -1.0}, {"kind": "slope"}, {"kind": "forest"}, {}]):
        with pytest.raises(ArtefactError, match="slope above 0"):
            load_benefit(write(tmp_path / str(number), numbers))
