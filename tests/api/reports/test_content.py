"""A report says what the answer says: every number of it, on what it rests, and how to get it again."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from api.report.review.advice import review_advice
from api.report.review.document import Figure, Review
from api.report.review.html import html
from api.report.review.markdown import markdown
from api.report.review.measured import review_profile
from tests.api.reports.conftest import SECRET_TEXT, Parsed, Reviewed, profile_of, provenance, reviewed, sample_of


@cache
def plain(review: Review, kind: str) -> str:
    """All text of a rendering, as a reader sees it."""
    if kind == "html":
        return " ".join(Parsed(html(review)).text.split())
    return " ".join(re.sub(r"\\([\\`*_{}\[\]<>#|&$~])", r"\1", markdown(review)).split())


both = pytest.mark.parametrize("kind", ["html", "md"])


@both
def test_the_answers_numbers_are_the_reports(advice, kind):
    """Speedups with intervals, the whole curve, acceptance, memory, alternatives, reasons: each as answered."""
    answer, text = advice.answer, plain(advice.review, kind)
    for interval in (answer.speedup.end_to_end, answer.speedup.tpot):
        assert f"{interval.value:.2f}x" in text
        assert f"{interval.low:.2f} to {interval.high:.2f}" in text
    for point in answer.curve:
        assert f"{point.end_to_end.low:.2f} to {point.end_to_end.high:.2f}" in text
        assert f"{point.tpot.value:.2f}x" in text
    for alpha in answer.acceptance.per_position:
        assert f"{alpha:.1%}" in text
    for length in answer.acceptance.by_structure.values():
        assert f"{length.low:.2f} to {length.high:.2f}" in text
    for tokens in (answer.memory.kv_tokens, answer.memory.kv_tokens_without):
        assert f"{tokens:,}" in text
    for told in (*answer.reasons, *answer.alternatives, *answer.warnings):
        assert told.text[1:].rstrip(".") in text
    for reason in answer.reasons:
        assert f"{reason.effect:+.2f}x" in text


@both
def test_the_decision_stands_first_with_its_figures(advice, kind):
    """A sentence with speedup, load and interval; before it no more than what it is about."""
    text, review = plain(advice.review, kind), advice.review
    assert text.index(review.decision) < text.index("1. Decision")
    assert f"{advice.answer.speedup.end_to_end.value:.2f}x" in review.decision
    assert review.mark == ("Enable" if advice.answer.verdict == "enable" else "Leave off")


@both
def test_vllms_command_can_be_copied_whole(advice, kind):
    """Every argument, the speculative config as the JSON that vLLM reads."""
    text = html(advice.review) if kind == "html" else markdown(advice.review)
    if kind == "html":
        text = Parsed(text).text
    config = advice.answer.configuration.speculative_config
    assert config is not None
    assert f"--speculative-config '{json.dumps(config)}'" in text


@both
def test_evidence_says_what_is_measured_predicted_assumed_covered_and_missing(advice, kind):
    """All five, in words that are true of this answer."""
    text = plain(advice.review, kind)
    for term in ("Measured", "Predicted", "Assumed", "Coverage", "Accuracy", "Gaps"):
        assert term in text
    assert "Nothing of this deployment: all below is predicted" in text
    assert "with its defaults: gpu_memory_utilization 0.92" in text
    assert "Step costs were measured on H200" in text
    assert "None: this deployment lies inside what was measured" in text


def test_gaps_are_those_of_the_answer():
    """A GPU that nobody measured and a handful of prompts are told as gaps."""
    text = plain(reviewed(sample_of("Write a haiku."), deployment=_on("L40S")).review, "md")
    gaps = text[text.index("Gaps") :]
    assert "No measurement on this GPU" in gaps
    assert "Only 1 prompt was read" in gaps
    assert "Not decisive" in text


def test_counts_and_a_profile_are_told_as_measured():
    """What was counted, or timed, stands under Measured, and measured points beside the curve."""
    head = {"method": "eagle3", "num_speculative_tokens": 3, "draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}
    deployment = _on("H200") | {"speculation": head}
    sample = sample_of("Write a haiku.")
    counted = reviewed(
        sample, deployment=deployment, evidence={"drafts": 412, "accepted_tokens": 931, "temperature": 0.0}
    )
    assert "931 accepted tokens in 412 drafts. No speedup was measured" in plain(counted.review, "md")
    given = profile_of()
    probed = reviewed(sample, deployment=deployment, evidence={"profile": given})
    text = plain(probed.review, "html")
    assert "A complete profile of 2026-11-30T11:00:00+00:00: 3 points" in text
    assert "Measured at 64: 0.94x" in text
    curve = next(b for s in probed.review.sections for b in s.blocks if isinstance(b, Figure)).chart
    assert [load for load, _ in curve.measured] == [4, 16, 64]
    assert "counted" in text


@both
def test_disabled_or_blocked_answers_are_reports_too(kind):
    """Nothing to switch on is a decision as well: no speculative config, and why."""
    deployment = _on("H200") | {"speculation": {"method": "ngram", "num_speculative_tokens": 4}}
    traffic = {"concurrency": 256, "temperature": 1.0, "input_tokens": 128, "output_tokens": 128}
    off = reviewed(sample_of("Write a poem.", "Write another."), deployment=deployment, traffic=traffic)
    assert off.answer.verdict == "disable"
    assert "no speculative config at all" in plain(off.review, kind)
    old = _on("H200") | {"speculation": {"method": "suffix", "num_speculative_tokens": 4}, "engine_version": "0.9.0"}
    assert "cannot run here" in plain(reviewed(sample_of("Write a poem."), deployment=old).review, kind)


@both
def test_it_can_be_repeated_and_holds_no_prompt(advice, kind):
    """Command, versions, dates, digests; of the prompts a number and a hash, never a text."""
    text = plain(advice.review, kind)
    source = provenance(advice.sample).source
    assert f"SHA-256 {source.sha256}" in text
    assert "30 prompts" in text
    assert re.search(r"manifest\.json\): SHA-256 [0-9a-f]{64}", text)
    assert re.search(r"specworth \S+, Python 3\.\d+\.\d+, numpy", text)
    assert "answered 30 November 2026, 12:00:00 UTC" in text
    assert advice.answer.id in text
    assert advice.answer.model_version in text
    assert SECRET_TEXT not in text
    assert "Frobnicate" not in text


def test_an_answer_of_other_models_does_not_borrow_the_accuracy_of_these(advice):
    """A stored answer may be older than the installed artefacts."""
    old = advice.answer.model_copy(update={"model_version": "step_cost 00000000"})
    text = plain(review_advice(old, advice.request, provenance(advice.sample, old)), "md")
    assert "made by other models than those installed now" in text
    assert "Accuracy" not in text


@both
def test_a_measurements_numbers_are_the_reports(measurement, profile, kind):
    """Every point, latency, count, wave; what was refused; the crossover."""
    text = plain(measurement, kind)
    for point in profile.points:
        assert f"{point.end_to_end.value:.2f}x {point.end_to_end.low:.2f}" in text.replace(" | ", " ") or kind == "html"
        assert f"{point.end_to_end.low:.2f} to {point.end_to_end.high:.2f}" in text
    for said in (
        "It pays at 16 and no longer at 64", "20.25 / 33.50", "70.0%", "71.4%", "60.0%", "2.50", "1.75",
        "3 x a prompt (baseline): longer than the server's context", "12.3", "31 / 32", "12.0%", "20.0%", "40.00",
        "16 requests at once are assumed",
    ):  # fmt: skip
        assert said in text, said


def test_a_session_that_ended_early_says_so_first(profile):
    """Partial is told in the decision, and as a gap."""
    part = profile.model_copy(update={"status": "partial", "ended": "stopped by SIGTERM"})
    text = plain(review_profile(part, provenance(sample_of("x"))), "md")
    assert text.index("ended early (stopped by SIGTERM)") < text.index("2. Evidence")


def test_a_profile_without_points_or_baseline_is_a_report_too(profile):
    """Nothing is made up where nothing was measured."""
    nothing = profile_of(points=[], waves=[], acceptance=None, structure={})
    assert "None is known" not in plain(review_profile(nothing, provenance(sample_of("x"))), "md")
    alone = [profile.points[0].model_copy(update={"end_to_end": None, "tpot": None, "baseline": None})]
    counted = profile.model_copy(update={"points": tuple(alone), "decision": profile.decision.model_copy(
        update={"verdict": None, "decisive": False})})  # fmt: skip
    text = plain(review_profile(counted, provenance(sample_of("x"))), "html")
    assert "No verdict" in text
    assert "At 4 at once no speedup is known" in text


def test_every_figure_has_its_numbers_in_a_table(advice: Reviewed, measurement):
    """Nothing is told by a picture alone."""
    for review in (advice.review, measurement):
        figures = [block for section in review.sections for block in section.blocks if isinstance(block, Figure)]
        assert len(figures) >= 3
        assert all(figure.numbers.table.rows and figure.description for figure in figures)
        assert len({figure.name for figure in figures}) == len(figures)


def _on(gpu: str) -> dict[str, object]:
    return {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": gpu}
