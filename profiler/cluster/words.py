"""What of a process that uses Ray is read by people: our own lines. What Ray writes goes to a file.

Ray writes pages to standard output and error where a node is lost, and ends the process, without an exception, where
the whole cluster is. So whoever starts such a process gives it a scratch folder: Ray's words go to `ray.log` there, and
files tell how far it came.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

JOINED, ENDED, RAY_LOG = "joined", "ended", "ray.log"


@dataclass(frozen=True)
class Words:
    """Our lines, and how far we came; without a scratch folder everything goes where it always does."""

    scratch: Path | None = None
    output: int = 1
    errors: int = 2

    def tell(self, text: str) -> None:
        """One line on standard output."""
        if self.scratch is None:
            print(text, flush=True)
        else:
            os.write(self.output, f"{text}\n".encode())

    def joined(self) -> None:
        """The cluster has taken us in."""
        if self.scratch is not None:
            (self.scratch / JOINED).touch()

    def give_up(self, text: str) -> None:
        """End this process with one line on standard error, from any thread: Ray cannot be interrupted."""
        os.write(self.errors, f"{text}\n".encode())
        if self.scratch is not None:
            (self.scratch / ENDED).touch()
        os._exit(2)


@contextmanager
def own_words(scratch: Path | None) -> Iterator[Words]:
    """For the length of a `with` block, what anyone else writes goes to the scratch folder."""
    if scratch is None:
        yield Words()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    ours = os.dup(1), os.dup(2)
    log = os.open(scratch / RAY_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield Words(scratch, *ours)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(ours[0], 1)
        os.dup2(ours[1], 2)
        for descriptor in ours:
            os.close(descriptor)
