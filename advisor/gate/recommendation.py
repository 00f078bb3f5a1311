"""Does a recommendation (`specworth advise --json`) keep a policy?

It predicts speedups, memory and the method. It predicts no tails of latencies and no single requests: those rules stay
open, with what would tell them. So does a speedup that no measurement of ours covers, whatever its interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from advisor.gate.policy import GatePolicy
from advisor.gate.rules import exact, implied_log_sd, judge_age, judge_method, speedup_rule, unknown
from advisor.gate.verdict import GateVerdict, RuleOutcome, combine
from advisor.identity import made_at
from advisor.recommendation import Interval, Recommendation
from advisor.verdict import probability_of
from profiler.errors import EvidenceError

_MEASURE = "measure it: specworth profile, or gate two servers with --control and --canary"
_RENEW = "ask again: specworth advise --json"


def judge_recommendation(
    policy: GatePolicy, recommendation: Recommendation, *, now: datetime | None = None
) -> GateVerdict:
    """The verdict.

    Raises:
        EvidenceError: the policy asks for a concurrency that the recommendation's curve does not have.
    """
    now = now or datetime.now(UTC)
    chosen = recommendation.candidate
    draft = f" with {chosen.draft}" if chosen.draft else ""
    return combine(
        _rules(policy, recommendation, now=now),
        kind="recommendation",
        subject=f"{chosen.method}{draft}, k = {chosen.num_speculative_tokens} ({recommendation.basis})",
        confidence=policy.confidence_asked,
        now=now,
    )


def _rules(policy: GatePolicy, answer: Recommendation, *, now: datetime) -> Iterator[RuleOutcome]:
    for rule in policy.rules.stated:
        if rule == "min_speedup":
            yield _speedup(policy, answer)
        elif rule == "min_kv_headroom":
            yield _headroom(policy, answer)
        elif rule == "max_age":
            yield judge_age(policy, made_at(answer.id), now=now, what="the recommendation", renew=_RENEW)
        elif rule == "methods":
            yield judge_method(policy, answer.candidate.method, evidence="the candidate that was judged", remedy="")
        else:
            yield unknown(
                policy, rule, "a recommendation predicts means, not tails or single requests", remedy=_MEASURE
            )


def _speedup(policy: GatePolicy, answer: Recommendation) -> RuleOutcome:
    interval, where = _interval(policy, answer)
    objective = "end to end" if policy.objective_judged == "end_to_end" else "per output token"
    log_sd = implied_log_sd(interval.low, interval.high, level=answer.speedup.level)
    limit = policy.rules.min_speedup
    assert limit is not None
    found = speedup_rule(
        policy, value=interval.value, low=interval.low, high=interval.high,
        probability=probability_of(interval.value, log_sd, min_speedup=limit),  # as the recommendation itself has it
        evidence=f"{answer.basis} speedup {objective} {where}",
    )  # fmt: skip
    blocked = next((reason.text for reason in answer.reasons if reason.factor == "cannot_run"), None)
    if blocked is not None:
        return found.model_copy(update={"outcome": "fail", "text": f"cannot run: {blocked}", "evidence": blocked})
    uncovered = next((one.text for one in answer.warnings if one.code == "not_measured_here"), None)
    if found.outcome == "pass" and answer.basis == "predicted" and uncovered is not None:
        text = f"{found.text}; {_MEASURE}"
        return found.model_copy(update={"outcome": "not yet", "text": text, "evidence": uncovered})
    return found


def _interval(policy: GatePolicy, answer: Recommendation) -> tuple[Interval, str]:
    if policy.concurrency is None:
        return getattr(answer.speedup, policy.objective_judged), f"at {answer.workload.concurrency:g} requests at once"
    points = {point.concurrency: point for point in answer.curve}
    if policy.concurrency not in points:
        raise EvidenceError(
            f"the recommendation's curve has no {policy.concurrency} requests at once",
            expected=f"one of {', '.join(str(c) for c in sorted(points))}", got=str(policy.concurrency),
            remedy="leave concurrency out for the one that was asked", field="policy.concurrency",
        )  # fmt: skip
    found: Interval = getattr(points[policy.concurrency], policy.objective_judged)
    return found, f"at {policy.concurrency} requests at once"


def _headroom(policy: GatePolicy, answer: Recommendation) -> RuleOutcome:
    limit, memory = policy.rules.min_kv_headroom, answer.memory
    assert limit is not None
    value = memory.spare_bytes / memory.kv_bytes if memory.kv_bytes > 0 else 0.0
    return exact(
        "min_kv_headroom", value, limit=limit, at_least=True, spec="%",
        evidence=f"of {memory.kv_tokens:,} tokens of KV cache under {answer.workload.concurrency:g} requests at once",
    )  # fmt: skip
