"""`specworth data`: prints what the measurements cover and what is wrong with them, and draws their speedups."""

from __future__ import annotations

import sys
from pathlib import Path

from api.report.content import Table
from api.report.terminal import print_table
from profiler.measurements import read_cells, read_engines
from profiler.measurements.coverage import CONCURRENCY_BANDS, CONTEXT_BANDS, band_name, coverage, real_coverage
from profiler.measurements.deployment import read_shapes
from profiler.measurements.memory import compare_memory
from profiler.measurements.noise import noise_floor
from profiler.measurements.plots import draw_speedups
from profiler.measurements.real_pair import read_real_pair
from profiler.measurements.real_plots import draw_real_speedups
from profiler.measurements.schema import MissingSchemaLibraryError, check_tables

GIB = 2**30
_NOISE_LABELS = (("throughput", "output_tokens_per_s"), ("TPOT", "tpot_ms"), ("step time, median", "step_ms_p50"))


def run_check(folder: Path) -> int:
    """Print coverage and defects; 0 where the schema holds (or cannot be tried), else 1."""
    cells, engines = read_cells(folder), read_engines(folder)
    seen = coverage(cells)
    print_table(
        f"{seen.cells} cells in {seen.runs} runs of {len(engines)} started engines: cells by concurrency",
        Table(("method", *map(band_name, CONCURRENCY_BANDS), "all"), seen.by_concurrency),
    )
    print_table("\nBy input tokens", Table(("method", *map(band_name, CONTEXT_BANDS), "all"), seen.by_context))
    for title, column, rows in (("target", "target", seen.by_target), ("k", "num_speculative_tokens", seen.by_k)):
        names = [str(value) for value in sorted({row[column] for row in cells})]
        print_table(f"\nBy {title}", Table(("method", *names, "all"), rows))
    print_table(
        "\nFlags: rows to look at twice, kept",
        Table(("meaning", "flag", "runs"), tuple((meaning, flag, str(count)) for flag, count, meaning in seen.flags)),
    )
    noise = [(name, noise_floor(cells, column)) for name, column in _NOISE_LABELS]
    print_table(
        "\nNoise floor: relative difference of two runs of one cell",
        Table(
            ("label", "cells", "pairs", "median", "p90", "largest"),
            tuple(
                (name, str(n.cells), str(n.pairs), f"{n.median:.1%}", f"{n.p90:.1%}", f"{n.largest:.1%}")
                for name, n in noise
            ),
        ),
        (f"{seen.without_baseline} speculative cells have no baseline.",),
    )
    memory = compare_memory(engines, read_shapes(folder.parent / "grids"))
    print_table(
        "\nKV cache in tokens: memory plan and log; GiB by which the plan's terms differ",
        Table(
            ("engine", "planned", "logged", "off", "weights", "activation", "beside torch", "graphs"),
            tuple(
                (
                    m.logged["engine"],
                    f"{m.plan.kv_tokens:,}",
                    f"{m.logged['kv_cache_tokens']:,}",
                    f"{m.gap:+.1%}",
                    *(f"{gap / GIB:+.2f}" for gap in m.term_gaps_bytes.values()),
                )
                for m in memory
            ),
        ),
    )
    _print_real_pairs(folder)
    try:
        problems = check_tables(folder)
    except MissingSchemaLibraryError as error:
        print(f"\nSchema not tried: {error.line()}")
        return 0
    print(f"\nSchema: {'holds for every file' if not problems else f'{len(problems)} violations'}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _print_real_pairs(folder: Path) -> None:
    rows = read_real_pair(folder)
    if not rows:
        return
    seen = real_coverage(rows)
    print_table(
        f"\nReal pairs end to end: {seen.cells} cells in {seen.runs} runs, by concurrency",
        Table(("engine", *map(str, seen.concurrency)), seen.by_concurrency),
    )
    print_table("\nBy class of prompts", Table(("engine", *seen.classes), seen.by_class))
    print_table(
        "\nSpeedups of throughput, and greedy answers that are the baseline's",
        Table(("engine", "cells", "lowest", "median", "highest", "identical"), seen.gains),
    )


def run_plot(folder: Path, out: Path) -> int:
    """Draw and name the files; 0."""
    for path in [*draw_speedups(read_cells(folder), out), *draw_real_speedups(read_real_pair(folder), out)]:
        print(path)
    return 0
