"""Reasons as what-ifs."""

import re

import pytest

from tests.advisor.deployments import DRAFT_K3, EAGLE3_K3, NGRAM_K4, ask, counts


def factors(answer):
    return [reason.factor for reason in answer.reasons]


def test_each_reason_tells_what_it_would_be_and_what_it_is():
    """Every text ends with the two speedups, and their difference is the effect."""
    answer = ask(speculation=EAGLE3_K3, traffic={"temperature": 0.8})
    for reason in answer.reasons:
        changed, present = map(float, re.search(r"([\d.]+)x instead of ([\d.]+)x$", reason.text).groups())
        assert present == pytest.approx(answer.speedup.end_to_end.value, abs=0.006)
        assert changed - present == pytest.approx(reason.effect, abs=0.011)


def test_temperature_and_structure_are_among_them():
    """A poem at temperature 1 would gain from temperature 0 and from asking for JSON."""
    answer = ask(speculation=EAGLE3_K3, prompts=["Write a surreal poem about rain."] * 4, traffic={"temperature": 1.0})
    effects = {reason.factor: reason.effect for reason in answer.reasons}
    assert effects["temperature"] > 0
    assert effects["structure"] > 0
    assert "temperature 0 instead of 1" in " ".join(reason.text for reason in answer.reasons)


def test_long_prompts_and_large_batches_are_told():
    """At 128 sequences a single one would gain more; at 4,000 tokens shorter prompts would."""
    busy = ask(speculation=EAGLE3_K3, evidence=counts(2.5), traffic={"concurrency": 128})
    assert max(r.effect for r in busy.reasons if r.factor == "concurrency") > 0.5
    long = ask(speculation=EAGLE3_K3, evidence=counts(2.5), traffic={"input_tokens": 4000})
    assert next(r.effect for r in long.reasons if r.factor == "context") > 0.1


def test_the_policys_objective_is_what_reasons_are_about():
    """With TPOT deciding, the present speedup in the texts is that of TPOT."""
    answer = ask(speculation=EAGLE3_K3, traffic={"input_tokens": 8000}, policy={"objective": "tpot"})
    assert f"instead of {answer.speedup.tpot.value:.2f}x" in answer.reasons[0].text


def test_a_draft_models_size_and_an_ngrams_overlap():
    """What decides of one method only is told of that method only."""
    assert "drafter_size" in factors(ask(speculation=DRAFT_K3))
    assert "overlap" in factors(ask(speculation=NGRAM_K4))
    assert not {"drafter_size", "overlap"} & set(factors(ask(speculation=EAGLE3_K3)))


def test_no_reason_says_that_nothing_changes():
    """What rounds to the same speedup is no reason; there is always one."""
    for concurrency in (1, 16, 128):
        for speculation in (EAGLE3_K3, NGRAM_K4):
            reasons = ask(speculation=speculation, traffic={"concurrency": concurrency}).reasons
            assert reasons
            for reason in reasons:
                numbers = re.search(r"([\d.]+)x instead of ([\d.]+)x", reason.text)
                assert numbers is not None
                assert numbers[1] != numbers[2]


def test_a_change_that_turns_the_verdict_says_so():
    """What crosses the threshold is told as paying or not; what stays on its side is not."""
    turned = 0
    for concurrency, threshold in ((64, 1.05), (64, 1.2), (128, 1.05)):
        answer = ask(speculation=EAGLE3_K3, traffic={"concurrency": concurrency}, policy={"min_speedup": threshold})
        present = answer.speedup.end_to_end.value
        for reason in answer.reasons:
            if reason.factor == "acceptance":
                continue
            changed = present + reason.effect
            would = {True: " it would pay: ", False: " it would not pay: "}[changed >= threshold]
            crosses = (changed >= threshold) != (present >= threshold)
            assert (would in reason.text) == crosses
            turned += crosses
    assert turned > 0
