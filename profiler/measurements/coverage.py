"""What has been measured? Cells by method, concurrency and context, targets, and defects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median

from profiler.measurements.table import Row

CONCURRENCY_BANDS = ((1, 1), (2, 8), (9, 32), (33, 128), (129, 256))
CONTEXT_BANDS = ((1, 256), (257, 1024), (1025, 4096), (4097, 16384))  # input tokens

# What each flag says; the data card explains them at length.
FLAGS = {
    "clumped": "protocol 1 at 8 requests and more: they prefilled in groups; not learned from",
    "short": "measured for less than one cycle of requests",
    "imbalanced": "more than 5 % of the span's prefills too many or too few; corrected",
    "disagreeing": "latencies of the timed requests tell a throughput more than 5 % off",
    "spread": "windows differ by more than 20 % (sd / mean)",
    "unsteady": "baseline whose windows of whole cycles differ by more than 5 %: something else ran on the host",
    "unsettled": "the first window ran below 80 % of the later ones",
    "no_latencies": "no request began and ended while measuring",
    "mixed_latencies": "two kinds of requests; the quick ones are timed more often",
    "limit": "ended by the time limit of a cell",
    "deadline": "ended by the time limit of the sweep",
    "preempted": "the KV cache ran short and requests were sent back",
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts of cells (not of runs); tables are (method, *counts by band)."""

    cells: int
    runs: int
    by_concurrency: tuple[tuple[str, ...], ...]
    by_context: tuple[tuple[str, ...], ...]
    by_target: tuple[tuple[str, ...], ...]
    by_k: tuple[tuple[str, ...], ...]
    flags: tuple[tuple[str, int, str], ...]  # flag, runs, meaning
    without_baseline: int


@dataclass(frozen=True, slots=True)
class RealCoverage:
    """Cells of real pairs (not runs) by engine: counts by class, the range of speedups, and identical answers."""

    cells: int
    runs: int
    concurrency: tuple[int, ...]
    classes: tuple[str, ...]
    by_concurrency: tuple[tuple[str, ...], ...]
    by_class: tuple[tuple[str, ...], ...]
    gains: tuple[tuple[str, ...], ...]  # engine, cells with a speedup, lowest, median, highest, identical answers


def real_coverage(rows: Iterable[Row]) -> RealCoverage:
    """Count what rows of real_pair_cells.csv cover, and what came out."""
    runs = list(rows)
    cells = list({row["cell_id"]: row for row in runs}.values())
    engines = list(dict.fromkeys(row["engine"] for row in cells))

    def table(name: str, values: Sequence[object]) -> tuple[tuple[str, ...], ...]:
        counts = Counter((row["engine"], row[name]) for row in cells)
        return tuple((engine, *(str(counts[engine, value] or "-") for value in values)) for engine in engines)

    def gain(engine: str) -> tuple[str, ...]:
        own = [row for row in cells if row["engine"] == engine]
        speedups = [row["speedup_end_to_end"] for row in own if row["speedup_end_to_end"] is not None]
        same = [row["identical_share"] for row in own if row["identical_share"] is not None]
        range_ = (
            [f"{value:.2f}" for value in (min(speedups), median(speedups), max(speedups))] if speedups else ["-"] * 3
        )
        return (engine, str(len(speedups)), *range_, f"{mean(same):.0%}" if same else "-")

    slots = sorted({row["concurrency"] for row in cells})
    classes = sorted({row["structure"] for row in cells})
    return RealCoverage(
        cells=len(cells), runs=len(runs), concurrency=tuple(slots), classes=tuple(classes),
        by_concurrency=table("concurrency", slots), by_class=table("structure", classes),
        gains=tuple(gain(engine) for engine in engines),
    )  # fmt: skip


def band_name(band: tuple[int, int]) -> str:
    """`1`, `2-8`."""
    return str(band[0]) if band[0] == band[1] else f"{band[0]:,}-{band[1]:,}"


def band_of(value: int, bands: Sequence[tuple[int, int]]) -> str:
    """The name of the band that holds `value`, or `beyond`."""
    return next((band_name(band) for band in bands if band[0] <= value <= band[1]), "beyond")


def coverage(rows: Iterable[Row]) -> Coverage:
    """Count what `rows` cover."""
    runs = list(rows)
    cells = list({row["cell_id"]: row for row in runs}.values())
    flags = Counter(flag for row in runs for flag in (row["flags"] or "").split())
    all_of = Counter(row["method"] for row in cells)
    methods = sorted(all_of, key=lambda m: (m != "none", m))

    def table(label: Callable[[Row], str], columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        counts = Counter((row["method"], label(row)) for row in cells)
        return tuple(
            (method, *(str(counts[method, name] or "-") for name in columns), str(all_of[method])) for method in methods
        )

    def labels(name: str) -> list[str]:
        return [str(value) for value in sorted({row[name] for row in cells})]

    return Coverage(
        cells=len(cells),
        runs=len(runs),
        by_concurrency=table(
            lambda r: band_of(r["concurrency"], CONCURRENCY_BANDS), [band_name(b) for b in CONCURRENCY_BANDS]
        ),
        by_context=table(lambda r: band_of(r["input_tokens"], CONTEXT_BANDS), [band_name(b) for b in CONTEXT_BANDS]),
        by_target=table(lambda r: str(r["target"]), labels("target")),
        by_k=table(lambda r: str(r["num_speculative_tokens"]), labels("num_speculative_tokens")),
        flags=tuple((flag, flags[flag], meaning) for flag, meaning in FLAGS.items() if flags[flag]),
        without_baseline=sum(row["method"] != "none" and row["baseline_id"] is None for row in cells),
    )
