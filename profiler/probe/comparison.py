"""Is the speculative arm faster, by how much, and is that settled? From requests of both arms, paired by prompt.

At constant concurrency c, Little's law gives tokens per second = c * sum of output tokens / sum of end-to-end times, so
the end-to-end speedup is a ratio of two ratio estimators; TPOT's is the same with (tokens - 1) and (end to end - TTFT).
The interval is Student's t around the logarithm of that ratio, with the jackknife's standard error over pairs (Tukey
1958; Efron and Tibshirani 1993, chapter 11): it carries the spread between prompts and leaves out what both arms share.
A percentile bootstrap cannot say how unsure few pairs are: at eight pairs with lognormal times its 90 % held the truth
in 84 % of cases and its 99.99 % in 98.5 %, this one in 88 % and 99.95 % (benchmarks/check_speedup_interval.py).
Looking several times at growing data would find a false difference too often: the looks are counted and the error is
split evenly between them (Bonferroni), which is conservative and needs no assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from profiler.load.client import Served

MIN_PAIRS = 8  # below this the jackknife's own error is too uneven: at 8 skewed pairs its 90 % hold 86 % already
WIDEST = 1e4  # times; a bound of an interval says nothing beyond


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """A measured speedup with its interval; `pairs` prompts were answered by both arms."""

    value: float
    low: float
    high: float
    level: float
    pairs: int
    log_sd: float  # standard error of the ratio's logarithm, whatever the level and the looks

    def excludes(self, threshold: float) -> bool:
        """True where the interval lies wholly on one side of the threshold."""
        return self.low > threshold or self.high < threshold


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both speedups, and how many answers were the same text (at temperature 0 they should be)."""

    end_to_end: RatioInterval
    tpot: RatioInterval | None  # None where answers are too short to have one
    identical_share: float | None  # None without pairs
    output_ratio: float  # mean output tokens, speculative over baseline: far from 1 the arms differ in work
    slower_end_to_end: int  # pairs whose speculative answer took more time per token
    slower_tpot: int | None  # pairs whose speculative answer has the larger TPOT; None where answers are too short


@dataclass(frozen=True)
class Pairs:
    """The same prompts as both arms answered them, as arrays of equal length (ms, tokens)."""

    base_tokens: NDArray[np.float64]
    base_ms: NDArray[np.float64]
    base_ttft_ms: NDArray[np.float64]
    spec_tokens: NDArray[np.float64]
    spec_ms: NDArray[np.float64]
    spec_ttft_ms: NDArray[np.float64]
    identical: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.base_ms)

    @property
    def base_decode_ms(self) -> NDArray[np.float64]:
        """From the first token to the last, of the baseline."""
        return self.base_ms - self.base_ttft_ms

    @property
    def spec_decode_ms(self) -> NDArray[np.float64]:
        """From the first token to the last, under speculation."""
        return self.spec_ms - self.spec_ttft_ms


def pair(baseline: Sequence[Served], speculative: Sequence[Served]) -> Pairs:
    """Requests that both arms answered whole, joined by prompt; a prompt that failed on one arm is left out of both."""
    base = {s.index: s for s in baseline if s.ok and s.output_tokens}
    joined = [(base[s.index], s) for s in speculative if s.ok and s.output_tokens and s.index in base]

    def column(arm: int, name: str) -> NDArray[np.float64]:
        return np.array([float(getattr(two[arm], name) or 0.0) for two in joined])

    return Pairs(
        base_tokens=column(0, "output_tokens"),
        base_ms=column(0, "end_to_end_ms"),
        base_ttft_ms=column(0, "ttft_ms"),
        spec_tokens=column(1, "output_tokens"),
        spec_ms=column(1, "end_to_end_ms"),
        spec_ttft_ms=column(1, "ttft_ms"),
        identical=np.array([a.text == b.text for a, b in joined], dtype=np.bool_),
    )


def compare(pairs: Pairs, *, level: float = 0.9, looks: int = 1) -> Comparison | None:
    """Speedups with intervals at `level`, widened for `looks` looks in all; None with fewer than MIN_PAIRS pairs."""
    n = len(pairs)
    if n < MIN_PAIRS:
        return None
    tail = (1.0 - level) / looks / 2.0

    def interval(
        base_work: NDArray[np.float64],
        base_ms: NDArray[np.float64],
        spec_work: NDArray[np.float64],
        spec_ms: NDArray[np.float64],
    ) -> RatioInterval:
        def without(column: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.log(column.sum() - column))

        value = float(spec_work.sum() / spec_ms.sum() / (base_work.sum() / base_ms.sum()))
        left_out = without(spec_work) - without(spec_ms) - without(base_work) + without(base_ms)
        standard_error = float(np.sqrt((n - 1) * left_out.var()))
        # In logarithms, since a factor would have to be cut off before it overflows, and a value of thousands (times of
        # answers that came as one chunk) would then be left with a lower bound that it does not have.
        half = -float(stdtrit(n - 1, tail)) * standard_error
        low, high = (float(np.exp(np.clip(np.log(value) + d, -np.log(WIDEST), np.log(WIDEST)))) for d in (-half, half))
        return RatioInterval(value, min(low, value), max(high, value), level, n, standard_error)

    decodes = (pairs.base_tokens > 1) & (pairs.spec_tokens > 1)
    # An answer that came as one chunk took no time to decode; with one pair left out there must be some time still.
    timed = min(np.count_nonzero(ms > 0.0) for ms in (pairs.base_decode_ms, pairs.spec_decode_ms)) > 1
    tpot, slower_tpot = None, None
    if decodes.all() and timed:
        spec_tpot = pairs.spec_decode_ms / (pairs.spec_tokens - 1)
        base_tpot = pairs.base_decode_ms / (pairs.base_tokens - 1)
        slower_tpot = int((spec_tpot > base_tpot).sum())
        tpot = interval(pairs.base_tokens - 1, pairs.base_decode_ms, pairs.spec_tokens - 1, pairs.spec_decode_ms)
    return Comparison(
        end_to_end=interval(pairs.base_tokens, pairs.base_ms, pairs.spec_tokens, pairs.spec_ms),
        tpot=tpot,
        identical_share=float(pairs.identical.mean()),
        output_ratio=float(pairs.spec_tokens.sum() / pairs.base_tokens.sum()),
        slower_end_to_end=int((pairs.spec_ms / pairs.spec_tokens > pairs.base_ms / pairs.base_tokens).sum()),
        slower_tpot=slower_tpot,
    )


def settled(
    comparison: Comparison | None, *, threshold: float, objective: Literal["end_to_end", "tpot"]
) -> Literal["faster", "not faster"] | None:
    """What the interval of the deciding speedup says about the threshold; None while it is open."""
    if comparison is None:
        return None
    deciding = comparison.end_to_end if objective == "end_to_end" else comparison.tpot
    if deciding is None or not deciding.excludes(threshold):
        return None
    return "faster" if deciding.low > threshold else "not faster"
