"""What does speculation gain end to end? `python -m profiler.sweep.real_pair GRID.yaml --models DIR --out DIR`

Real weights, real prompts through the model's chat template, natural acceptance and natural ends, in the closed loop at
constant concurrency: for each engine, class of prompts, temperature and concurrency. Every arm asks the same prompts in
the same order, and is measured over whole passes of them (traffic.py): two windows and 1.5 s at least, one pass at
concurrency 1, where nothing interleaves. No prefix is cached and no suffix tree remembers earlier answers. Sampled
requests carry no seed of their own, since vLLM would then sample one request at a time.

What is left of --time-limit is shared evenly among the engines that are left: every arm gets through the same first
cells. Rows: real_pair_cells.jsonl, one a cell; a cell is kept whole or not at all, and --resume goes on. Above
temperature 0 a CPU is refused (vLLM reads unset buffers there).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from profiler.engine import EngineError, InProcessEngine, import_vllm, prepare_environment
from profiler.errors import InputError, SpecworthError
from profiler.serving.interruption import Interrupted, interruptible
from profiler.sweep.closed_loop import Limits, measure_traffic
from profiler.sweep.grid import GridError, only_engines
from profiler.sweep.host import Host, read_host, wait_for_free_gpu
from profiler.sweep.process import attend, lead_group, print_to, running
from profiler.sweep.real_grid import RealCell, RealEngine, RealGrid, read_real_grid
from profiler.sweep.real_rows import real_row
from profiler.sweep.rows import RowsError, append_row, is_done, read_rows
from profiler.sweep.session import LEAVE_S, make_folder, refuse_measured, tell_stopped
from profiler.sweep.startup_log import failure_line
from profiler.sweep.traffic import PromptCycle
from profiler.sweep.worker import DISK_FULL

CELLS = "real_pair_cells.jsonl"
CELL_S = 4.0  # before a cell of its label was seen: an H200 with a 1.5B target is to take 2 to 5 s
LEAST_ENGINE_S = 20.0  # no engine is started for less: its start alone takes longer on a GPU
STALL_S = 180.0
WARM_UP = Limits(0.0, window_s=0.05, least_windows=1, least_s=0.1, most_s=1.0, least_cycles=1, longest_s=1.0)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One engine's part; `deadline` is a reading of time.monotonic, which forked processes share."""

    grid: RealGrid
    engine: RealEngine
    cells: tuple[RealCell, ...]
    models: Path
    out: Path
    host: Host
    deadline: float
    expected_cell_s: dict[str, float]

    @property
    def log(self) -> Path:
        """Where all that vLLM prints goes."""
        return self.out / f"{self.engine.name}.log"


def cell_limits(concurrency: int) -> Limits:
    """One pass of the prompts alone in the engine, two windows of whole passes where requests share it."""
    return Limits(
        window_s=0.5,
        least_windows=1 if concurrency == 1 else 2,
        least_s=1.5,
        least_cycles=1,
        most_s=20.0,
        longest_s=60.0,
    )


def measure_engine(
    engine: InProcessEngine, task: Assignment, facts: dict[str, Any], *, tell: Callable[[str], None],
    beat: Callable[[], None],
) -> None:  # fmt: skip
    """Ask a started engine its cells, and keep each as it ends."""
    grid, spec = task.grid, task.engine
    groups = dict.fromkeys((cell.prompt_set, cell.structure) for cell in task.cells)
    ids = {group: [engine.encode_chat(list(p.messages)) for p in grid.prompts[group]] for group in groups}
    for temperature in dict.fromkeys(cell.temperature for cell in task.cells):
        slots = min(32, max(cell.concurrency for cell in task.cells))
        prompts = next(iter(ids.values()))
        warm_up = PromptCycle(
            prompts, concurrency=slots, most_tokens=min(32, grid.output_tokens), temperature=temperature
        )
        measure_traffic(engine, warm_up, limits=WARM_UP, deadline=task.deadline, on_step=beat)
    written: dict[tuple[str, str], float] = {}  # what answers of a class came to before
    for cell in task.cells:
        began, group = time.monotonic(), (cell.prompt_set, cell.structure)
        if began + task.expected_cell_s.get(cell.label(), CELL_S) > task.deadline:
            tell(f"  {spec.name}: no time left for {cell.label()}")
            continue
        traffic = PromptCycle(
            ids[group], concurrency=cell.concurrency, most_tokens=grid.output_tokens, temperature=cell.temperature,
            expected_tokens=written.get(group),
        )  # fmt: skip
        measured = measure_traffic(
            engine, traffic, limits=cell_limits(cell.concurrency), deadline=task.deadline, on_step=beat
        )
        if measured is None:
            tell(f"  {spec.name} {cell.label()}: not one window before the deadline")
            continue
        written[group] = traffic.output_tokens
        row = real_row(
            spec, cell, measured, traffic, ids[group], key=grid.key(spec, cell), most_output_tokens=grid.output_tokens,
            facts=facts | {"cell_s": round(time.monotonic() - began, 3)},
        )  # fmt: skip
        append_row(task.out / CELLS, row)
        tell(_summary(row, cell))


def _summary(row: dict[str, Any], cell: RealCell) -> str:
    rate = f"{row['output_tokens_per_s']:.0f} tok/s"
    spread = "" if row["output_tokens_per_s_cv"] is None else f" ±{row['output_tokens_per_s_cv']:.0%}"
    drafted = f" AL {1 + row['accepted_tokens'] / row['drafts']:.2f}" if row["drafts"] else ""
    tau = row["decode_tokens"] / max(row["decode_steps"], 1)
    return (
        f"  {row['engine']} {cell.label()}: {rate}{spread}, {row['output_tokens_mean']:.0f} tokens{drafted}"
        f" tau {tau:.2f} [{row['repeats']} windows, {row['cell_s']:.1f} s, {row['ended_by']}]"
    )


def _run_engine(task: Assignment, heartbeat: Synchronized[float], told: int) -> None:
    """Process entry: start one engine and measure its cells."""
    lead_group()
    print_to(task.log)

    def tell(text: str) -> None:
        os.write(told, (text + "\n").encode())

    def beat() -> None:
        heartbeat.value = time.monotonic()

    try:
        version, began = import_vllm(), time.monotonic()
        engine = InProcessEngine(task.grid.arguments(task.engine, task.models), natural_ends=True)
        beat()
        startup_s = round(time.monotonic() - began, 2)
        tell(f"{task.engine.name}: up in {startup_s:.1f} s, {len(task.cells)} cells")
        facts = {"engine_version": version, "startup_s": startup_s, **engine.facts(), **task.host.facts()}
        measure_engine(engine, task, facts, tell=tell, beat=beat)
    except RowsError as error:
        tell(error.line())
        os._exit(DISK_FULL)
    except EngineError as error:
        tell(f"{task.engine.name} failed: {error.line()}; log: {failure_line(task.log.read_text(errors='replace'))}")
    except BaseException:
        traceback.print_exc()
        tell(f"{task.engine.name} failed: {traceback.format_exc(limit=-1).strip().splitlines()[-1]}")
    os._exit(0)  # an orderly shutdown takes seconds of a GPU and gives nothing


def main(arguments: list[str] | None = None) -> int:
    """Parse, run each engine in a process of its own, and tell an error in one line."""
    parser = argparse.ArgumentParser(prog="python -m profiler.sweep.real_pair", description=__doc__)
    parser.add_argument("grid", type=Path, help="see data/grids/real-pair-1.yaml")
    parser.add_argument("--models", type=Path, required=True, help="folder of the model folders that the grid names")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="end before this has passed")
    parser.add_argument("--resume", action="store_true", help="go on in --out where an earlier run stopped")
    parser.add_argument("--only", nargs="*", default=[], metavar="ENGINE", help="these engines of the grid alone")
    parser.add_argument("--plan", action="store_true", help="print what would be measured, and stop")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        grid = only_engines(read_real_grid(given.grid), given.only)
        if given.plan:
            for engine in grid.engines:
                print(f"{engine.name}: {len(engine.cells)} cells: {', '.join(cell.label() for cell in engine.cells)}")
            return 0
        with interruptible():
            return _measure(grid, given, began)
    except Interrupted as stop:
        return tell_stopped(stop, given.out / CELLS)
    except SpecworthError as error:
        print(error.line(), file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1


def _measure(grid: RealGrid, given: argparse.Namespace, began: float) -> int:
    rows_path = given.out / CELLS
    refuse_measured(rows_path, resume=given.resume)
    rows = read_rows([rows_path])
    done = {row["key"] for row in rows if is_done(row)}
    left = [(e, tuple(c for c in e.cells if grid.key(e, c) not in done)) for e in grid.engines]
    left = [(engine, cells) for engine, cells in left if cells]
    if not left:
        print(f"nothing is left to measure: {len(done)} cells are there", flush=True)
        return 0
    host = read_host()
    if host.gpu is None and any(cell.temperature for _, cells in left for cell in cells):
        raise GridError(
            "above temperature 0 nothing valid can be measured on a CPU", expected="a GPU, or temperature 0 alone",
            got="no GPU that nvidia-smi names", field="traffic.temperatures",
        )  # fmt: skip
    make_folder(given.out)
    prepare_environment("separate")
    print(f"vLLM {import_vllm()} on {host.gpu or 'no GPU'}, imported in {time.monotonic() - began:.1f} s; "
          f"{sum(len(cells) for _, cells in left)} cells left", flush=True)  # fmt: skip
    context: Any = multiprocessing.get_context("fork")
    end = began + given.time_limit - LEAVE_S if given.time_limit else float("inf")
    for place, (engine, cells) in enumerate(left):
        now = time.monotonic()
        deadline = now + (end - now) / (len(left) - place)
        if deadline - now < LEAST_ENGINE_S:
            print(f"{engine.name}: not started, {deadline - now:.0f} s would be its share", flush=True)
            continue
        if host.gpu:
            wait_for_free_gpu()
        expected = {_label(row): row["cell_s"] for row in read_rows([rows_path], tell=False) if row["gpu"] == host.gpu}
        task = Assignment(grid, engine, cells, given.models, given.out, host, deadline, expected)
        heartbeat = context.Value("d", now)
        process = context.Process(target=_run_engine, args=(task, heartbeat, os.dup(1)))
        with running(process):
            if reason := attend(process, heartbeat, task.log, until=deadline + LEAVE_S - 1.0, stall_s=STALL_S):
                print(f"  {engine.name}: ended, {reason}", flush=True)
        if process.exitcode == DISK_FULL:
            return 1
    new = len(read_rows([rows_path], tell=False)) - len(rows)
    print(f"{new} cells in {time.monotonic() - began:.0f} s", flush=True)
    return 0 if new else 1


def _label(row: dict[str, Any]) -> str:
    return RealCell.model_validate({name: row[name] for name in RealCell.model_fields}).label()


if __name__ == "__main__":
    sys.exit(main())
