"""What did the gate find? Each rule with its figure, its limit and what the figure rests on, and all of them as one.

A policy passes where every rule passes, fails where one fails, and is else not yet decided. Evidence that is older than
the policy allows decides nothing on its own: it neither passes nor fails, it is to be renewed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from pydantic import Field

from advisor.recommendation import Told

Outcome = Literal["pass", "fail", "not yet"]
EvidenceKind = Literal["recommendation", "profile", "canary"]


class RuleOutcome(Told):
    """One rule."""

    rule: str = Field(description="As the policy has it")
    outcome: Outcome
    figure: float | str | None = Field(description="What was found, in the rule's unit; null where nothing tells it")
    low: float | None = Field(default=None, description="Bounds of the figure, where it has some and they are finite")
    high: float | None = None
    limit: float | str | list[str]
    text: str = Field(description="Figure and limit as a reader has them")
    evidence: str = Field(description="What the figure rests on, or why there is none")


class GateVerdict(Told):
    """The whole."""

    outcome: Outcome
    text: str
    kind: EvidenceKind
    subject: str = Field(description="What was judged")
    confidence: float
    judged_at: datetime
    rules: list[RuleOutcome]
    notes: list[str] = Field(default_factory=list)


def combine(
    rules: Iterable[RuleOutcome],
    *,
    kind: EvidenceKind,
    subject: str,
    confidence: float,
    now: datetime,
    notes: Iterable[str] = (),
) -> GateVerdict:
    """All rules as one verdict; stale evidence makes of a fail a not yet."""
    told = list(rules)
    failed = [rule for rule in told if rule.outcome == "fail"]
    open_ones = [rule for rule in told if rule.outcome == "not yet"]
    stale = any(rule.rule == "max_age" for rule in open_ones)
    outcome: Outcome = "fail" if failed and not stale else "not yet" if failed or open_ones else "pass"
    if outcome == "pass":
        text = "pass: the one rule holds" if len(told) == 1 else f"pass: all {len(told)} rules hold"
    elif outcome == "fail":
        text = f"fail: {'; '.join(f'{rule.rule} {rule.text}' for rule in failed)}"
    else:
        text = f"not yet: {', '.join(rule.rule for rule in open_ones)} not decided, of {len(told)} rules"
    return GateVerdict(
        outcome=outcome, text=text, kind=kind, subject=subject, confidence=confidence,
        judged_at=now.replace(microsecond=0), rules=told, notes=list(notes),
    )  # fmt: skip
