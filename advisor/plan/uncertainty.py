"""How far off may the times of a plan be?

A speedup is a ratio, in which what both arms share cancels; replicas are counted from times themselves. The plan's
three cases are the bounds of 90 % of: the times of an arm without speculation (what predictions of targets that no fit
had seen were off by, and the queue's own error), and beside them the speedup's own interval, which holds acceptance.
What no measurement covers adds what it adds to a speedup's interval, which for times is a lower bound: such a plan is
never decisive.
"""

from __future__ import annotations

import numpy as np

from advisor.speedup import Z_LEVEL
from models.estimate import Floats
from models.step_cost import GAPS, read_constants
from models.step_cost.coverage import gap_bit

# benchmarks/absolute_latencies.py, 2026-11-30: root mean square of log(measured / predicted) without speculation, each
# target predicted by a fit without it. The median time to first token is off by 0.27, on the safe side on average
# (-0.15).
TIMES_LOG_SD = 0.07
FIRST_TOKEN_LOG_SD = 0.27
# benchmarks/plan_queue.py: root mean square of log(simulated / approximated) over its table, of both percentiles.
QUEUE_LOG_SD = 0.14
# benchmarks/absolute_latencies.py: of a step's gain between prompts of one class of data/measurements.
BETWEEN_PROMPTS_LOG_SD = 0.22

CASES = ("pessimistic", "expected", "optimistic")
Z = dict(zip(CASES, (Z_LEVEL, 0.0, -Z_LEVEL), strict=True))


def times_log_sd(gaps: int) -> float:
    """Of the times of an arm, in the logarithm; gaps: bits of what no measurement covers."""
    constants = read_constants()
    missing = np.array([bool(gaps & gap_bit(name)) for name in GAPS], dtype=np.float64)
    added = float(missing @ np.square(constants.gap_log_sd))
    return float(np.sqrt(TIMES_LOG_SD**2 + QUEUE_LOG_SD**2 + added))


def factors(case: str, *, gaps: int, ratio_log_sd: Floats | None, shared: bool = True) -> tuple[Floats, float]:
    """What an arm's passes take in a case over what is expected, and what the time to first token does beside that.

    ratio_log_sd: of the speedup, at each concurrency; None without speculation. shared: with the error that both arms
    share; without it a case is that of the comparison of both.
    """
    z = Z[case]
    ratio = np.zeros(1) if ratio_log_sd is None else ratio_log_sd
    common = times_log_sd(gaps) if shared else 0.0
    passes = np.exp(z * np.hypot(common, ratio))
    first = float(np.sqrt(max(FIRST_TOKEN_LOG_SD**2 - TIMES_LOG_SD**2, 0.0))) if shared else 0.0
    return passes, float(np.exp(z * first))
