"""What ends a server when we are killed outright? A small shell that waits for our end and then ends the group.

A signal that can be caught unwinds the stack (`profiler.serving.interruption`); SIGKILL, or the host's out-of-memory
killer, leaves nobody to do so. The shell's standard input is a pipe that we alone hold open: it reads its end when we
are gone, however that came about.
"""

from __future__ import annotations

import os
import subprocess
from types import TracebackType
from typing import Self

# SIGTERM first, so that vLLM frees what it shares with others; SIGKILL for what is left. dash's kill knows no "--".
_SCRIPT = """
read -r _
kill -TERM "-$0" 2> /dev/null
for _ in $(seq "$1"); do kill -0 "-$0" 2> /dev/null || exit 0; sleep 1; done
kill -KILL "-$0" 2> /dev/null
"""


class Watchdog:
    """Ends a process group if this process ends before `dismiss()`; a context manager for the time between."""

    def __init__(self, group: int, *, grace_s: int = 20) -> None:
        """grace_s: between SIGTERM and SIGKILL; 0 kills at once."""
        reader, self._held_open = os.pipe()  # neither is passed on to other processes
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, str(group), str(grace_s)],
                stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError:
            os.close(self._held_open)
            raise
        finally:
            os.close(reader)

    def dismiss(self) -> None:
        """There is nothing left to watch over."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._held_open)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dismiss()
