"""`python -m profiler.measurements SWEEP ... --into data/measurements`: add sweeps' rows to the data set."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from profiler.errors import SpecworthError
from profiler.measurements.acceptance import merge_acceptance
from profiler.measurements.columns import CELL_COLUMNS, ENGINE_COLUMNS, column_table
from profiler.measurements.merge import merge_sweep, rederive
from profiler.measurements.real_pair import REAL_COLUMNS, merge_real_pair, rederive_real_pair
from profiler.measurements.table import CELLS_FILE


def main(arguments: list[str] | None = None) -> int:
    """Merge each sweep's folder; without any, make the derived columns anew."""
    parser = argparse.ArgumentParser(prog="python -m profiler.measurements", description=__doc__)
    parser.add_argument(
        "sweeps", type=Path, nargs="*", help="--out folders of profiler.sweep, .acceptance or .real_pair"
    )
    parser.add_argument("--into", type=Path, default=Path("data/measurements"), help="folder of the tables")
    parser.add_argument("--columns", action="store_true", help="print the data card's tables of columns, and stop")
    given = parser.parse_args(arguments)
    if given.columns:
        print(*map(column_table, (CELL_COLUMNS, ENGINE_COLUMNS, REAL_COLUMNS)), sep="\n\n")
        return 0
    try:
        for sweep in given.sweeps:
            if (sweep / "acceptance_cells.jsonl").exists():
                print(f"{sweep}: {merge_acceptance(sweep, given.into)} new acceptance cells")
                continue
            if (sweep / "real_pair_cells.jsonl").exists():
                print(f"{sweep}: {merge_real_pair(sweep, given.into)} new cells of a real pair")
                continue
            cells, engines = merge_sweep(sweep, given.into)
            print(f"{sweep}: {cells} new cells of {engines} engines")
        if (given.into / CELLS_FILE).exists() or not given.sweeps:
            print(f"{rederive(given.into)} cells in {given.into}")
        if real := rederive_real_pair(given.into):
            print(f"{real} cells of real pairs in {given.into}")
    except SpecworthError as error:
        print(error.line(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
