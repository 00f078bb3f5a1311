"""What is kept of a cell: one flat row of JSON, appended and flushed as soon as the cell ends.

Latencies in milliseconds, memory in bytes, rates per second. A rerun with --resume skips the keys that it finds here,
or in the data set's own cost_cells.csv; a line that a crash cut short is left out with a notice, and the next row
begins a line of its own. A disk that is full is a RowsError: whoever gets it has nothing to gain from measuring on.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.errors import SpecworthError
from profiler.sweep.closed_loop import PROTOCOL_VERSION, CellMeasurement, Counters
from profiler.sweep.grid import EngineSpec, Point, SweptSpeculation

# What the data set flags so is to be measured again: groups of prefills under protocol 1, a disturbed host.
_AGAIN = {"clumped", "unsteady"}
_MOST_S_OF_PROTOCOL_1 = 6.0  # a cell of protocol 1 that took so long was ended by its own limit, and done


class RowsError(SpecworthError):
    """A row that cannot be kept."""


def cell_row(spec: EngineSpec, point: Point, cell: CellMeasurement, engine_facts: Mapping[str, Any]) -> dict[str, Any]:
    """The row of one measured cell; `engine_facts` are those of its engine and host."""
    speculation = spec.speculation
    rates = [tokens / seconds for seconds, tokens in cell.windows]
    tpot_ms = [1e3 * f.decode_s / (f.output_tokens - 1) for f in cell.timed if f.output_tokens > 1]
    counted = cell.counters
    return {
        "key": spec.key(point),
        "protocol": PROTOCOL_VERSION,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": spec.name,
        "target": spec.target,
        "quantization": spec.quantization,
        **speculation_facts(speculation),
        "asked_acceptance_length": speculation.acceptance_length if speculation else None,
        "schedule": speculation.schedule if speculation else None,
        "weights": "dummy",
        "acceptance": ("synthetic" if speculation.acceptance_length else "natural") if speculation else None,
        **point.model_dump(),
        "ttft_ms_p50": quantile_ms(cell.ttft_s, 0.5),
        "ttft_ms_p95": quantile_ms(cell.ttft_s, 0.95),
        "tpot_ms_mean": round(float(np.mean(tpot_ms)), 4) if tpot_ms else None,
        "tpot_ms_p50": quantile_ms(tpot_ms, 0.5, scale=1.0),
        "tpot_ms_p95": quantile_ms(tpot_ms, 0.95, scale=1.0),
        "e2e_ms_p50": quantile_ms(cell.e2e_s, 0.5),
        "requests_timed": len(cell.timed),
        "output_tokens_per_s": round(counted.generation_tokens / cell.measured_s, 3),
        "output_tokens_per_s_median": round(float(np.median(rates)), 3),
        "output_tokens_per_s_pooled": round(counted.generation_tokens / cell.measured_s, 3),
        "output_tokens_per_s_cv": variation(rates),
        "repeats": len(rates),
        "repeat_output_tokens_per_s": [round(rate, 2) for rate in rates],
        "step_ms_mean": mean_ms(cell.step_s),
        "step_ms_p10": quantile_ms(cell.step_s, 0.1),
        "step_ms_p50": quantile_ms(cell.step_s, 0.5),
        "step_ms_p90": quantile_ms(cell.step_s, 0.9),
        "completions": cell.completions,
        **counted_facts(counted),
        "ended_by": cell.ended_by,
        "complete": cell.ended_by != "deadline",  # a cell that its own limit ended is done, and says so
        "fill_s": round(cell.fill_s, 3),
        "measured_s": round(cell.measured_s, 3),
        **engine_facts,
    }


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Write one line and push it to the disk, so that a killed sweep keeps it.

    Raises:
        RowsError: the disk is full, or the file cannot be written.
    """
    line = (json.dumps(row) + "\n").encode()
    try:
        with path.open("ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # cut short by a kill: what follows must not be lost with it
                    line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RowsError(
            f"{path} cannot be written", got=(error.strerror or "an error").lower(),
            remedy="free some room there, then go on with --resume",
        ) from error  # fmt: skip


def read_rows(paths: Iterable[Path], *, tell: bool = True) -> list[dict[str, Any]]:
    """All whole rows of the files that exist; `tell` of the others."""
    rows = []
    for path in paths:
        if not path.exists():
            continue
        if path.suffix == ".csv":
            rows += _merged_rows(path)
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            row = _row(line)
            if row is not None:
                rows.append(row)
            elif tell:
                print(f"{path}:{number}: cut short, left out", file=sys.stderr)
    return rows


def _row(line: str) -> dict[str, Any] | None:
    """A whole row; every kind of row names its cell or its engine."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and ("key" in row or "engine" in row) else None


def is_done(row: Mapping[str, Any]) -> bool:
    """Whether a cell need not be measured again: all but those that the sweep's deadline cut."""
    if "ended_by" in row:
        return bool(row["ended_by"] != "deadline")
    return bool(row.get("complete", True) or row.get("measured_s", 0.0) >= _MOST_S_OF_PROTOCOL_1)


def _merged_rows(path: Path) -> list[dict[str, Any]]:
    """What a sweep asks of rows, of the data set's table: `csv` alone, since a GPU host has nothing of ours."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {"key": row["key"], "engine": row["engine"], "ended_by": row["ended_by"]}
            for row in csv.DictReader(file) if not _AGAIN & set((row.get("flags") or "").split())
        ]  # fmt: skip


def speculation_facts(speculation: SweptSpeculation | None) -> dict[str, Any]:
    """What every table says of a way of speculating; None is the baseline."""
    return {
        "method": speculation.method if speculation else "none",
        "drafter": speculation.draft if speculation else None,
        "num_speculative_tokens": speculation.num_speculative_tokens if speculation else 0,
        "draft_sample_method": speculation.draft_sample_method if speculation and speculation.draft else None,
    }


def counted_facts(counted: Counters) -> dict[str, Any]:
    """What a closed loop's row keeps of vLLM's counters over its span."""
    return {
        "steps": counted.steps,
        "generation_tokens": counted.generation_tokens,
        "decode_tokens": counted.generation_tokens - counted.first_tokens,
        "prompt_tokens": counted.prompt_tokens,
        "drafts": counted.drafts,
        "drafted_tokens": counted.drafted_tokens,
        "accepted_tokens": counted.accepted_tokens,
        "accepted_per_position": list(counted.accepted_per_position),
        "preemptions": counted.preemptions,
        "cached_prompt_tokens": counted.cached_prompt_tokens,
    }


def quantile_ms(
    values: Sequence[float] | NDArray[np.float64], q: float, *, scale: float = 1e3
) -> float | None:  # fmt: skip
    """A quantile in milliseconds of values in seconds; None without any. `scale` 1: of values in milliseconds."""
    return round(scale * float(np.quantile(values, q)), 4) if len(values) else None


def mean_ms(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """The mean in milliseconds of values in seconds; None without any."""
    return round(1e3 * float(np.mean(values)), 4) if len(values) else None


def variation(rates: Sequence[float]) -> float | None:
    """sd / mean of the windows' rates; None for a single one."""
    return round(float(np.std(rates, ddof=1) / np.mean(rates)), 4) if len(rates) > 1 else None
