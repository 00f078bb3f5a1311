"""`specworth sweep`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def sweep(
    grid: Annotated[Path, typer.Argument(metavar="GRID.yaml", help="Engines x traffic to measure; see data/grids.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for rows.jsonl and logs.")],
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter that has vLLM; ours if not given.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="TIME", help="End cleanly before this has passed: 90s, 10m, 2h.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in --out where an earlier sweep stopped.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ENGINE", help="This engine of the grid alone; may be repeated.")
    ] = None,
    served: Annotated[
        bool, typer.Option("--served", help="Measure `vllm serve` over HTTP instead of engines in process.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be measured, and stop.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random prompts.")] = 0,
    executor: Annotated[
        str, typer.Option(metavar="local|ray", help="Where engines run: on this host, or on a Ray cluster.")
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The cluster's head; RAY_ADDRESS or this host's if not given."),
    ] = None,
    ray_gpus: Annotated[
        int | None, typer.Option(min=0, help="GPUs of one engine, 0 for CPUs; its parallel sizes if not given.")
    ] = None,
    ray_cpus: Annotated[int | None, typer.Option(min=1, help="CPU cores of one engine; 2 if not given.")] = None,
    ray_accelerator: Annotated[
        str | None, typer.Option(metavar="KIND", help="Ray's name of the kind of GPU to measure on, such as H200.")
    ] = None,
) -> Callable[[], int]:
    """Measure a grid of engines and traffic on this host, one row per cell, for fitting the cost model.

    \b
    What would be measured, then the measurement, in at most ten minutes:
      specworth sweep data/grids/cost-1.yaml --out measured --plan
      specworth sweep data/grids/cost-1.yaml --out measured --python ~/vllm/bin/python --time-limit 10m
    The rest of it later:
      specworth sweep data/grids/cost-1.yaml --out measured --python ~/vllm/bin/python --resume

    \b
    On all nodes of a Ray cluster (pip install 'specworth[ray]'; this host is one of them):
      specworth sweep data/grids/cost-1.yaml --out measured --executor ray --ray-address 10.0.0.5:6379 \\
        --python /opt/vllm/bin/python

    Engines run with random weights, so that no model is downloaded; requests of one length are kept at constant
    concurrency. On a host that has vLLM but not specworth's dependencies, the source alone does the same:
      python -m profiler.sweep data/grids/cost-1.yaml --out measured
    """
    options = dict(locals())

    def job() -> int:
        from api.commands.run_sweep import run_sweep

        return run_sweep(options)

    return job
