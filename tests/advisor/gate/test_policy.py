"""A policy is what it says: every rule that is not one, or that contradicts another, is refused with its place."""

import re

import pytest
from pydantic import ValidationError

from advisor.gate import GatePolicy
from advisor.gate.policy import Rules, age_seconds

WHOLE = {
    "min_speedup": 1.1, "max_ttft_p95_regression": 0.1, "max_tpot_p95_regression": 0.0, "min_kv_headroom": 0.1,
    "max_slower_share": 0.2, "max_age": "14d", "methods": ["eagle3"],
}  # fmt: skip


def refused(policy):
    """Place and message of the first thing wrong."""
    with pytest.raises(ValidationError) as caught:
        GatePolicy.model_validate(policy)
    first = caught.value.errors()[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]


def test_every_rule_is_read():
    """A policy with all rules states all of them, in the order of the documentation."""
    policy = GatePolicy.model_validate({"objective": "tpot", "confidence": 0.9, "rules": WHOLE})
    assert policy.rules.stated == tuple(WHOLE) == tuple(Rules.model_fields)
    assert (policy.objective_judged, policy.confidence_asked) == ("tpot", 0.9)


def test_what_is_left_out_has_the_documented_default():
    """End to end at 95 %."""
    policy = GatePolicy.model_validate({"rules": {"min_speedup": 1.1}})
    assert (policy.objective_judged, policy.confidence_asked) == ("end_to_end", 0.95)


@pytest.mark.parametrize(
    ("policy", "place", "message"),
    [
        ({"rules": {"min_speed_up": 1.1}}, "rules.min_speed_up", "unknown field 'min_speed_up'.*did you mean 'min_sp"),
        ({"rule": WHOLE}, "rule", "unknown field 'rule'; did you mean 'rules'"),
        ({"rules": {}}, "rules", "no rule is stated"),
        ({"rules": {"methods": []}}, "rules.methods", "no method is allowed, so nothing could ever pass"),
        ({"rules": {"methods": ["ngram", "ngram"]}}, "rules.methods", "a method stands twice"),
        ({"rules": {"methods": ["eagle4"]}}, "rules.methods.0", "unknown method.*did you mean 'eagle'"),
        ({"objective": "tpot", "rules": {"max_age": "1d"}}, "objective", "neither min_speedup nor max_slower_share"),
        ({"confidence": 0.9, "rules": {"max_age": "1d"}}, "confidence", "no rule that is estimated"),
        (
            {"rules": {"min_speedup": 1.2, "max_slower_share": 0.6}},
            "rules.max_slower_share",
            "asks for a gain, max_slower_share 0.6 lets half of the requests lose",
        ),
        ({"rules": {"min_speedup": "1.2"}}, "rules.min_speedup", "expected a number from 0.5 to 20, got '1.2'"),
        ({"confidence": 1.0, "rules": WHOLE}, "confidence", "expected a number from 0.5 to 0.9999, got 1.0"),
        ({"rules": {"max_age": 14}}, "rules.max_age", 'such as "36h" or "14d", got 14'),
        ({"rules": {"max_age": "14 years"}}, "rules.max_age", "expected a time from 1m to 3650d"),
        ({"rules": {"max_slower_share": 0}}, "rules.max_slower_share", "above 0"),
        ({"rules": {"max_ttft_p95_regression": -0.1}}, "rules.max_ttft_p95_regression", "from 0 to 10, got -0.1"),
        ({}, "rules", "Field required"),
    ],
)
def test_what_no_policy_can_mean_is_refused(policy, place, message):
    """Place and message name the rule, what was expected and what came."""
    where, what = refused(policy)
    assert where == place
    assert re.search(message, what)


def test_ages_are_lengths_of_time():
    """36h, 14d and 2w in seconds."""
    assert [age_seconds(text) for text in ("36h", "14d", "2w", "90m")] == [129_600, 1_209_600, 1_209_600, 5400]
