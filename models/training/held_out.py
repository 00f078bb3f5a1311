"""What would a fit, and an interval calibrated beside it, have said of each cell if it had never seen the cell's group?

For each fold three things are made without any of its rows: the constants, the residuals of targets that are absent
from a second fit each, and the intervals calibrated on those residuals. So the targets that an interval is calibrated
on are absent from the fit that it is calibrated on, and the cell that it is judged by from both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

from models.estimate import Floats
from models.training.cells import Cells, Mask
from models.training.folds import Fold, folds
from models.training.intervals import Intervals, calibrate
from models.training.step_cost import Speedups, StepCostFit, fit, predict

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_FEW_CELLS = 100
_BEYOND_LOG_SD = 0.1  # what `models.step_cost.coverage` adds for a method, or a traffic, beyond every measured one


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Of each judged cell that is in a fold of the family; nan elsewhere."""

    speedups: Speedups
    log_sd_end_to_end: Floats
    log_sd_tpot: Floats


def held_out_families(cells: Cells, everything: StepCostFit, *, processes: int | None = None) -> dict[str, HeldOut]:
    """Family of folds -> predictions and interval widths of its cells; folds are fitted by several processes.

    everything: the fit to all cells, from which each fold's fit starts; it converges to its own all the same.
    """
    families = folds(cells)
    parts = [(family, part) for family, its in families.items() for part in its]
    tasks = [(cells, part, everything) for _, part in parts]
    found = each_of(_without, tasks, processes=workers_for(cells) if processes is None else processes)
    joined = {}
    for family in families:
        its = [(part, answer) for (of, part), answer in zip(parts, found, strict=True) if of == family]
        joined[family] = HeldOut(
            Speedups(*(_joined(cells, its, column) for column in (0, 1))),
            *(_joined(cells, its, column) for column in (2, 3)),
        )
    return joined


def workers_for(cells: Cells) -> int:
    """How many processes are worth their start: each takes seconds to import what a fit of few cells needs for less."""
    return 1 if len(cells) < _FEW_CELLS else os.cpu_count() or 1


def each_of(work: Callable[[Task], Answer], tasks: Sequence[Task], *, processes: int) -> list[Answer]:
    """What `work` makes of each task, in their order, by at most so many processes; alone it stays in this one."""
    workers = min(processes, len(tasks))
    if workers <= 1:
        return [work(task) for task in tasks]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, tasks))


def _joined(cells: Cells, answers: Sequence[tuple[Fold, Floats]], column: int) -> Floats:
    values = np.full(len(cells), np.nan)
    for part, answer in answers:
        values[part.rows] = answer[column, part.rows]
    return values


def _without(task: tuple[Cells, Fold, StepCostFit]) -> Floats:
    """(4, n): both speedups and both log sds by what a fold leaves."""
    cells, part, everything = task
    own = fit(cells, ~part.hidden, start=everything)
    predicted = predict(cells, own.constants)
    residuals = target_out_residuals(cells, seen=~part.hidden, start=own)
    found = [predicted.end_to_end, predicted.tpot]
    for residual in (residuals.end_to_end, residuals.tpot):
        rows = np.isfinite(residual)
        # Without the residual of any target, nothing can be said of a width.
        unknown = np.full(len(cells), np.nan)
        found.append(widened(cells, calibrate(cells, residual, rows), rows) if rows.any() else unknown)
    return np.stack(found)


def widened(cells: Cells, intervals: Intervals, rows: Mask) -> Floats:
    """Log sd of each row, wider where the rows that calibrated it have no such method, concurrency or context."""
    beyond = (cells.concurrency > cells.concurrency[rows].max()) | (cells.input_tokens > cells.input_tokens[rows].max())
    unknown = ~np.isin(cells.method, cells.method[rows])
    added = (beyond.astype(np.float64) + unknown) * _BEYOND_LOG_SD**2
    widths: Floats = np.sqrt(intervals.log_sd_of(cells.method, cells.concurrency) ** 2 + added)
    return widths


def target_out_residuals(cells: Cells, *, seen: Mask, start: StepCostFit) -> Speedups:
    """log(measured / predicted) of the judged rows in `seen`, each target by a fit without it; nan elsewhere."""
    found = Speedups(np.full(len(cells), np.nan), np.full(len(cells), np.nan))
    for target in np.unique(cells.target[seen & cells.judged]):
        own = cells.target == target
        predicted = predict(cells, fit(cells, seen & ~own, start=start).constants)
        rows = own & seen & cells.judged & seen[cells.baseline]
        found.end_to_end[rows] = np.log(cells.speedup[rows] / predicted.end_to_end[rows])
        found.tpot[rows] = np.log(cells.speedup_tpot[rows] / predicted.tpot[rows])
    return found
