"""An engine's process, from its birth to the end of everything that it started, whatever happens in between.

The process opens a group of its own (`os.setsid`), in which vLLM's engine core lies, too. It is ended by SIGKILL: an
orderly shutdown of an engine takes seconds of a GPU and gives nothing. A watchdog does the same if we are killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing.process
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from profiler.serving.interruption import held
from profiler.serving.watchdog import Watchdog


@contextlib.contextmanager
def running(process: multiprocessing.process.BaseProcess) -> Iterator[None]:
    """Started for the length of a `with` block; nothing of it is left then. `process.exitcode` tells how it ended."""
    watchdog: Watchdog | None = None
    try:
        with held():  # from here on there is something to end
            process.start()
            watchdog = Watchdog(process.pid or 0, grace_s=0)
        yield
    finally:
        with held():
            if process.pid is not None:
                process.kill()  # it may not have opened its group yet
                end_group(process.pid)
                process.join(5.0)
            if watchdog is not None:
                watchdog.dismiss()


def attend(
    process: multiprocessing.process.BaseProcess, heartbeat: Synchronized[float], log: Path, *, until: float,
    stall_s: float,
) -> str | None:  # fmt: skip
    """Wait for the end of a process that beats and logs; why it is to be ended where it does not end by itself.

    `until` and the heartbeat are readings of time.monotonic. A process stands still when it neither beats nor logs.
    """
    while process.is_alive():
        process.join(0.1)
        now = time.monotonic()
        silent = min(now - heartbeat.value, time.time() - log.stat().st_mtime if log.exists() else now)
        if now > until:
            return "the time limit came"
        if silent > stall_s:
            return f"no output for {stall_s:.0f} s"
    return None


def lead_group() -> None:
    """To be called first by the process itself: a group of its own, and no handlers that a fork brought along."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def print_to(log: Path) -> None:
    """Let all that this process and its children print from here on go to `log`, written anew."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)


def end_group(pid: int) -> None:
    """End a worker and the engine core that it started; both lie in the process group that the worker opened."""
    for _ in range(20):
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.05)
