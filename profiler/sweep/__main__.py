"""`python -m profiler.sweep GRID.yaml --out DIR`: measure a grid on this host; rows.jsonl grows as cells end."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from profiler.errors import InputError, SpecworthError
from profiler.serving.interruption import Interrupted, interruptible
from profiler.sweep.closed_loop import Limits
from profiler.sweep.grid import Grid, only_engines, read_grid
from profiler.sweep.session import SweepOptions, run_sweep, tell_stopped


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, and tell an error in one line; 0, 1 where no engine could be measured, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m profiler.sweep", description=__doc__)
    parser.add_argument("grid", type=Path, help="engines x traffic, see data/grids")
    parser.add_argument("--out", type=Path, required=True, help="folder for rows.jsonl, engines.jsonl, engine_logs.gz")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="end cleanly before this has passed")
    parser.add_argument("--resume", action="store_true", help="go on in --out where an earlier sweep stopped")
    parser.add_argument("--done", type=Path, nargs="*", default=[], help="rows files whose cells count as measured")
    parser.add_argument("--work", type=Path, help="scratch folder for model configs and logs (default: a new one)")
    parser.add_argument("--only", nargs="*", metavar="ENGINE", help="these engines of the grid alone")
    parser.add_argument(
        "--start-method",
        choices=("fork", "spawn"),
        default="fork",
        help="fork imports vLLM once; spawn imports it for every engine",
    )
    parser.add_argument("--cycles", type=int, default=Limits().least_cycles, help="cycles that a cell is measured for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plan", action="store_true", help="print what would be measured, and stop")
    given = parser.parse_args(arguments)
    try:
        grid = only_engines(read_grid(given.grid), given.only)
        if given.plan:
            for engine in grid.engines:
                print(f"{engine.name}: {len(engine.points)} cells: {', '.join(p.label() for p in engine.points)}")
            return 0
        with interruptible():
            return _sweep(grid, given)
    except Interrupted as stop:
        return tell_stopped(stop, given.out / "rows.jsonl")
    except SpecworthError as error:
        print(error.line(), file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1


def _sweep(grid: Grid, given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="specworth-sweep-") as scratch:
        swept = run_sweep(grid, SweepOptions(
            out=given.out, work=given.work or Path(scratch), time_limit_s=given.time_limit, resume=given.resume,
            done=tuple(given.done), start_method=given.start_method, seed=given.seed,
            limits=replace(Limits(), least_cycles=given.cycles),
        ))  # fmt: skip
    return 0 if swept.cells or not swept.failed_engines else 1


if __name__ == "__main__":
    sys.exit(main())
