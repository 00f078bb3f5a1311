"""What runs on a node: one command in a folder of its own, whose files are told line by line as they grow.

Ray's worker imports this from the copy of `profiler` that travels with the job, so it needs the standard library alone.
The command runs as if nobody had called it from Ray: without Ray's variables and the thread count that Ray sets, with
the GPUs that Ray gave it. It is told to stop when the task is cancelled, and ended by a watchdog where the task's
process is killed (as Ray does where the caller or the node is lost).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import profiler
from profiler.serving.watchdog import Watchdog

_LOOK_EVERY_S = 0.2
_CHUNK = 64 * 1024  # bytes: what Ray carries within its answer, so that it does not stay on a node that may be lost
OUTPUT = "output"  # the file that holds what the command prints
SECONDS_LEFT = "{seconds_left}"
INTERPRETER = "{python}"  # the one that Ray's workers run under
_FIND_VLLM = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"


@dataclass(frozen=True)
class Work:
    """One command; its words may hold `{seconds_left}` until `until`, and `{python}`, the node's own interpreter.

    told: files, relative to the folder, whose new lines are told; what the command prints is among them.
    kept: files that are told as they are once it has ended.
    until: seconds since the epoch; the clocks of a cluster's hosts agree to about a second.
    grace_s: between the signal that tells it to stop and the one that ends it.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    until: float | None = None
    grace_s: float = 30.0


class News(NamedTuple):
    """What a task tells: where it began, new lines of a file, a piece of a kept file, or its exit code at the end."""

    kind: Literal["began", "lines", "file", "ended"]
    name: str = ""
    lines: tuple[str, ...] = ()
    piece: bytes = b""
    exit_code: int = 0


def carry_out(work: Work) -> Iterator[News]:
    """Run it to its end; to be called as a Ray task whose results are streamed."""
    folder = Path(tempfile.mkdtemp(prefix="specworth-task-"))
    process: subprocess.Popen[bytes] | None = None
    watchdog: Watchdog | None = None
    try:
        yield News("began", name=socket.gethostname())
        for name, text in work.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        with (folder / OUTPUT).open("wb") as output:
            process = subprocess.Popen(
                _words(work), cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                start_new_session=True, env=own_environment() | dict(work.environment),
            )  # fmt: skip
        watchdog = Watchdog(process.pid, grace_s=round(work.grace_s))
        read = dict.fromkeys((*work.told, OUTPUT), 0)  # what it prints of a row is told after the row
        running = True
        while running:
            running = process.poll() is None
            for name in read:
                lines, read[name] = _new_lines(folder / name, read[name], whole=not running)
                if lines:
                    yield News("lines", name=name, lines=lines)
            if running:
                time.sleep(_LOOK_EVERY_S)
        for name in work.kept:
            yield from _pieces(folder / name)
        yield News("ended", exit_code=process.returncode)
    finally:
        if process is not None:
            _stop(process, work.grace_s)
        if watchdog is not None:
            watchdog.dismiss()
        shutil.rmtree(folder, ignore_errors=True)


def look_for_vllm(python: str | None) -> tuple[str, str | None]:
    """The node's name, and why vLLM cannot be run there; to be called as a Ray task."""
    here = socket.gethostname()
    path = sys.executable if python is None else shutil.which(os.path.expanduser(python))
    if path is None:
        return here, f"no program {python}"
    try:
        done = subprocess.run([path, "-c", _FIND_VLLM], capture_output=True, timeout=60, env=own_environment())
    except (OSError, subprocess.TimeoutExpired) as error:
        return here, str(error)
    return here, None if done.returncode == 0 else f"{path} has no vLLM"


def own_environment() -> dict[str, str]:
    """Of this process as it was started, without what concerns Ray and its Python, with the GPUs that Ray gave."""
    try:
        pairs = Path("/proc/self/environ").read_bytes().decode(errors="surrogateescape").split("\0")
        started = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    except OSError:  # no Linux
        started = dict(os.environ)
    given = {
        name: value for name, value in os.environ.items()
        if started.get(name) != value and name not in ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")
    }  # fmt: skip
    ours = {
        name: value for name, value in (started | given).items()
        if not name.startswith(("RAY_", "PYTHON")) and name != "VIRTUAL_ENV"
    }  # fmt: skip
    return ours | {"PYTHONPATH": str(Path(profiler.__file__).parent.parent), "PYTHONUNBUFFERED": "1"}


def _words(work: Work) -> list[str]:
    left = max(1.0, (work.until or time.time()) - time.time())
    return [
        os.path.expanduser(word.replace(SECONDS_LEFT, f"{left:.0f}").replace(INTERPRETER, sys.executable))
        for word in work.command
    ]


def _new_lines(path: Path, begin: int, *, whole: bool) -> tuple[tuple[str, ...], int]:
    """Lines that ended after byte `begin`, and where the next one begins; `whole`: also one without its end."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            new = file.read()
    except FileNotFoundError:
        return (), begin
    if not whole:
        new = new[: new.rfind(b"\n") + 1]
    return tuple(new.decode(errors="replace").splitlines()), begin + len(new)


def _pieces(path: Path) -> Iterator[News]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield News("file", name=path.name, piece=piece)
    except OSError:
        return


def _stop(process: subprocess.Popen[bytes], grace_s: float) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
