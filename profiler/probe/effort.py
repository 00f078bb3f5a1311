"""How many prompts does the decision need, and is it cheaper to ask them now than to start a server again for them?

Servers that run one after the other meet only in their answers: while the first one runs, nobody knows how clear the
case is. Its next round is worth its seconds only if they are fewer than those of another start times the probability
that this round is what makes the difference. A case is open where the speedup lies nearer to the threshold than half
the interval, whose width shrinks with the root of the number of pairs.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from profiler.probe.comparison import RatioInterval
from profiler.probe.rounds import PAIR_LOG_SD

# Of end-to-end speedups near 1.05, per unit of their logarithm: 25 of the 126 in data/measurements/cost_cells.csv lie
# within 0.1 of log 1.05, 51 within 0.2 (column speedup_end_to_end).
SPEEDUP_DENSITY = 1.0
# Probability of seeing a difference that is there: the usual power of a sample size (Cohen 1988).
POWER = 0.8


def half_width(pairs: int, *, level: float, looks: int, pair_log_sd: float = PAIR_LOG_SD) -> float:
    """Half the interval of the speedup's logarithm from that many pairs, widened for the looks."""
    return _z(level, looks) * pair_log_sd / math.sqrt(max(pairs, 1))


def probability_open(pairs: int, *, level: float, looks: int) -> float:
    """That so many pairs leave the question open, before anything is known of the second server."""
    return min(1.0, 2.0 * SPEEDUP_DENSITY * half_width(pairs, level=level, looks=looks))


def another_round_pays(pairs: int, more: int, *, round_s: float, start_s: float, level: float, looks: int) -> bool:
    """Whether `more` prompts in `round_s` seconds now are cheaper than another start of `start_s` seconds if needed."""
    now = probability_open(pairs, level=level, looks=looks)
    then = probability_open(pairs + more, level=level, looks=looks)
    return (now - then) * start_s > round_s


def pairs_needed(found: RatioInterval, threshold: float, *, looks: int) -> float:
    """Pairs from which the interval would exclude the threshold with probability POWER, were the ratio as it seems."""
    gap = abs(math.log(found.value / threshold))
    spread = found.log_sd * math.sqrt(found.pairs)
    return ((_z(found.level, looks) + NormalDist().inv_cdf(POWER)) * spread / gap) ** 2 if gap else math.inf


def _z(level: float, looks: int) -> float:
    return NormalDist().inv_cdf(1.0 - (1.0 - level) / 2.0 / looks)
