"""Does one figure keep one rule? The same judgement whatever the figure comes from.

A figure with bounds passes where the whole of its interval keeps the limit, fails where none of it does, and is else
not yet decided. A lognormal figure (a predicted or measured speedup) is judged by P(speedup >= limit) against the
policy's confidence, which is the same for a one-sided interval of that level. No figure is never a pass.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from scipy.special import ndtri

from advisor.gate.policy import GatePolicy, age_seconds
from advisor.gate.verdict import Outcome, RuleOutcome


def between(low: float, high: float, *, limit: float, at_least: bool) -> Outcome:
    """What an interval says of a limit that the figure must reach (`at_least`), or must not exceed."""
    if at_least:
        return "pass" if low >= limit else "fail" if high < limit else "not yet"
    return "pass" if high <= limit else "fail" if low > limit else "not yet"


def bounded(
    rule: str, value: float, low: float, high: float, *, limit: float, at_least: bool, spec: str, evidence: str
) -> RuleOutcome:
    """The outcome of a figure with bounds; `spec` is "x" for a factor, "%" for a share, "+%" for a change."""
    outcome = between(low, high, limit=limit, at_least=at_least)
    sign = "at least" if at_least else "at most"
    interval = f"{_spoken(low, spec)} to {_spoken(high, spec)}"
    return RuleOutcome(
        rule=rule, outcome=outcome, figure=_finite(value), low=_finite(low), high=_finite(high), limit=limit,
        text=f"{_spoken(value, spec)} ({interval}), {sign} {_spoken(limit, spec)}", evidence=evidence,
    )  # fmt: skip


def exact(rule: str, value: float, *, limit: float, at_least: bool, spec: str, evidence: str) -> RuleOutcome:
    """The outcome of a figure that has no bounds."""
    outcome = between(value, value, limit=limit, at_least=at_least)
    text = f"{_spoken(value, spec)}, {'at least' if at_least else 'at most'} {_spoken(limit, spec)}"
    return RuleOutcome(rule=rule, outcome=outcome, figure=value, limit=limit, text=text, evidence=evidence)


def unknown(policy: GatePolicy, rule: str, why: str, *, remedy: str) -> RuleOutcome:
    """A rule that this evidence says nothing about."""
    limit = getattr(policy.rules, rule)
    limit = list(limit) if isinstance(limit, tuple) else limit
    return RuleOutcome(
        rule=rule, outcome="not yet", figure=None, limit=limit, text=f"is not told; {remedy}", evidence=why
    )


def implied_log_sd(low: float, high: float, *, level: float) -> float:
    """Standard deviation of the logarithm of what a lognormal interval of this level was made from."""
    return math.log(high / low) / (2.0 * float(ndtri(0.5 + level / 2.0)))


def speedup_rule(
    policy: GatePolicy, *, value: float, low: float, high: float, probability: float, evidence: str
) -> RuleOutcome:
    """`min_speedup`, by P(speedup >= what it asks for); value, low and high are shown."""
    limit, confidence = policy.rules.min_speedup, policy.confidence_asked
    assert limit is not None
    outcome: Outcome = "pass" if probability >= confidence else "fail" if 1.0 - probability >= confidence else "not yet"
    text = (
        f"{value:.2f}x ({low:.2f}x to {high:.2f}x), at least {limit:g}x; P = {probability:.1%}, asked {confidence:.4g}"
    )
    return RuleOutcome(
        rule="min_speedup", outcome=outcome, figure=value, low=low, high=high, limit=limit, text=text,
        evidence=evidence,
    )  # fmt: skip


def judge_method(policy: GatePolicy, method: str | None, *, evidence: str, remedy: str) -> RuleOutcome:
    """`methods`: is what was judged one that may be rolled out?"""
    allowed = policy.rules.methods
    assert allowed is not None
    if method is None:
        return unknown(policy, "methods", evidence, remedy=remedy)
    return RuleOutcome(
        rule="methods", outcome="pass" if method in allowed else "fail", figure=method, limit=list(allowed),
        text=f"{method}, {'' if method in allowed else 'not '}one of {', '.join(allowed)}", evidence=evidence,
    )  # fmt: skip


def judge_age(policy: GatePolicy, created: datetime | None, *, now: datetime, what: str, renew: str) -> RuleOutcome:
    """`max_age`; a date in the future is taken for a clock that is off, up to a minute."""
    limit = policy.rules.max_age
    assert limit is not None
    if created is None:
        return unknown(policy, "max_age", f"{what} does not say when it was made", remedy=renew)
    age = (now - created).total_seconds()
    if age < -60.0:
        return unknown(policy, "max_age", f"{what} is of {created.isoformat()}, which is not yet", remedy=renew)
    fresh = age <= age_seconds(limit)
    text = f"{_age(age)} old, at most {limit}" + ("" if fresh else f"; {renew}")
    return RuleOutcome(
        rule="max_age", outcome="pass" if fresh else "not yet", figure=max(0.0, round(age)), limit=limit, text=text,
        evidence=f"{what} is of {created.replace(microsecond=0).isoformat()}",
    )  # fmt: skip


def _age(seconds: float) -> str:
    length = timedelta(seconds=max(0.0, seconds))
    if length.days >= 2:
        return f"{length.days} days"
    hours = length.total_seconds() / 3600.0
    return f"{hours:.0f} hours" if hours >= 2 else f"{length.total_seconds() / 60.0:.0f} minutes"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _spoken(value: float, spec: str) -> str:
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "no bound"
    if spec == "x":
        return f"{value:.2f}x"
    return f"{value:+.1%}" if spec == "+%" else f"{value:.1%}"
