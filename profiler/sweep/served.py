"""The same grid against real `vllm serve`: `python -m profiler.sweep.served GRID.yaml --out DIR --python PATH`

Each engine of the grid is started as a server with vLLM's own command line (random weights, no tokenizer), measured by
the same closed loop over HTTP, and stopped: the API server's share of a step is then in the numbers, as users have it.
Rows have the schema of the in-process sweep, with `engine_process` "served" in the row and its key; what only the
engine itself knows (step times, capture sizes, model runner) is null or missing unless the grid sets it.

Refused: a grid that cannot be read, rows that are there without --resume. A server that does not start, or dies, is
noted in engines.jsonl with its reason, and the next one follows; a full disk ends the sweep.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from profiler.architecture import read_architecture
from profiler.errors import InputError, SpecworthError
from profiler.metrics import read_gauges
from profiler.serving.interruption import Interrupted, interruptible
from profiler.serving.launch import ServeCommand, launched, read_tail, serve_prefix
from profiler.sweep.closed_loop import Limits, measure_cell
from profiler.sweep.grid import EngineSpec, Grid, Point, only_engines, read_grid
from profiler.sweep.host import read_host, wait_for_free_gpu
from profiler.sweep.rows import RowsError, append_row, cell_row, is_done, read_rows
from profiler.sweep.served_engine import ServedEngine
from profiler.sweep.session import Swept, make_folder, refuse_measured, tell_stopped
from profiler.sweep.startup_log import read_startup_log
from profiler.sweep.worker import MIXED_WARM_UP, WARM_UP, engine_arguments

FIRST_START_S = 150.0  # before any start was seen: the longest that a server took on an H200 with vLLM 0.26.0
LEAST_MEASURING_S = 15.0
STOP_S = 10.0  # for ending a server in order
LONGEST_START_S = 900.0
ENGINE_PROCESS = "served"
SHORT = Limits(
    settle_s=0, window_s=0.05, least_windows=1, least_s=0.1, most_s=1.0, least_cycles=1, limit_cycles=1, longest_s=1.0
)  # of a warm-up
# Gaps between what a client reads are no engine steps: the chunks of one step come one after the other.
UNKNOWN: dict[str, Any] = dict.fromkeys(("step_ms_mean", "step_ms_p10", "step_ms_p50", "step_ms_p90"))


@dataclass(frozen=True, slots=True)
class ServedOptions:
    """How a served sweep is run; `python` is an interpreter, or a whole command that serves."""

    out: Path
    work: Path
    python: str | None = None
    time_limit_s: float | None = None
    resume: bool = False
    limits: Limits = field(default_factory=Limits)
    seed: int = 0


def run_served_sweep(grid: Grid, options: ServedOptions) -> Swept:
    """Measure what of `grid` is not yet measured.

    Raises:
        GridError: rows are there, and resuming was not asked for.
        RowsError: rows cannot be written.
    """
    began = time.monotonic()
    rows = options.out / "rows.jsonl"
    refuse_measured(rows, resume=options.resume)
    make_folder(options.out)
    done = {row["key"] for row in read_rows([rows]) if is_done(row)}
    deadline = began + options.time_limit_s if options.time_limit_s else math.inf
    start_s, measured, failed = FIRST_START_S, 0, 0
    for spec in grid.engines:
        points = [point for point in spec.points if served_key(spec, point) not in done]
        if not points:
            continue
        if time.monotonic() + start_s + LEAST_MEASURING_S > deadline:
            print(f"{spec.name}: not started, {deadline - time.monotonic():.0f} s left", flush=True)
            break
        wait_for_free_gpu()
        status: dict[str, Any] = {"engine": spec.name, "engine_process": ENGINE_PROCESS, "error": None, "cells": 0}
        log = options.out / f"{spec.name}.log"
        try:
            _measure(spec, points, grid, options, log=log, deadline=deadline, status=status)
            start_s = status["startup_s"]
        except RowsError:
            raise
        except Exception as error:  # one engine's trouble, or a fault of ours, must not cost the others their turn
            failed += not status["cells"]
            status["error"] = error.line() if isinstance(error, SpecworthError) else f"{type(error).__name__}: {error}"
            print(f"  {spec.name} failed: {status['error'][:600]}", flush=True)
        append_row(options.out / "engines.jsonl", status | read_startup_log(read_tail(log)))
        measured += status["cells"]
    print(f"{measured} cells in {time.monotonic() - began:.0f} s", flush=True)
    return Swept(measured, failed)


def served_key(spec: EngineSpec, point: Point) -> str:
    """The cell's key, which no in-process cell has: HTTP is part of what is measured."""
    return json.dumps(
        json.loads(spec.key(point)) | {"engine_process": ENGINE_PROCESS}, sort_keys=True, separators=(",", ":")
    )


def serve_arguments(arguments: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Engine arguments as `vllm serve` takes them: the model, and its flags."""
    flags: list[str] = []
    for name, value in arguments.items():
        flag = "--" + name.replace("_", "-")
        if name in ("model", "disable_log_stats"):
            continue  # the server keeps statistics unless told otherwise
        if value is True:
            flags.append(flag)
        elif value is False:
            flags.append("--no-" + flag.removeprefix("--"))
        elif value is not None:
            flags += [flag, value if isinstance(value, str) else json.dumps(value)]
    return str(arguments["model"]), tuple(flags)


def _measure(
    spec: EngineSpec, points: list[Point], grid: Grid, options: ServedOptions, *,
    log: Path, deadline: float, status: dict[str, Any],
) -> None:  # fmt: skip
    """One server's life; `status` is filled as it goes, so that what was measured before a failure is told."""
    model, flags = serve_arguments(engine_arguments(spec, grid.shapes, options.work))
    status["arguments"] = list(flags)
    command = ServeCommand(
        serve_prefix(options.python),
        model,
        flags,
        {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_API_KEY": ""},  # ours alone on loopback: no key
    )
    timeout_s = min(LONGEST_START_S, max(1.0, deadline - time.monotonic()))
    with launched(command, log=log, timeout_s=timeout_s) as server:
        engine = ServedEngine(server.url, model=model)
        try:
            status["startup_s"] = round(server.ready_s or 0.0, 2)
            facts = _facts(spec, grid, engine, startup_s=status["startup_s"])
            print(f"{spec.name}: up in {status['startup_s']} s, {len(points)} cells", flush=True)
            random = np.random.default_rng(options.seed)
            vocabulary = int(grid.shapes[spec.target]["vocab_size"])
            for point in (WARM_UP, MIXED_WARM_UP):
                measure_cell(engine, point, vocab_size=vocabulary, rng=random, limits=SHORT, deadline=deadline)
            for point in points:
                began = time.monotonic()
                if began + LEAST_MEASURING_S / 3 > deadline - STOP_S:
                    print(f"  {spec.name}: no time left for {point.label()}", flush=True)
                    continue
                cell = measure_cell(
                    engine, point, vocab_size=vocabulary, rng=random, limits=options.limits, deadline=deadline - STOP_S
                )
                if cell is None:
                    print(f"  {spec.name} {point.label()}: not one window before the deadline", flush=True)
                    continue
                row = cell_row(spec, point, cell, facts) | {"key": served_key(spec, point)} | UNKNOWN
                row["cell_s"] = round(time.monotonic() - began, 3)
                append_row(options.out / "rows.jsonl", row)
                status["cells"] += 1
                print(f"  {spec.name} {point.label()}: {row['output_tokens_per_s']:.0f} tok/s", flush=True)
        finally:
            engine.close()


def _facts(spec: EngineSpec, grid: Grid, engine: ServedEngine, *, startup_s: float) -> dict[str, Any]:
    """What is known of engine and host from outside."""
    drafter = spec.speculation.draft if spec.speculation else None
    gauges = read_gauges(engine.scrape())
    asked = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "dtype", "kv_cache_dtype", "enforce_eager")
    return {
        "target_parameters": _parameters(spec.target, grid),
        "drafter_parameters": None if drafter is None else _parameters(drafter, grid),
        "engine_version": engine.version(), "engine_process": ENGINE_PROCESS, "startup_s": startup_s,
        "kv_cache_tokens": None if gauges.kv_tokens is None else round(gauges.kv_tokens),
        **{name: spec.settings.get(name) for name in asked},
        "tensor_parallel_size": spec.settings.get("tensor_parallel_size", 1), **read_host().facts(),
    }  # fmt: skip


def _parameters(name: str, grid: Grid) -> int | None:
    try:
        return int(read_architecture(grid.shapes[name], name=name).parameters)
    except SpecworthError as error:  # counted later from the shape; that must not stop a measurement now
        print(f"parameters of {name} not counted: {error.line()}", flush=True)
        return None


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, and tell an error in one line; 0, 1 where no server could be measured, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m profiler.sweep.served", description=__doc__)
    parser.add_argument("grid", type=Path, help="engines x traffic, see data/grids")
    parser.add_argument("--out", type=Path, required=True, help="folder for rows.jsonl, engines.jsonl and the logs")
    parser.add_argument("--python", help="interpreter that has vLLM, or a command such as 'docker run ... vllm serve'")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="end cleanly before this has passed")
    parser.add_argument("--resume", action="store_true", help="go on in --out where an earlier sweep stopped")
    parser.add_argument("--only", nargs="*", metavar="ENGINE", help="these engines of the grid alone")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    try:
        grid = only_engines(read_grid(given.grid), given.only)
        with interruptible(), tempfile.TemporaryDirectory(prefix="specworth-sweep-") as work:
            swept = run_served_sweep(grid, ServedOptions(
                out=given.out, work=Path(work), python=given.python, time_limit_s=given.time_limit,
                resume=given.resume, seed=given.seed,
            ))  # fmt: skip
    except Interrupted as stop:
        return tell_stopped(stop, given.out / "rows.jsonl")
    except SpecworthError as error:
        print(error.line(), file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0 if swept.cells or not swept.failed_engines else 1


if __name__ == "__main__":
    sys.exit(main())
