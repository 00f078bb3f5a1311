"""Training of acceptance: what was drawn is found again, folds keep prompts together, files are the same twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.acceptance import AcceptanceInputs, AcceptanceModel
from models.acceptance.coefficients import coefficients_of, document_of, read_coefficients
from models.artefact import read_manifest
from models.structure import STRUCTURES
from models.training.acceptance import TEXT, acceptance_digest, evaluate_acceptance, train_acceptance
from models.training.acceptance_features import (
    FEATURES_FILE,
    read_features,
    score_prompts,
    scorer_version,
    write_features,
)
from models.training.acceptance_fit import coefficients_of_fit, fit_acceptance
from models.training.acceptance_folds import FAMILIES, PROMPTS_OUT, folds
from models.training.acceptance_priors import read_published
from models.training.acceptance_rows import AcceptanceRows, joined_rows, read_rows
from profiler.measurements import MeasurementsError
from profiler.measurements.acceptance import merge_acceptance
from tests.models.acceptance import simulated

PROMPTS = 12
MEASUREMENTS = Path(__file__).resolve().parents[3] / "data" / "measurements"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Measured tables of a pair whose acceptance is known."""
    found = tmp_path_factory.mktemp("measured")
    simulated.write_sweep(found / "sweep", prompts=PROMPTS)
    merge_acceptance(found / "sweep", found)
    write_features(found, simulated.certain_features(PROMPTS, confidence=0.97))
    return found


@pytest.fixture(scope="module")
def rows(folder) -> AcceptanceRows:
    return read_rows(folder)


@pytest.fixture(scope="module")
def model(rows) -> AcceptanceModel:
    published = read_published()
    return AcceptanceModel.of(coefficients_of_fit(fit_acceptance(rows, published), published))


def predict(model, method, kind, temperature=0.0, k=4, **others):
    structure = np.zeros(len(STRUCTURES))
    structure[STRUCTURES.index(kind)] = 1.0
    return model.predict(AcceptanceInputs.of(
        method=method, num_speculative_tokens=k, temperature=temperature, structure=structure, **others
    ))  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kinds in simulated.KINDS.values() for kind in kinds])
@pytest.mark.parametrize(("temperature", "soft"), [(0.0, False), (0.7, False), (1.0, False), (1.0, True)])
def test_what_was_drawn_is_found_again(model, kind, temperature, soft):
    """First position, greedy and probabilistic, cold and hot, within what a dozen differing prompts can tell."""
    ratio = 0.494 / 1.544
    found = predict(model, "draft_model", kind, temperature, probabilistic=soft, size_ratio=ratio).per_position[0, 0]
    odds = np.log(found / (1 - found))
    assert abs(odds - simulated.true_odds(kind, temperature, soft=soft)) < 0.45


def test_counts_of_cells_are_kept(rows):
    """Prompts' drafts and accepted tokens add up to what the engine counted of their cell."""
    assert len(rows) == len({*zip(rows.cell, rows.prompt, strict=True)})
    for cell in np.unique(rows.cell)[:6]:
        chosen = rows.cell == cell
        k = int(rows.num_speculative_tokens[chosen][0])
        accepted = rows.accepted[chosen]
        assert (rows.drafts[chosen] >= accepted[:, 0] - 1e-9).all()
        assert (np.diff(accepted, axis=1) <= 1e-9).all()
        assert (accepted[:, k:] == 0).all()


def test_longer_matches_are_rarer_and_better(model):
    """What n-gram rows of two settings show is learned: m falls with the shortest match, acceptance does not."""
    short, long = (predict(model, "ngram", "code", lookup_min=least) for least in (2, 5))
    assert long.draft_share < short.draft_share
    assert long.acceptance_length >= short.acceptance_length


@pytest.mark.parametrize("method", ["draft_model", "eagle3", "ngram"])
def test_trained_acceptance_falls_with_temperature_and_rises_with_size(model, method):
    """Whatever the rows say, hotter is never accepted more, a larger drafter never less."""
    for kind in STRUCTURES:
        falling = [predict(model, method, kind, t, size_ratio=0.3).tokens_per_step[0] for t in (0.0, 0.3, 1.0, 1.5)]
        assert (np.diff(falling) <= 1e-12).all()
    rising = [predict(model, "draft_model", "chat", size_ratio=r).acceptance_length[0] for r in (0.01, 0.1, 0.5)]
    assert (np.diff(rising) >= 0).all()


def test_heads_move_with_what_a_draft_model_shows(model):
    """Classes are shared: creative writing, low in the rows, comes out lower for EAGLE-3, too, than published alone."""
    published = read_published()
    empty = joined_rows([])
    alone = AcceptanceModel.of(coefficients_of_fit(fit_acceptance(empty, published), published))
    before, after = (predict(m, "eagle3", "creative") for m in (alone, model))
    assert after.acceptance_length < before.acceptance_length
    before, after = (predict(m, "eagle3", "creative", 1.0) for m in (alone, model))
    assert after.acceptance_length < before.acceptance_length


@pytest.mark.parametrize("family", FAMILIES)
def test_no_prompt_is_on_both_sides_of_a_fold(rows, family):
    """A prompt's rows at all temperatures and methods are held out together, each exactly once."""
    held = np.zeros(len(rows), dtype=int)
    for hidden in folds(rows, family):
        held += hidden
        assert not set(rows.prompt[hidden]) & set(rows.prompt[~hidden])
    assert (held == 1).all()


def test_training_twice_writes_the_same_bytes_and_what_it_wrote_is_read(folder, tmp_path):
    """Deterministic; the artefact is read back through its manifest with spreads wider than nothing."""
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        train_acceptance(folder, out=out)
    for name in ("acceptance.json", "manifest.json", TEXT):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    found = read_coefficients(first)
    assert document_of(coefficients_of(document_of(found))) == document_of(found)
    assert (found.length_log_sd > 0.1).all()
    assert found.share_logit_sd[found.methods.index("ngram")] > 0.1


def test_a_learner_beats_the_mean_and_says_so(folder):
    """With prompts out, the model errs less than the published tables and the mean at the temperature."""
    tables = evaluate_acceptance(folder)
    found = {(row["method"], row["predictor"]): row["MAE of AL"] for row in tables["families"][PROMPTS_OUT]}
    for method in ("draft model", "draft model, probabilistic", "n-gram"):
        assert found[method, "model"] < found[method, "mean at the temperature"]
        assert found[method, "model"] < found[method, "published tables alone"]
    assert any("aim 0.35: met" in line for line in tables["text"])


def test_without_measurements_the_published_tables_are_written(tmp_path):
    """No rows, no failure: the card says that nothing was measured."""
    train_acceptance(tmp_path, out=tmp_path / "out")
    assert (read_coefficients(tmp_path / "out").length_log_sd > 0.2).all()
    assert "No acceptance was measured" in "\n".join(evaluate_acceptance(tmp_path)["text"])


def test_scores_of_another_scorer_are_refused(tmp_path):
    """Features of an older structure classifier are no features of this one."""
    write_features(tmp_path, simulated.certain_features(1))
    path = tmp_path / FEATURES_FILE
    path.write_text(path.read_text().replace(scorer_version(), "an older one"))
    with pytest.raises(MeasurementsError, match="another structure classifier"):
        read_features(tmp_path)


def test_shipped_scores_are_the_shipped_scorer_s():
    """The features beside the measurements are what the installed scorer says of the prompts that the project has."""
    stored = read_features(MEASUREMENTS)
    for prompt_set, file in (("own", "acceptance_prompts.jsonl"), ("holdout", "structure_holdout.jsonl")):
        for key, score in score_prompts(prompt_set, MEASUREMENTS.parent / file).items():
            np.testing.assert_allclose(stored[key], score, atol=2e-4)


def test_shipped_coefficients_are_what_the_shipped_tables_give():
    """The artefact was made from the tables of this checkout by this code; spreads take the whole evaluation."""
    published = read_published()
    again = coefficients_of_fit(fit_acceptance(read_rows(MEASUREMENTS), published), published)
    shipped = read_coefficients()
    assert read_manifest()["acceptance.json"]["data_sha256"] == acceptance_digest(MEASUREMENTS)
    for name in ("intercept", "class_effect", "temperature_slope", "heat", "share_class", "share_copy", "size"):
        np.testing.assert_allclose(getattr(again, name), getattr(shipped, name), atol=1e-4)


def test_shipped_acceptance_never_rises_with_temperature():
    """In every class, for every method, way of drafting and k up to 8, up to temperature 2."""
    model = AcceptanceModel.from_artefact()
    for method in model.coefficients_.methods:
        for soft in (False, True):
            for k in (1, 4, 8):
                taus = [
                    model.predict(AcceptanceInputs.of(
                        method=method, num_speculative_tokens=k, temperature=t, structure=np.eye(len(STRUCTURES)),
                        probabilistic=soft, size_ratio=0.1,
                    )).tokens_per_step
                    for t in np.linspace(0.0, 2.0, 21)
                ]  # fmt: skip
                assert (np.diff(taus, axis=0) <= 1e-9).all()


def test_a_prompt_file_is_scored_by_record(tmp_path):
    """Records are numbered as a sweep numbers them; their labels play no part."""
    file = tmp_path / "some.jsonl"
    file.write_text(
        '{"class": "sql", "prompt": "Write a Python function that reverses a list."}\n'
        '{"class": "code", "prompt": "Write a SQL query that counts the orders of each customer."}\n'
    )
    found = score_prompts("some", file)
    assert STRUCTURES[int(found["some", 0].argmax())] == "code"
    assert STRUCTURES[int(found["some", 1].argmax())] == "sql"
