"""Two arms whose truth is known are judged as they are: gains found, losses found, equal arms left undecided."""

import pytest

from advisor.gate import GatePolicy
from advisor.gate.canary_rules import judge_canary
from profiler.errors import EndpointError
from tests.advisor.gate.simulated import Server, Traffic, watched


def policy(objective=None, confidence=0.95, **rules):
    return GatePolicy.model_validate({"objective": objective, "confidence": confidence, "rules": rules})


def last(traffic, looks=40, **arms):
    """The canary at the end of its looks."""
    *_, seen = watched(traffic, looks=looks, **arms)
    return seen


def outcomes(verdict):
    return {rule.rule: rule.outcome for rule in verdict.rules}


TPOT = policy("tpot", min_speedup=1.1, max_tpot_p95_regression=0.0)


def test_equal_arms_are_never_decided_however_often_one_looks():
    """At the very limit every decision is a false one: none in 25 looks at each of 8 pairs of equal arms."""
    limits = policy("tpot", min_speedup=1.0, max_ttft_p95_regression=0.0, max_tpot_p95_regression=0.0)
    for seed in range(8):
        for seen in watched(Traffic(seed=seed), looks=25):
            assert set(outcomes(judge_canary(limits, seen)).values()) == {"not yet"}


def test_a_gain_passes_and_its_figure_is_the_true_one():
    """1.5 times in TPOT passes 1.1; the interval holds the truth, and the evidence tells means, requests and time."""
    verdict = judge_canary(TPOT, last(Traffic(seed=1, tpot_gain=1.5)))
    rule = verdict.rules[0]
    assert verdict.outcome == "pass"
    assert rule.low < 1.5 < rule.high
    assert rule.low > 1.35
    assert "mean time per output token 29.28 ms on the control" in rule.evidence
    assert "in 800 s, 29 blocks" in rule.evidence


def test_a_loss_fails():
    """0.5 times fails the speedup, the tail and the share of slower requests."""
    strict = policy("tpot", min_speedup=1.0, max_tpot_p95_regression=0.1, max_slower_share=0.2)
    verdict = judge_canary(strict, last(Traffic(seed=1, tpot_gain=0.5)))
    assert verdict.outcome == "fail"
    assert set(outcomes(verdict).values()) == {"fail"}
    assert verdict.text.startswith("fail: min_speedup 0.49x (0.4")


def test_end_to_end_counts_the_first_token():
    """A canary with the same TPOT and a quarter of the TTFT is faster end to end and not per output token."""
    seen = last(Traffic(seed=2, ttft_s=2.0, ttft_gain=4.0))
    gained = judge_canary(policy(min_speedup=1.01), seen)
    same = judge_canary(policy("tpot", min_speedup=1.01), seen)
    assert (gained.outcome, same.outcome) == ("pass", "not yet")


def test_slower_first_tokens_are_a_regression():
    """TTFT twice as long fails a p95 that may grow by a tenth, while TPOT keeps its own."""
    rules = policy(max_ttft_p95_regression=0.1, max_tpot_p95_regression=0.5)
    verdict = judge_canary(rules, last(Traffic(seed=3, ttft_gain=0.5)))
    assert outcomes(verdict) == {"max_ttft_p95_regression": "fail", "max_tpot_p95_regression": "pass"}


def test_slower_requests_are_counted_rank_by_rank():
    """At a gain of 3, few can be slower; the bounds hold the truth (none), and the upper one is below a half."""
    verdict = judge_canary(policy("tpot", max_slower_share=0.3), last(Traffic(seed=4, tpot_gain=3.0, per_look=80)))
    rule = verdict.rules[0]
    assert rule.outcome == "pass"
    assert rule.figure == pytest.approx(0.0, abs=0.01)


def test_a_p95_inside_one_bucket_is_said_to_be_interpolated():
    """Both p95 between 50 and 75 ms: the reader is told that no bucket lies between them."""
    rule = judge_canary(policy(max_tpot_p95_regression=0.1), last(Traffic(seed=1))).rules[0]
    assert "both inside the bucket 50 to 75 ms, read by interpolation" in rule.evidence


def test_inter_token_latencies_are_never_taken():
    """An engine that shows them alone leaves TPOT open, whatever they say: under speculation they are of steps."""
    arms = {"control": Server(inter_token=True), "canary": Server(speculates=True, inter_token=True)}
    verdict = judge_canary(TPOT, last(Traffic(seed=1, tpot_gain=3.0), **arms))
    assert outcomes(verdict) == {"min_speedup": "not yet", "max_tpot_p95_regression": "not yet"}
    assert "inter-token latencies cannot compare the arms" in verdict.rules[0].evidence


def test_headroom_is_that_of_the_fullest_reading():
    """A KV cache that was once nine tenths full has a tenth of headroom, though it is half full now."""
    canary = Server(speculates=True)
    for number, seen in enumerate(watched(Traffic(), looks=6, canary=canary), start=1):
        canary.kv_usage = 0.9 if number == 3 else 0.5
        verdict = judge_canary(policy(confidence=None, min_kv_headroom=0.2), seen)
    assert verdict.outcome == "fail"
    assert verdict.rules[0].figure == pytest.approx(0.1)


def test_the_method_is_what_the_caller_says():
    """/metrics does not tell it: unknown is not yet, and the remedy names the option."""
    seen = last(Traffic(), looks=3)
    rules = policy(confidence=None, methods=["eagle3"], max_age="1h")
    told = [judge_canary(rules, seen, method=method) for method in (None, "eagle3", "ngram")]
    assert [verdict.outcome for verdict in told] == ["not yet", "pass", "fail"]
    assert "say it with --method" in told[0].rules[1].text
    assert told[2].text == "fail: methods ngram, not one of eagle3"


def test_a_restart_inside_the_window_is_refused():
    """Counters that fall void the window; the message names the arm."""
    canary = Server(speculates=True)
    looks = watched(Traffic(), looks=9, canary=canary)
    for _ in range(5):
        next(looks)
    canary.restart()
    with pytest.raises(EndpointError, match="the canary http://canary restarted inside the window"):
        next(looks)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_gain": 3.0}, "different traffic: their prompts differ in length.*mean lengths"),
        (
            {"load_ratio": 0.3},
            "different traffic: one is under more load.*requests per engine.*split the same requests",
        ),
    ],
)
def test_arms_that_see_different_traffic_are_refused(change, message):
    """Longer prompts, or a third of the load on one arm: refused with what differs."""
    with pytest.raises(EndpointError, match=message):
        last(Traffic(seed=5, **change))


def test_equal_traffic_is_not_refused():
    """Ten pairs of arms under one router are all let through."""
    for seed in range(10):
        last(Traffic(seed=100 + seed, tpot_gain=1.4), looks=20)


def test_no_traffic_decides_nothing():
    """Servers that finish no request leave every estimated rule open, and say what is missing."""
    verdict = judge_canary(TPOT, last(Traffic(per_look=0.0), looks=4))
    assert verdict.outcome == "not yet"
    assert "0 and 0 requests in 80 s, 0 blocks; 8 blocks are needed" in verdict.rules[0].evidence
