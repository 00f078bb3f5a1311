"""`specworth sweep`: runs `python -m profiler.sweep` under the interpreter that has vLLM, and ends it with us.

That interpreter sees nothing of ours but the package `profiler`, through a link in a folder of its own: our own
site-packages were built for another Python and hold other versions than vLLM's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import profiler
from api.commands.children import run_until_signal
from api.commands.duration import seconds
from api.commands.run_cluster_sweep import check_executor, run_cluster_sweep
from profiler.errors import InputError
from profiler.sweep.grid import only_engines, read_grid

_GRACE_S = 30.0  # a sweep that is told to stop ends its engine or server (which has 25 s for it)


def run_sweep(options: Mapping[str, Any]) -> int:
    """Check the grid here, where errors are told soonest, then measure; the sweep's own exit code."""
    grid = read_grid(options["grid"])
    only_engines(grid, options["only"])
    on_cluster = check_executor(options)
    arguments = [
        str(options["grid"].absolute()),
        "--out",
        str(options["out"].absolute()),
        "--seed",
        str(options["seed"]),
    ]
    if options["time_limit"] is not None:
        arguments += ["--time-limit", f"{seconds(options['time_limit'], option='--time-limit'):g}"]
    arguments += [flag for flag, given in (("--resume", options["resume"]), ("--plan", options["plan"])) if given]
    if options["only"]:
        arguments += ["--only", *options["only"]]
    if on_cluster and not options["plan"]:
        return run_cluster_sweep(options, arguments)
    # A plan needs no vLLM, and that of a cluster names an interpreter of its nodes.
    python = _interpreter(None if on_cluster else options["python"], needs_vllm=not options["plan"])
    if options["served"] and not options["plan"]:
        # The load comes from here, so it needs our own packages; the server gets the other interpreter.
        command = [sys.executable, "-m", "profiler.sweep.served", *arguments, "--python", python]
        return run_until_signal(command, dict(os.environ), grace_s=_GRACE_S)
    with _our_source() as source:
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
        command = [python, "-m", "profiler.sweep", *arguments]
        return run_until_signal(command, environment | {"PYTHONPATH": str(source)}, grace_s=_GRACE_S)


def _interpreter(given: str | None, *, needs_vllm: bool) -> str:
    remedy = "name an interpreter that has vLLM with --python PATH"
    if given is None:
        if needs_vllm and find_spec("vllm") is None:
            raise InputError("specworth's own interpreter has no vLLM", remedy=remedy)
        return sys.executable
    path = shutil.which(str(Path(given).expanduser()))
    if path is None:
        raise InputError(f"--python: {given} is no program", expected="a Python interpreter", remedy=remedy)
    # Checked without importing it, which takes ten seconds.
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        found = subprocess.run([path, "-c", look], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--python: {given} cannot be run", got=str(error), remedy=remedy) from error
    if needs_vllm and not found:
        raise InputError(f"--python: {given} has no vLLM", remedy=remedy)
    return path


@contextmanager
def _our_source() -> Iterator[Path]:
    """A folder that holds the package `profiler` and nothing else."""
    with tempfile.TemporaryDirectory(prefix="specworth-source-") as folder:
        (Path(folder) / "profiler").symlink_to(Path(profiler.__file__).parent, target_is_directory=True)
        yield Path(folder)
