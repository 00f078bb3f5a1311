"""One engine's life, in a process of its own: start, warm up, measure its points, leave.

Everything that vLLM prints goes to the engine's log; rows go to the rows file as they come. The process ends without
an orderly shutdown of the engine: its caller ends the whole process group, which frees the GPU seconds sooner.
"""

from __future__ import annotations

import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import numpy as np

from profiler.engine import EngineError, InProcessEngine, import_vllm, prepare_environment
from profiler.sweep.closed_loop import Limits, measure_cell
from profiler.sweep.grid import EngineSpec, Point
from profiler.sweep.host import Host
from profiler.sweep.models import acceptance_rates, write_model
from profiler.sweep.process import lead_group, print_to
from profiler.sweep.rows import RowsError, append_row, cell_row
from profiler.sweep.startup_log import failure_line, read_startup_log
from profiler.sweep.weights import speculative_config

DISK_FULL = 3  # exit code: no other engine's rows could be kept either
WARM_UP = Point(concurrency=2, input_tokens=64, output_tokens=24)
# Prefill and decode in one batch: kernels of that shape compile here and not within the first cell.
MIXED_WARM_UP = Point(concurrency=32, input_tokens=256, output_tokens=32)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one worker process is to do. Times are readings of time.monotonic, which forked processes share."""

    spec: EngineSpec
    points: tuple[Point, ...]
    shapes: dict[str, dict[str, Any]]
    parameters: dict[str, int | None]
    host: Host
    rows: Path
    engines: Path
    log: Path
    work: Path
    deadline: float
    expected_cell_s: dict[str, float]
    limits: Limits
    engine_version: str
    seed: int


def engine_arguments(spec: EngineSpec, shapes: dict[str, dict[str, Any]], work: Path) -> dict[str, Any]:
    """The vLLM engine arguments of `spec`; writes the model folders that they name."""
    arguments: dict[str, Any] = {
        "model": str(write_model(work / spec.target, shapes[spec.target])),
        "skip_tokenizer_init": True, "load_format": "dummy", "disable_log_stats": False, "generation_config": "vllm",
    }  # fmt: skip
    if spec.quantization:
        arguments["quantization"] = spec.quantization
    if (speculation := spec.speculation) is not None:
        draft = speculation.draft
        config = speculative_config(speculation, write_model(work / draft, shapes[draft]) if draft else None)
        if speculation.acceptance_length is not None:
            config["rejection_sample_method"] = "synthetic"
            config["synthetic_acceptance_rates"] = acceptance_rates(
                acceptance_length=speculation.acceptance_length,
                num_speculative_tokens=speculation.num_speculative_tokens,
            )
        arguments["speculative_config"] = config
    return arguments | spec.settings


def run_engine(task: Assignment, heartbeat: Synchronized[float], told: int) -> None:
    """Process entry: measure `task`, telling progress to the file descriptor `told`."""
    lead_group()  # so that the caller can end the engine core with us
    print_to(task.log)

    def tell(text: str) -> None:
        os.write(told, (text + "\n").encode())

    status: dict[str, Any] = {"engine": task.spec.name, "error": None}
    engine: list[InProcessEngine] = []  # kept to the end: one that is let go of shuts down in order, for seconds
    try:
        engine.append(_measure(task, heartbeat, tell, status))
    except EngineError as error:
        status["error"] = f"{error.line()}; log: {failure_line(_log_text(task.log))}"
    except RowsError:
        os._exit(DISK_FULL)
    except BaseException:
        traceback.print_exc()
        status["error"] = traceback.format_exc(limit=-1).strip().splitlines()[-1]
    if status["error"]:
        tell(f"  {task.spec.name} failed: {status['error'][:600]}")
    try:
        append_row(task.engines, status | read_startup_log(_log_text(task.log)))
    except RowsError:
        os._exit(DISK_FULL)
    sys.stdout.flush()
    os._exit(1 if status["error"] else 0)


def _measure(
    task: Assignment, heartbeat: Synchronized[float], tell: Callable[[str], None], status: dict[str, Any]
) -> InProcessEngine:
    spec = task.spec
    began = time.monotonic()
    prepare_environment(spec.engine_process)
    version = import_vllm()  # at once where the parent has done it and forked
    arguments = engine_arguments(spec, task.shapes, task.work)
    status["arguments"] = arguments
    engine = InProcessEngine(arguments)
    startup_s = time.monotonic() - began
    heartbeat.value = time.monotonic()
    facts = _engine_facts(task, engine, startup_s, version)
    status |= facts
    tell(
        f"  {spec.name}: up in {startup_s:.1f} s, {facts.get('kv_cache_tokens')} KV tokens, {facts['model_runner']}"
        f"{', async' if facts['async_scheduling'] else ''}, {facts['cudagraph_mode']}"
    )
    rng = np.random.default_rng(task.seed)
    vocabulary = engine.vocab_size()

    def beat() -> None:
        heartbeat.value = time.monotonic()

    for point in (WARM_UP, MIXED_WARM_UP):
        measure_cell(
            engine, point, vocab_size=vocabulary, rng=rng, limits=Limits(0, 0.05, 1, 0.1, 1.0, 1, 1.0, 1.0),
            deadline=task.deadline, on_step=beat,
        )  # fmt: skip
    status["cells"] = 0
    for point in task.points:
        cell_began = time.monotonic()
        if cell_began + task.expected_cell_s.get(point.label(), 5.0) > task.deadline:
            tell(f"  {spec.name}: no time left for {point.label()}")
            continue
        cell = measure_cell(
            engine, point, vocab_size=vocabulary, rng=rng, limits=task.limits, deadline=task.deadline, on_step=beat
        )
        if cell is None:
            tell(f"  {spec.name} {point.label()}: not one window before the deadline")
            continue
        row = cell_row(spec, point, cell, facts)
        row["cell_s"] = round(time.monotonic() - cell_began, 3)
        append_row(task.rows, row)
        status["cells"] += 1
        tell(_summary(spec, point, row))
    status["seconds"] = round(time.monotonic() - began, 2)
    return engine


def _engine_facts(task: Assignment, engine: InProcessEngine, startup_s: float, version: str) -> dict[str, Any]:
    log = read_startup_log(_log_text(task.log))
    speculation = task.spec.speculation
    return {
        "target_parameters": task.parameters.get(task.spec.target),
        "drafter_parameters": task.parameters.get(speculation.draft or "") if speculation else None,
        "engine_version": version, "engine_process": task.spec.engine_process,
        "startup_s": round(startup_s, 2),
        **{name: log[name] for name in ("kv_cache_tokens", "kv_cache_bytes") if name in log},
        **engine.facts(), **task.host.facts(),
    }  # fmt: skip


def _summary(spec: EngineSpec, point: Point, row: dict[str, Any]) -> str:
    speculated = ""
    if row["drafts"]:
        tau = row["decode_tokens"] / max(1, row["decode_tokens"] - row["accepted_tokens"])
        speculated = f" AL {1 + row['accepted_tokens'] / row['drafts']:.2f} tau {tau:.2f}"
    cv = row["output_tokens_per_s_cv"]
    return (
        f"  {spec.name} {point.label()}: {row['output_tokens_per_s']:.0f} tok/s"
        f"{'' if cv is None or math.isnan(cv) else f' ±{100 * cv:.0f}%'} tpot {row['tpot_ms_mean'] or math.nan:.2f}"
        f" step {row['step_ms_p50']:.2f} ttft {row['ttft_ms_p50'] or math.nan:.0f} ms{speculated}"
        f" [{row['repeats']} windows, {row['cell_s']:.1f} s, {row['ended_by']}]"
    )


def _log_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
