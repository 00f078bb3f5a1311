"""What is the honest throughput of a measured span? Tokens over seconds, with what the span's ends leave out put back.

A closed loop of equal requests repeats itself after one cycle: c requests, each prefilled once and decoded once. A span
that is no whole number of cycles holds too many or too few prefills for its tokens, and so runs too slowly or too fast.
The imbalance is known exactly (prefills counted against tokens / n), and so is what one prefill costs (its time to
first token alone in the engine, less a decode step); adding or taking away that time gives the rate of a whole cycle:

    rate = tokens / (span + (tokens / n - prefills) · t_prefill)

Against a simulated loop whose true rate is known, spans of 1.2 cycles as protocol 1 made them: the windows' median is
off by 8.1 % on average (a third at 16 x 4096 + 64), the pooled rate by 4.1 %, this one by 0.7 % (p90 1.5 %); see
benchmarks/throughput_estimators.py. Refused: a rate from a span without tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

# Thresholds of the flags: what a reader should look at twice, not what is wrong.
IMBALANCED = 0.05
DISAGREEING = 0.05
SPREAD = 0.2
UNSTEADY = 0.05  # windows of whole cycles without speculation: no luck is in them, on a quiet host they differ by 2 %
UNSETTLED = 0.8
# Protocol 1 let requests prefill in groups that stay together. From 8 on, cells measured again with protocol 2 ran 1 to
# 12 % (8), up to 33 % (16 and 32) and up to 58 % faster (256); at 4 and fewer both agree within 2 %.
CLUMPED_PROTOCOL, CLUMPED_FROM = 1, 8
_LEAST_PREFILL_TOKENS = 2048  # shorter prompts alone in an engine are paid in launches, not in compute


def balanced_tokens_per_s(
    *, tokens: float, seconds: float, prefills: float, output_tokens: float, prefill_s: float
) -> float:
    """The rate of a whole cycle; `prefills` are those that ended in the span, `prefill_s` what one adds."""
    corrected = seconds + (tokens / output_tokens - prefills) * prefill_s
    if tokens <= 0 or corrected <= 0:
        raise ValueError(f"no rate from {tokens} tokens in {seconds} s")
    return tokens / corrected


def tpot_by_little_ms(*, concurrency: float, output_tokens: float, tokens_per_s: float, ttft_ms: float) -> float | None:
    """TPOT from throughput: c requests of n tokens take c·n / rate each (Little's law), less the wait for the first."""
    if output_tokens < 2:
        return None
    return (1e3 * concurrency * output_tokens / tokens_per_s - ttft_ms) / (output_tokens - 1)


def prefill_seconds(rows: Iterable[Mapping[str, Any]], input_tokens: int) -> float | None:
    """What a prompt of that length adds to a step, from the rows of one engine at concurrency 1; None without any.

    TTFT less a decode step for each prompt of at least 2,048 tokens; in between by the line through the two nearest,
    below the shortest in proportion (short prompts share a step), beyond the longest along the last line.
    """
    points: list[tuple[int, float]] = sorted({
        row["input_tokens"]: (row["ttft_ms_p50"] - (row["step_ms_p50"] or 0.0)) / 1e3
        for row in rows
        if row["concurrency"] == 1 and row["input_tokens"] >= _LEAST_PREFILL_TOKENS and row["ttft_ms_p50"]
    }.items())  # fmt: skip
    if not points:
        return None
    shortest, seconds = points[0]
    if input_tokens <= shortest or len(points) == 1:
        return seconds * input_tokens / shortest
    left, right = next((pair for pair in pairwise(points) if input_tokens <= pair[1][0]), (points[-2], points[-1]))
    return left[1] + (right[1] - left[1]) * (input_tokens - left[0]) / (right[0] - left[0])


def row_flags(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Known defects of one merged row, as words; the data card tells what each means."""
    rates = row["repeat_output_tokens_per_s"]
    later = sorted(rates[1:])
    whole_cycles = row["protocol"] > CLUMPED_PROTOCOL
    conditions = {
        "clumped": not whole_cycles and row["concurrency"] >= CLUMPED_FROM,
        "short": row["cycles"] < 1.0,
        "imbalanced": abs(row["imbalance"]) > IMBALANCED,
        "disagreeing": row["little_gap"] is not None and abs(row["little_gap"]) > DISAGREEING,
        "spread": (row["output_tokens_per_s_cv"] or 0.0) > SPREAD,
        "unsteady": whole_cycles and row["method"] == "none" and (row["output_tokens_per_s_cv"] or 0.0) > UNSTEADY,
        "unsettled": len(later) >= 2 and rates[0] < UNSETTLED * later[len(later) // 2],
        "no_latencies": row["tpot_ms_mean"] is None,
        "mixed_latencies": 0.0 < row["unmatched_share"] < 1.0,
        "limit": row["ended_by"] == "limit",
        "deadline": row["ended_by"] == "deadline",
        "preempted": row["preemptions"] > 0,
    }
    return tuple(name for name, holds in conditions.items() if holds)
