"""`specworth sweep --executor ray`: runs `python -m profiler.cluster.sweep`, and has the last word where Ray ends it.

Ray ends a process whose cluster is gone, without an exception to catch and with lines of its own. What it wrote goes to
ray.log beside the rows.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from api.commands.children import run_until_signal
from profiler.cluster.connection import ClusterError, ClusterLostError, load_ray, read_address
from profiler.cluster.words import ENDED, JOINED, RAY_LOG
from profiler.errors import InputError
from profiler.sweep.rows import read_rows

_GRACE_S = 60.0  # for tasks that are told to stop, which end their engines
EXECUTORS = ("local", "ray")


def check_executor(options: Mapping[str, Any]) -> bool:
    """Whether the sweep runs on a cluster. Raises InputError for an unknown executor, and for options of the other."""
    if options["executor"] not in EXECUTORS:
        raise InputError("--executor: no such executor", expected=" or ".join(EXECUTORS), got=repr(options["executor"]))
    given = [name for name in ("ray_address", "ray_gpus", "ray_cpus", "ray_accelerator") if options[name] is not None]
    if options["executor"] == "local" and given:
        raise InputError(f"--{given[0].replace('_', '-')} is for a Ray cluster", remedy="add --executor ray")
    return bool(options["executor"] == "ray")


def run_cluster_sweep(options: Mapping[str, Any], arguments: list[str]) -> int:
    """Measure on the cluster; the sweep's own exit code, 1 where the cluster was lost."""
    load_ray()
    address = read_address(options["ray_address"])
    with tempfile.TemporaryDirectory(prefix="specworth-ray-") as folder:
        scratch = Path(folder)
        command = [sys.executable, "-m", "profiler.cluster.sweep", *arguments, "--ray-address", address]
        for name in ("ray_gpus", "ray_cpus", "ray_accelerator", "python"):
            if options[name] is not None:
                command += ["--" + name.replace("_", "-"), str(options[name])]
        command += ["--served"] if options["served"] else []
        code = run_until_signal([*command, "--scratch", str(scratch)], dict(os.environ), grace_s=_GRACE_S)
        out: Path = options["out"].absolute()
        log = scratch / RAY_LOG
        if out.is_dir() and log.exists() and log.stat().st_size:
            with suppress(OSError):
                shutil.copyfile(log, out / RAY_LOG)
        if code < 128 and not (scratch / ENDED).exists():
            if not (scratch / JOINED).exists():
                said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
                raise ClusterError(
                    f"the Ray cluster at {address} cannot be joined", got=(said or ["no word"])[-1][-300:],
                    remedy="this machine must be part of it: ray start --address=HOST:PORT --num-cpus=0",
                )  # fmt: skip
            rows = out / "rows.jsonl"
            kept = len(read_rows([rows], tell=False))
            raise ClusterLostError(
                f"the Ray cluster at {address} went away", got=f"{kept} cells, which {rows} holds",
                remedy=f"go on with --resume once it is back; {out / RAY_LOG} has what Ray said",
            )  # fmt: skip
    return code
