"""In which order, and for how long? One engine after the other until the grid or the time is through.

vLLM is imported once, here, and every engine is a forked child that finds it imported: on a GPU host the imports alone
take 15 to 20 s. An engine is started only if its start (as long as those before it took) and a few cells still fit;
one that fails or stands still is ended, noted, and the next one follows. A full disk ends the sweep: what comes after
could not be kept.
"""

from __future__ import annotations

import gzip
import multiprocessing
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from profiler.engine import cuda_is_initialized, import_vllm, prepare_environment
from profiler.serving.interruption import Interrupted
from profiler.sweep.closed_loop import Limits
from profiler.sweep.grid import EngineSpec, Grid, GridError, Point
from profiler.sweep.host import read_host, wait_for_free_gpu
from profiler.sweep.process import attend, running
from profiler.sweep.rows import RowsError, append_row, is_done, read_rows
from profiler.sweep.worker import DISK_FULL, Assignment, run_engine

FIRST_START_S = 75.0  # before any start was seen: the middle of the 45 to 95 s seen on an H200 with vLLM 0.26.0
LEAST_MEASURING_S = 15.0
LEAVE_S = 4.0  # for writing the last row and ending the engine


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How a sweep is run; `done` are rows files of earlier sweeps whose cells are not measured again."""

    out: Path
    work: Path
    time_limit_s: float | None = None
    resume: bool = False
    done: tuple[Path, ...] = ()
    start_method: str = "fork"
    stall_s: float = 120.0  # without an output, a row or a line of log; compiling a 32-layer graph takes about 30 s
    limits: Limits = field(default_factory=Limits)
    seed: int = 0


class Swept(NamedTuple):
    """What a sweep did: new rows, and engines that gave none of theirs."""

    cells: int
    failed_engines: int


def run_sweep(grid: Grid, options: SweepOptions) -> Swept:
    """Measure what of `grid` is not yet measured.

    Raises:
        GridError: rows are there, and resuming was not asked for.
        RowsError: rows cannot be written.
    """
    began = time.monotonic()
    rows_path, engines_path = options.out / "rows.jsonl", options.out / "engines.jsonl"
    refuse_measured(rows_path, resume=options.resume)
    make_folder(options.out)
    options.work.mkdir(parents=True, exist_ok=True)
    here = read_rows([rows_path])
    earlier = here + read_rows(options.done)
    done = {row["key"] for row in earlier if is_done(row)}
    if not any(_left(spec, done) for spec in grid.engines):
        print(f"nothing is left to measure: {sum(len(e.points) for e in grid.engines)} cells are there", flush=True)
        return Swept(0, 0)
    deadline = began + options.time_limit_s - LEAVE_S if options.time_limit_s else float("inf")
    host = read_host()
    first_start_s = FIRST_START_S if host.gpu else 0.0
    if began + first_start_s + LEAST_MEASURING_S > deadline:
        print(f"not started: {options.time_limit_s:g} s are too short for an engine's start and one cell", flush=True)
        return Swept(0, 0)
    prepare_environment("separate")
    version = import_vllm(_architectures(grid)) if options.start_method == "fork" else "unknown"
    method = options.start_method
    if method == "fork" and cuda_is_initialized():
        print("importing vLLM initialised CUDA: spawning engines instead of forking them", flush=True)
        method = "spawn"
    print(
        f"vLLM {version} on {host.gpu or 'no GPU'}, imported in {time.monotonic() - began:.1f} s; "
        f"{sum(len(_left(e, done)) for e in grid.engines)} cells left",
        flush=True,
    )
    parameters = {name: _parameters(name, shape) for name, shape in grid.shapes.items()}
    starts: list[float] = []
    cell_s = {_label(row): row["cell_s"] for row in earlier if row.get("gpu") == host.gpu and "cell_s" in row}
    measured = failed = 0
    for spec in grid.engines:
        points = _left(spec, done)
        if not points:
            continue
        expected = max(statistics.median(starts), starts[-1]) if starts else first_start_s
        if time.monotonic() + expected + LEAST_MEASURING_S > deadline:
            print(f"{spec.name}: not started, {deadline - time.monotonic():.0f} s left", flush=True)
            break
        if host.gpu and not wait_for_free_gpu():
            print("the GPU still holds memory of another process", flush=True)
        print(f"{spec.name}: {len(points)} cells, {time.monotonic() - began:.0f} s since the beginning", flush=True)
        log = options.work / f"{spec.name}.log"
        task = Assignment(
            spec=spec,
            points=points,
            shapes=grid.shapes,
            parameters=parameters,
            host=host,
            rows=rows_path,
            engines=engines_path,
            log=log,
            work=options.work / "models",
            deadline=deadline,
            expected_cell_s=cell_s,
            limits=options.limits,
            engine_version=version,
            seed=options.seed,
        )
        started = _run_worker(task, method, options.stall_s)
        if not started and not starts and method == "fork":
            print(f"{spec.name}: did not start as a forked process; spawning from now on", flush=True)
            method = "spawn"
            _run_worker(task, method, options.stall_s)
        _keep_log(log, options.out / "engine_logs.gz", spec.name)
        new = read_rows([rows_path], tell=False)[len(here) :]
        failed += len(new) == measured
        measured = len(new)
        starts += [row["startup_s"] for row in new if row["engine"] == spec.name][:1]
        cell_s |= {_label(row): max(row["cell_s"], cell_s.get(_label(row), 0.0)) for row in new}
    print(f"{measured} cells in {time.monotonic() - began:.0f} s", flush=True)
    return Swept(measured, failed)


def _run_worker(task: Assignment, method: str, stall_s: float) -> bool:
    """Run one engine to its end; whether it ever came up."""
    context: Any = multiprocessing.get_context(method)
    began = time.monotonic()
    heartbeat = context.Value("d", began)
    process = context.Process(target=run_engine, args=(task, heartbeat, os.dup(1) if method == "fork" else 1))
    with running(process):
        reason = attend(process, heartbeat, task.log, until=task.deadline + LEAVE_S - 1.0, stall_s=stall_s)
        if reason is not None:
            print(f"  {task.spec.name}: ended, {reason}", flush=True)
            append_row(task.engines, {"engine": task.spec.name, "error": reason})
    if process.exitcode == DISK_FULL:
        raise RowsError(
            f"{task.rows.parent} cannot be written", got="no room, or no right to write there",
            remedy="free some, then go on with --resume",
        )  # fmt: skip
    return bool(heartbeat.value > began)


def tell_stopped(stop: Interrupted, rows: Path) -> int:
    """Say what is kept of a sweep that a signal ended; its exit code."""
    kept = len(read_rows([rows], tell=False))
    cells = f"{kept} cell{'s' * (kept != 1)}"
    go_on = f"; {rows} holds {cells}: go on with --resume" if kept else "; no cell was measured"
    print(f"stopped by {stop.name}{go_on}", file=sys.stderr)
    return stop.exit_code


def refuse_measured(rows: Path, *, resume: bool) -> None:
    """Refuse to measure into rows that are there, unless that was asked for."""
    if rows.exists() and not resume:
        raise GridError(f"{rows} is there already", remedy="add --resume to go on, or name another --out")


def make_folder(out: Path) -> None:
    """The sweep's folder. Raises RowsError where it cannot be made."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = (error.strerror or "an error").lower()
        raise RowsError(f"--out: {out} cannot be made", expected="a folder to write to", got=got) from error


def _keep_log(log: Path, kept: Path, name: str) -> None:
    """Append one engine's log to the sweep's; gzip members written one after the other are one gzip file."""
    if log.exists():
        try:
            with gzip.open(kept, "ab") as file:
                file.write(f"=== {name}\n".encode() + log.read_bytes())
        except OSError as error:
            print(f"the log of {name} stays in {log}: {error}", flush=True)


def _left(spec: EngineSpec, done: set[str]) -> tuple[Point, ...]:
    return tuple(point for point in spec.points if spec.key(point) not in done)


def _label(row: dict[str, Any]) -> str:
    return Point.model_validate({name: row[name] for name in Point.model_fields}).label()


def _architectures(grid: Grid) -> list[str]:
    used = {name for e in grid.engines for name in (e.target, e.speculation.draft if e.speculation else None) if name}
    return sorted({architecture for name in used for architecture in grid.shapes[name].get("architectures", ())})


def _parameters(name: str, shape: dict[str, Any]) -> int | None:
    try:
        from profiler.architecture import read_architecture

        return int(read_architecture(shape, name=name).parameters)
    except Exception as error:  # a count that can be made later from the shape must not stop GPU seconds now
        print(f"parameters of {name} not counted: {error}", flush=True)
        return None
