"""Is it worth it, how sure is that, and which candidate is the best?

One prediction gives all of it: the benefit classifier (`models.benefit`) turns a speedup and its spread into
P(speedup >= threshold) for any threshold. It rises with the prediction and is 0.5 where that is the threshold, so that
"enable", iff it is at least 0.5, is said just where the predicted speedup reaches what was asked for. Candidates are
ranked by the lower bound of their speedup, not by its middle, since the largest of many noisy predictions is too large
on average. A verdict is decisive where its probability reaches the policy's confidence and its costs rest on a
measurement; otherwise a probe is worth its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor.recommendation import Speedup, Verdict, Warned
from advisor.request import Objective
from advisor.speedup import bounds
from models.benefit import load_benefit
from models.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and how sure that is."""

    verdict: Verdict
    probability: float
    decisive: bool


def probability_of(value: float, log_sd: float, *, min_speedup: float) -> float:
    """P(speedup >= min_speedup) by the benefit classifier; at least 0.5 just where the value reaches the threshold."""
    return float(load_benefit().probability(value, log_sd, min_speedup))


def decide(*, probability: float, confidence: float, measured_here: bool, everywhere: bool = True) -> Decision:
    """The verdict.

    measured_here: whether measurements cover this GPU, engine and method. everywhere: whether the verdict is the same
    at every concurrency, which must hold where the concurrency is not known.
    """
    return Decision(
        verdict="enable" if probability >= 0.5 else "disable",
        probability=probability,
        decisive=measured_here and everywhere and max(probability, 1.0 - probability) >= confidence,
    )


def best_row(estimate: Estimate, *, rows: Sequence[int]) -> int:
    """Of `rows` the one with the highest lower bound; the first of equals."""
    low, _ = bounds(estimate)
    return max(rows, key=lambda row: (low[row], -row))


def inspect_objectives(speedup: Speedup, *, objective: Objective, enabled: bool) -> Iterator[Warned]:
    """What is enabled for one of the two speedups may be a loss by the other one: that is to be known before."""
    other, name = (speedup.tpot, "time per output token") if objective == "end_to_end" else (
        speedup.end_to_end, "end-to-end throughput")  # fmt: skip
    if enabled and other.value < 1.0:
        yield Warned(
            code="objectives_disagree",
            text=f"by the objective asked for it pays, but {name} becomes worse: {other.value:.2f}x of what it is "
            f"without speculation ({speedup.level:.0%} interval {other.low:.2f} to {other.high:.2f})",
        )
