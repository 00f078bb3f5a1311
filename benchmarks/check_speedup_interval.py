"""How often does the interval of a measured speedup hold the truth? Against the percentile bootstrap, as JSON lines.

    .venv/bin/python benchmarks/check_speedup_interval.py

Requests of 20 to 199 tokens whose times have a lognormal error (spread 0.1 or 0.4; `skewed`: an exponential one more in
the speculative arm), 2,000 repetitions of each case (400 for the bootstrap), seed 1. The truth is the ratio over a
million pairs.
"""

from __future__ import annotations

import json

import numpy as np

from profiler.probe.comparison import Pairs, compare

LEVELS = (0.9, 0.99, 0.9999)
REPETITIONS, BOOTSTRAPS, RESAMPLES = 2000, 400, 2000


def draw(rng: np.random.Generator, n: int, spread: float, *, skewed: bool) -> Pairs:
    """Pairs of equal work whose speculative arm is 1.3 times as fast at the median."""
    tokens = rng.integers(20, 200, n).astype(float)
    tail = rng.exponential(spread, n) - spread if skewed else np.zeros(n)
    base_ms = 10.0 * tokens * np.exp(rng.normal(0.0, spread, n))
    spec_ms = 10.0 / 1.3 * tokens * np.exp(rng.normal(0.0, spread, n) + tail)
    ttft = np.ones(n)
    return Pairs(tokens, base_ms, ttft, tokens, spec_ms, ttft, np.ones(n, dtype=np.bool_))


def bootstrap(rng: np.random.Generator, pairs: Pairs, level: float) -> tuple[float, float]:
    """The percentile interval of the end-to-end speedup."""
    rows = rng.integers(0, len(pairs), (RESAMPLES, len(pairs)))
    ratio = pairs.base_ms[rows].sum(axis=1) / pairs.spec_ms[rows].sum(axis=1)  # equal work cancels
    low, high = np.quantile(ratio, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def main() -> None:
    """One line for each case."""
    rng = np.random.default_rng(1)
    for spread, skewed in ((0.1, False), (0.4, False), (0.4, True)):
        many = draw(rng, 1_000_000, spread, skewed=skewed)
        truth = float(many.base_ms.sum() / many.spec_ms.sum())
        for n in (8, 16, 32, 64):
            for level in LEVELS:
                held = held_bootstrap = 0
                for repetition in range(REPETITIONS):
                    pairs = draw(rng, n, spread, skewed=skewed)
                    found = compare(pairs, level=level)
                    assert found is not None
                    held += found.end_to_end.low <= truth <= found.end_to_end.high
                    if repetition < BOOTSTRAPS:
                        low, high = bootstrap(rng, pairs, level)
                        held_bootstrap += low <= truth <= high
                print(
                    json.dumps(
                        {
                            "pairs": n, "level": level, "spread": spread, "skewed": skewed,
                            "coverage": held / REPETITIONS, "coverage_bootstrap": held_bootstrap / BOOTSTRAPS,
                        }
                    ),
                    flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
