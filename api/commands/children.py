"""A child process that does a command's work: it runs to its end, is told of our signals, and ends with us."""

from __future__ import annotations

import signal
import subprocess

from profiler.serving.interruption import Interrupted, held, interruptible
from profiler.serving.watchdog import Watchdog


def run_until_signal(command: list[str], environment: dict[str, str], *, grace_s: float) -> int:
    """Run to the end, and give its exit code; a signal is passed on, and the child then ends what it started itself."""
    process: subprocess.Popen[bytes] | None = None
    watchdog: Watchdog | None = None
    number: int = signal.SIGINT
    with interruptible():
        try:
            with held():
                process = subprocess.Popen(command, env=environment, start_new_session=True)
                watchdog = Watchdog(process.pid, grace_s=round(grace_s))
            return process.wait()
        except Interrupted as stop:
            number = stop.number
            return stop.exit_code
        finally:
            with held():
                if process is not None:
                    _end(process, number, grace_s)
                if watchdog is not None:
                    watchdog.dismiss()


def _end(process: subprocess.Popen[bytes], number: int, grace_s: float) -> None:
    if process.poll() is not None:
        return
    process.send_signal(number)
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
