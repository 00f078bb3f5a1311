"""May speculation be rolled out? A policy's rules against a recommendation, a profile, or two live servers."""

from advisor.gate.policy import GatePolicy
from advisor.gate.profile import judge_profile
from advisor.gate.recommendation import judge_recommendation
from advisor.gate.verdict import GateVerdict, RuleOutcome

__all__ = ["GatePolicy", "GateVerdict", "RuleOutcome", "judge_profile", "judge_recommendation"]
