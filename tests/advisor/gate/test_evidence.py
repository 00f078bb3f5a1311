"""Recommendations and profiles keep a policy, break it, or do not tell; old ones never decide."""

import math
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from advisor import RecommendationRequest, advise
from advisor.gate import GatePolicy, judge_profile, judge_recommendation
from advisor.identity import made_at, new_id
from advisor.recommendation import Warned
from profiler.errors import EvidenceError
from profiler.probe.profile import Profile
from tests.advisor.profiles import point, profile

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def answer():
    """EAGLE-3 for an 8B on an H200: about 1.9 times at 4 requests at once."""
    return advise(
        RecommendationRequest.model_validate(
            {
                "prompts": ["Write a Python function that merges overlapping intervals."],
                "deployment": {
                    "target": "meta-llama/Llama-3.1-8B-Instruct",
                    "gpu": "H200",
                    "speculation": {"method": "eagle3", "num_speculative_tokens": 3},
                },
                "traffic": {"concurrency": 4, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
            }
        )
    )


def policy(**rules):
    top = {name: rules.pop(name) for name in ("objective", "confidence", "concurrency") if name in rules}
    return GatePolicy.model_validate(top | {"rules": rules})


def outcome(verdict, rule):
    return next(one for one in verdict.rules if one.rule == rule)


def test_a_recommendation_that_keeps_all_it_tells_passes(answer):
    """Speedup, headroom, method and age, each with its figure."""
    rules = policy(min_speedup=1.1, min_kv_headroom=0.2, methods=["eagle3"], max_age="1h")
    verdict = judge_recommendation(rules, answer)
    assert verdict.outcome == "pass"
    assert verdict.text == "pass: all 4 rules hold"
    assert outcome(verdict, "min_speedup").figure == answer.speedup.end_to_end.value
    assert outcome(verdict, "min_kv_headroom").figure == answer.memory.spare_bytes / answer.memory.kv_bytes


def test_the_probability_is_that_of_the_answers_own_interval(answer):
    """At the lower bound of a 90 % interval the probability is 95 %: just above it is open, just below it passes."""
    low = answer.speedup.end_to_end.low
    told = [judge_recommendation(policy(min_speedup=low * f), answer).outcome for f in (0.999, 1.001)]
    assert told == ["pass", "not yet"]
    high = answer.speedup.end_to_end.high
    assert judge_recommendation(policy(min_speedup=high * 1.001), answer).outcome == "fail"


def test_the_policys_concurrency_is_looked_up_on_the_curve(answer):
    """The curve's point is judged; one that it lacks is refused with those that it has."""
    at = answer.curve[-1]
    verdict = judge_recommendation(policy(min_speedup=1.1, concurrency=at.concurrency), answer)
    assert outcome(verdict, "min_speedup").figure == at.end_to_end.value
    with pytest.raises(EvidenceError, match="curve has no 5 requests at once; expected one of 1, 2, 4"):
        judge_recommendation(policy(min_speedup=1.1, concurrency=5), answer)


def test_what_a_recommendation_does_not_predict_is_open(answer):
    """Tails and single requests: not yet, with what would tell them, and never a pass."""
    verdict = judge_recommendation(policy(max_ttft_p95_regression=0.1, max_slower_share=0.2), answer)
    assert verdict.outcome == "not yet"
    assert all("measure it: specworth profile" in rule.text for rule in verdict.rules)


def test_a_speedup_that_nothing_measured_covers_is_open(answer):
    """The interval alone would pass; the warning that no measurement covers this keeps the rule open."""
    uncovered = answer.model_copy(update={"warnings": [Warned(code="not_measured_here", text="no such GPU")]})
    rule = outcome(judge_recommendation(policy(min_speedup=1.1), uncovered), "min_speedup")
    assert (rule.outcome, rule.evidence) == ("not yet", "no such GPU")


def test_a_method_that_may_not_be_rolled_out_fails(answer):
    """The policy allows n-gram alone."""
    verdict = judge_recommendation(policy(methods=["ngram"]), answer)
    assert (verdict.outcome, verdict.text) == ("fail", "fail: methods eagle3, not one of ngram")


def test_evidence_that_is_too_old_decides_nothing(answer):
    """Forty days old where fourteen are allowed: not yet, although the method would fail, and what to do is said."""
    later = datetime.now(UTC) + timedelta(days=40)
    verdict = judge_recommendation(policy(max_age="14d", methods=["ngram"]), answer, now=later)
    assert verdict.outcome == "not yet"
    assert outcome(verdict, "max_age").text == "40 days old, at most 14d; ask again: specworth advise --json"
    measured = Profile.model_validate(profile(point(4, 1.5), created="2026-10-01T00:00:00+00:00"))
    verdict = judge_profile(policy(max_age="14d", min_speedup=1.1), measured, now=NOW)
    assert verdict.outcome == "not yet"
    assert outcome(verdict, "max_age").text == "60 days old, at most 14d; measure again: specworth profile"


def test_ids_tell_when_they_were_made():
    """Within a millisecond, in order, and never twice; an id of another kind tells nothing."""
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    ids = [new_id() for _ in range(1000)]
    made = [made_at(one) for one in ids]
    assert before <= made[0] <= made[-1] <= datetime.now(UTC)
    assert made == sorted(made)
    assert len(set(ids)) == 1000
    assert all(uuid.UUID(one).version == 7 and uuid.UUID(one).variant == uuid.RFC_4122 for one in ids)
    assert made_at(uuid.uuid4().hex) is None
    assert made_at("no id") is None


def arm(ttft, tpot):
    def latency(p95):
        return {"mean": p95 / 2, "median": p95 / 2, "p95": p95}

    return {
        "waves": 4, "output_tokens_per_s": 100.0, "mean_in_flight": 4.0, "ttft_ms": latency(ttft),
        "tpot_ms": latency(tpot), "end_to_end_ms": latency(1000.0),
    }  # fmt: skip


def measured(**changes):
    """Both arms at 4 requests at once: 1.5 times, TTFT 10 % slower, TPOT 40 % faster, 3 of 120 pairs slower."""
    known = {
        "pairs": 120, "baseline": arm(100.0, 30.0), "speculative": arm(110.0, 18.0), "slower_end_to_end": 3,
        "slower_tpot": 2,
    }  # fmt: skip
    return Profile.model_validate(profile(point(4, 1.5, **(known | changes)), created=NOW.isoformat()))


def test_a_profile_tells_every_rule_but_headroom_without_waves():
    """Figures are those of the point; a rule is broken by what was measured."""
    rules = policy(
        min_speedup=1.2, max_ttft_p95_regression=0.05, max_tpot_p95_regression=0.0, max_slower_share=0.2,
        min_kv_headroom=0.1, methods=["eagle3"], max_age="1d",
    )  # fmt: skip
    verdict = judge_profile(rules, measured(), now=NOW)
    told = {rule.rule: rule.outcome for rule in verdict.rules}
    assert told == {
        "min_speedup": "pass", "max_ttft_p95_regression": "fail", "max_tpot_p95_regression": "pass",
        "min_kv_headroom": "not yet", "max_slower_share": "pass", "max_age": "pass", "methods": "pass",
    }  # fmt: skip
    assert outcome(verdict, "max_ttft_p95_regression").figure == pytest.approx(0.1)
    assert verdict.outcome == "fail"


def test_looks_widen_what_a_profile_says():
    """An interval that was widened for many looks is taken as wide as it is shown."""
    wide = measured(end_to_end={
        "value": 1.3, "low": 1.3 / math.exp(0.4), "high": 1.3 * math.exp(0.4), "level": 0.9, "looks": 20,
        "log_sd": 0.02, "pairs": 120,
    })  # fmt: skip
    assert judge_profile(policy(min_speedup=1.1), wide, now=NOW).outcome == "not yet"


def test_a_tail_from_few_prompts_is_open():
    """At 95 % a p95 has no bound from fewer than 59 prompts (Wilks): 58 leave it open, 59 do not."""
    told = [
        judge_profile(policy(max_ttft_p95_regression=0.2), measured(pairs=pairs), now=NOW).outcome for pairs in (58, 59)
    ]
    assert told == ["not yet", "pass"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (profile(created=NOW.isoformat()), "the profile compares nothing"),
        (profile(point(4, 1.5), point(8, 1.4)), "several concurrencies; expected the policy's concurrency to be one"),
        (
            profile(point(4, 1.5), created="yesterday"),
            "date is none; expected created as ISO 8601 has it; got 'yesterday",
        ),
    ],
)
def test_profiles_that_cannot_be_judged_are_refused(content, message):
    """Nothing compared, no concurrency chosen among several, or a date that is none."""
    with pytest.raises(EvidenceError, match=message):
        judge_profile(policy(min_speedup=1.1, max_age="1d"), Profile.model_validate(content), now=NOW)


def test_a_date_in_the_future_is_no_age():
    """Evidence of tomorrow is not fresh, it is wrong."""
    verdict = judge_profile(policy(max_age="14d"), measured(), now=NOW - timedelta(days=1))
    assert verdict.outcome == "not yet"
    assert "which is not yet" in verdict.rules[0].evidence
