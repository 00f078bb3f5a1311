"""Which candidate, with how many draft tokens, and what of the others?

The best is the one with the highest lower bound at the asked concurrency. Candidates that the engine would not start
are told, and chosen only where there is no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.candidates import Candidate
from advisor.capacity import Capacity
from advisor.predictions import Case, Predictions
from advisor.preflight import Preflight
from advisor.recommendation import Acceptance, Alternative, CurvePoint, Interval, Speedup
from advisor.request import Objective, PolicySpec
from advisor.speedup import Z_LEVEL, Speedups
from advisor.verdict import best_row, decide, probability_of
from models.acceptance import AcceptanceEstimate
from models.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of the predictions: a case at the asked concurrency."""

    predictions: Predictions
    row: int

    @property
    def case(self) -> Case:
        """The candidate, its k and its conditions."""
        return self.predictions.cases[self.case_index]

    @property
    def case_index(self) -> int:
        """Index of the case among the predictions' cases."""
        return int(self.predictions.case[self.row])

    def probability(self, policy: PolicySpec) -> float:
        """P(speedup >= min_speedup) of the objective's speedup."""
        estimate = decided(self.predictions.speedups, policy.objective)
        value, log_sd = float(estimate.value[self.row]), float(estimate.log_sd[self.row])
        return probability_of(value, log_sd, min_speedup=policy.min_speedup)

    def speedup(self) -> Speedup:
        """Both speedups with their intervals."""
        both = self.predictions.speedups
        return Speedup(end_to_end=interval(both.end_to_end, self.row), tpot=interval(both.tpot, self.row))

    def acceptance(self) -> Acceptance:
        """What the target accepts."""
        index, estimate = self.case_index, self.predictions.acceptance
        positions = estimate.per_position[index, : self.case.k]
        return Acceptance(
            length=acceptance_length(estimate, index),
            tokens_per_step=_plus_one(interval(self.predictions.gain, index)),
            per_position=[float(p) for p in positions if np.isfinite(p)],
            draft_share=float(estimate.draft_share[index]),
            basis="measured" if estimate.measured[index] else "predicted",
        )

    def curve(self, shown: Sequence[int]) -> list[CurvePoint]:
        """The speedups of this case at the concurrencies to show, all of which must be among its rows."""
        both, told = self.predictions.speedups, self.predictions.concurrency
        rows = np.flatnonzero((self.predictions.case == self.case_index) & np.isin(told, shown))
        rows = rows[np.argsort(told[rows])]
        return [
            CurvePoint(
                concurrency=int(self.predictions.concurrency[row]),
                end_to_end=interval(both.end_to_end, row),
                tpot=interval(both.tpot, row),
            )
            for row in rows.tolist()
        ]


def decided(speedups: Speedups, objective: Objective) -> Estimate:
    """The speedup that the policy's objective names."""
    return speedups.end_to_end if objective == "end_to_end" else speedups.tpot


def interval(estimate: Estimate, row: int) -> Interval:
    """One row's value and bounds."""
    value, half = float(estimate.value[row]), math.exp(Z_LEVEL * estimate.log_sd[row])
    return Interval(value=value, low=value / half, high=value * half)


def acceptance_length(estimate: AcceptanceEstimate, row: int) -> Interval:
    """One row's acceptance length and its bounds."""
    gain = Estimate(estimate.acceptance_length - 1.0, estimate.length_log_sd)
    return _plus_one(interval(gain, row))


def _plus_one(gain: Interval) -> Interval:
    return Interval(value=1.0 + gain.value, low=1.0 + gain.low, high=1.0 + gain.high)


def choose(
    predictions: Predictions, *, objective: Objective, blocked: Mapping[Candidate, str]
) -> tuple[Choice, list[Choice]]:
    """The best case, and the best of each other candidate in order of its lower bound; all rows are of one load."""
    estimate = decided(predictions.speedups, objective)
    rows: dict[Candidate, list[int]] = {}
    for row, case in enumerate(predictions.case.tolist()):
        rows.setdefault(predictions.cases[case].candidate, []).append(row)
    best = {candidate: best_row(estimate, rows=its) for candidate, its in rows.items()}
    pool = [row for candidate, row in best.items() if candidate not in blocked] or list(best.values())
    chosen = best_row(estimate, rows=pool)
    low = estimate.value * np.exp(-Z_LEVEL * estimate.log_sd)
    others = sorted((row for row in best.values() if row != chosen), key=lambda row: -low[row])
    return Choice(predictions, chosen), [Choice(predictions, row) for row in others]


def describe_alternatives(
    others: Sequence[Choice], *, chosen: Choice, policy: PolicySpec, capacity: Capacity,
    preflights: Mapping[Candidate, Preflight],
) -> list[Alternative]:  # fmt: skip
    """Each candidate at its best k, and why it was not chosen."""
    estimate = decided(chosen.predictions.speedups, policy.objective)
    best = interval(estimate, chosen.row)
    told = []
    for other in others:
        case, blocked = other.case, preflights[other.case.candidate].blocked
        p = 0.0 if blocked else other.probability(policy)
        plan = capacity.plans.get(case.candidate)
        own = interval(estimate, other.row)
        if blocked:
            why = f"cannot be used: {blocked}"
        elif other.row == chosen.row:
            why = f"the best of all, but {own.value:.2f}x is below the {policy.min_speedup:g}x from which it pays"
        elif own.value == best.value:
            why = "predicted just as the best is: only a probe tells them apart"
        elif own.value >= best.value:
            why = f"less sure than the best: its lower bound is {own.low:.2f}x, the best's {best.low:.2f}x"
        else:
            why = f"{own.value:.2f}x, the best has {best.value:.2f}x"
            if own.value < policy.min_speedup:
                why += f"; below {policy.min_speedup:g}x it does not pay"
        told.append(
            Alternative(
                method=case.candidate.method,
                draft=case.candidate.draft_name,
                num_speculative_tokens=case.k,
                verdict=decide(probability=p, confidence=policy.confidence, measured_here=True).verdict,
                probability=p,
                speedup=other.speedup(),
                acceptance_length=float(chosen.predictions.acceptance.acceptance_length[other.case_index]),
                tokens_per_step=float(1.0 + chosen.predictions.gain.value[other.case_index]),
                drafter_bytes=0 if plan is None else round(plan.drafter_weight_bytes),
                kv_tokens=0 if plan is None else round(plan.kv_tokens),
                text=f"{case.candidate.label}, k = {case.k}: {why}",
            )
        )
    return told
