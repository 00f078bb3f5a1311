"""Evidence: counts are used as they are, carried to other settings with doubt, and refused when they contradict."""

from __future__ import annotations

import numpy as np
import pytest

from models.acceptance import AcceptanceEvidence, AcceptanceInputs, AcceptanceModel, acceptance_from_evidence
from profiler.errors import EvidenceError

MODEL = AcceptanceModel.from_artefact()
MIXTURE = np.full(len(MODEL.coefficients_.classes), 1 / len(MODEL.coefficients_.classes))
COUNTS = {"drafts": 1000, "accepted_tokens": 1500, "drafted_tokens": 3000, "decode_tokens": 2500, "temperature": 0.0}


def evidence(method="eagle3", k=3, **changes):
    return AcceptanceEvidence(method, k, **(COUNTS | changes))


def inputs(method="eagle3", k=3, temperature=0.0):
    return AcceptanceInputs.of(method=method, num_speculative_tokens=k, temperature=temperature, structure=MIXTURE)


def measured(given, rows):
    return acceptance_from_evidence(given, inputs=rows, model=MODEL)


@pytest.mark.parametrize("accepted", [1, 300, 1500, 2990, 3000])
def test_totals_give_their_own_length(accepted):
    """At the evidence's own setting AL is 1 + accepted / drafts, and m is drafts / decode steps."""
    estimate = measured(evidence(accepted_tokens=accepted, decode_tokens=2000 + accepted), inputs())
    np.testing.assert_allclose(estimate.acceptance_length, 1 + accepted / 1000, rtol=1e-6)
    np.testing.assert_allclose(estimate.draft_share, 0.5)
    assert estimate.measured.all()


def test_counts_per_position_give_their_own_conditionals():
    """α_i is accepted at i over accepted at i - 1."""
    given = AcceptanceEvidence("eagle3", 3, drafts=412, accepted_per_position=(390, 301, 240), temperature=0.0)
    estimate = measured(given, inputs())
    np.testing.assert_allclose(estimate.per_position[0, :3], [390 / 412, 301 / 390, 240 / 301], rtol=1e-6)
    np.testing.assert_allclose(estimate.acceptance_length, 1 + 931 / 412, rtol=1e-6)


def test_a_smaller_k_uses_the_positions_that_it_keeps():
    """Counts per position at k = 3 say exactly what k = 2 would accept."""
    given = AcceptanceEvidence("eagle3", 3, drafts=412, accepted_per_position=(390, 301, 240), temperature=0.0)
    estimate = measured(given, inputs(k=[2, 5]))
    np.testing.assert_allclose(estimate.acceptance_length[0], 1 + 691 / 412, rtol=1e-6)
    assert 1 + 931 / 412 < estimate.acceptance_length[1] < 6
    assert estimate.length_log_sd[1] > estimate.length_log_sd[0]


def test_a_hotter_request_than_the_evidence_accepts_less_and_is_less_sure():
    """The model's own difference moves the counts to another temperature, and widens the spread."""
    estimate = measured(evidence(), inputs(temperature=[0.0, 0.5, 1.0]))
    assert (np.diff(estimate.acceptance_length) < 0).all()
    assert (np.diff(estimate.length_log_sd) > 0).all()


def test_more_counts_make_it_surer_and_surer_than_the_prior():
    """The spread shrinks with the counts and lies under the prior's."""
    few = measured(evidence(drafts=100, accepted_tokens=150, drafted_tokens=300, decode_tokens=250), inputs())
    many = measured(evidence(), inputs())
    assert many.length_log_sd < few.length_log_sd < MODEL.predict(inputs()).length_log_sd


def test_rows_of_another_method_keep_the_prior():
    """Evidence speaks for its own method alone."""
    rows = AcceptanceInputs.concatenate([inputs(), inputs("ngram")])
    estimate = measured(evidence(), rows)
    prior = MODEL.predict(rows)
    assert estimate.measured.tolist() == [True, False]
    assert estimate.acceptance_length[1] == prior.acceptance_length[1]
    assert estimate.draft_share[1] == prior.draft_share[1]


def test_lookup_that_never_drafted_gains_nothing():
    """Zero drafts over many decode tokens is evidence: m = 0, one token a step, without doubt."""
    given = AcceptanceEvidence("ngram", 4, drafts=0, accepted_tokens=0, drafted_tokens=0, decode_tokens=2000)
    estimate = measured(given, inputs("ngram", 4))
    assert estimate.tokens_per_step == 1.0
    assert estimate.draft_share_log_sd == 0.0


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"accepted_tokens": 3001}, "accepted_tokens", "3001"),
        ({"accepted_tokens": 3500, "drafted_tokens": None}, "accepted_tokens", "3000"),
        ({"drafted_tokens": 3001}, "drafted_tokens", "3000"),
        ({"accepted_tokens": float("nan")}, "accepted_tokens", "nan"),
        ({"drafts": -1}, "drafts", "-1"),
        ({"drafts": float("inf")}, "drafts", "inf"),
        ({"temperature": float("nan")}, "temperature", "nan"),
        ({"decode_tokens": 2000}, "decode_tokens", "500"),
        ({"drafts": 0, "accepted_tokens": 0, "drafted_tokens": 0}, "drafts", "at least 1"),
        ({"accepted_tokens": None}, "accepted_tokens", "neither"),
        ({"accepted_per_position": (900, 950, 100)}, "accepted_per_position", "do not rise"),
        ({"accepted_per_position": (1001, 400, 99)}, "accepted_per_position", "1000"),
        ({"accepted_per_position": (800, 400, 200, 100)}, "accepted_per_position", "4 counts"),
        ({"accepted_per_position": (800, 400, -1)}, "accepted_per_position", "-1"),
        ({"accepted_per_position": (800, 400, 200)}, "accepted_tokens", "1400"),
    ],
)
def test_contradictions_are_refused_with_their_field(changes, field, words):
    """Counts that cannot be true together are refused; the message names the field and carries the number."""
    with pytest.raises(EvidenceError) as refused:
        evidence(**changes)
    assert refused.value.field == f"evidence.{field}"
    assert words in refused.value.line()


def test_lookup_without_decode_tokens_cannot_say_that_it_never_drafts():
    """Zero drafts alone say nothing: nothing may have run."""
    with pytest.raises(EvidenceError, match="No draft was counted"):
        AcceptanceEvidence("ngram", 4, drafts=0, accepted_tokens=0)


def test_tokens_cut_off_at_the_end_of_answers_are_no_contradiction():
    """vLLM counts accepted tokens that a request's end cuts off: short answers seem to have fewer steps than drafts."""
    seen = evidence(k=5, drafts=6623, accepted_tokens=13379, drafted_tokens=33115, decode_tokens=19430)  # an H200's
    assert seen.draft_share == 1.0
    with pytest.raises(EvidenceError, match="More drafts than decode steps"):
        evidence(drafts=1000, accepted_tokens=1500, decode_tokens=2100)


def test_every_drafted_position_has_its_count():
    """A list shorter than k leaves open what its last positions accepted: never taken as nothing."""
    with pytest.raises(EvidenceError, match="3 counts, one for each draft token") as caught:
        AcceptanceEvidence("eagle3", 3, drafts=412, accepted_per_position=(390, 301))
    assert caught.value.field == "evidence.accepted_per_position"
