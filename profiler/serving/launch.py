"""Start `vllm serve` under any interpreter or command, wait until it answers, and stop all of it again.

The server runs in a process group of its own, so that its engine processes end with it; a watchdog ends the group
should we be killed. Readiness is /health answering 200; a process that dies before fails the wait at once, with the
reason read from its log (`profiler.serving.failures`).
Our own interpreter needs no vLLM.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from profiler.errors import LaunchError
from profiler.serving.failures import explain_failure
from profiler.serving.interruption import held
from profiler.serving.watchdog import Watchdog

READY_TIMEOUT_S = 900.0  # a 70B model from a network disk loads for minutes; the wait is bounded, not tight
_STOP_GRACE_S = 20.0  # vLLM's own shutdown of its engine processes takes a few seconds
_POLL_S = 0.25


@dataclass(frozen=True)
class ServeCommand:
    """What is started: a prefix (interpreter or container command), the model, arguments and environment."""

    prefix: tuple[str, ...]
    model: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None

    def command(self, *, host: str, port: int) -> list[str]:
        """The whole command line."""
        return [*self.prefix, self.model, "--host", host, "--port", str(port), *self.arguments]


def serve_prefix(python: str | None) -> tuple[str, ...]:
    """How vLLM is called: an interpreter's path, a command with its own words ("docker run ... vllm serve"), or `vllm`.

    An interpreter is called with -m, since environments exist whose `vllm` script is broken or missing.
    """
    if python is None:
        return ("vllm", "serve")
    words = shlex.split(python)
    if len(words) == 1:
        return (words[0], "-m", "vllm.entrypoints.cli.main", "serve")
    return tuple(words)


class Server:
    """A vLLM server that we started; `url` answers once `wait_until_ready` has returned."""

    def __init__(self, process: subprocess.Popen[bytes], *, url: str, log: Path) -> None:
        self._process = process
        self.url = url
        self.log = log
        self.ready_s: float | None = None

    @property
    def pid(self) -> int:
        """Process id, also the id of its process group."""
        return self._process.pid

    def is_running(self) -> bool:
        """True while the API server's process lives."""
        return self._process.poll() is None

    def wait_until_ready(
        self, *, timeout_s: float = READY_TIMEOUT_S, tick: Callable[[float], None] | None = None
    ) -> None:
        """Return once /health answers 200.

        Raises:
            LaunchError: the process died, with the reason from its log, or `timeout_s` passed.
        """
        begun = time.monotonic()
        with httpx.Client(timeout=5.0, trust_env=False) as client:
            while True:
                waited = time.monotonic() - begun
                if not self.is_running():
                    raise self.failure()
                with contextlib.suppress(httpx.HTTPError):
                    if client.get(f"{self.url}/health").status_code == 200:
                        self.ready_s = waited
                        return
                if waited > timeout_s:
                    raise LaunchError(
                        f"the server did not answer within {timeout_s:.0f} s",
                        got=f"its log ends: {last_line(self.log)}",
                        remedy=f"read {self.log}, or allow more time",
                    )
                if tick is not None:
                    tick(waited)
                time.sleep(_POLL_S)

    def failure(self) -> LaunchError:
        """Why the process is gone, in one line."""
        return explain_failure(
            read_tail(self.log), exit_code=self._process.poll(), log=self.log, was_ready=self.ready_s is not None
        )

    def stop(self) -> None:
        """End the whole process group: SIGTERM, then SIGKILL for what is left after a grace period."""
        for sent, grace_s in ((signal.SIGTERM, _STOP_GRACE_S), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, sent)
            deadline = time.monotonic() + grace_s
            while time.monotonic() < deadline:
                self._process.poll()  # reaps the leader, so that only living members keep the group
                if not _group_lives(self.pid):
                    return
                time.sleep(0.05)


@contextlib.contextmanager
def launched(
    command: ServeCommand,
    *,
    log: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    timeout_s: float = READY_TIMEOUT_S,
    tick: Callable[[float], None] | None = None,
) -> Iterator[Server]:
    """A ready server for the length of a `with` block; whatever ends the block, no process of it is left.

    Raises:
        LaunchError: the command is not there, the port is taken, or the server did not become ready.
    """
    if port is None:
        port = free_port(host)
    elif not _port_is_free(host, port):
        raise LaunchError(f"port {port} of {host} is taken", remedy="name another with --port, or leave it to us")
    server: Server | None = None
    watchdog: Watchdog | None = None
    try:
        with held():
            server = _start(command, log=log, host=host, port=port)
            watchdog = Watchdog(server.pid)
        server.wait_until_ready(timeout_s=timeout_s, tick=tick)
        yield server
    finally:
        if server is not None:
            with held():
                server.stop()
                if watchdog is not None:
                    watchdog.dismiss()


def _start(command: ServeCommand, *, log: Path, host: str, port: int) -> Server:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        sink = log.open("wb")
    except OSError as error:
        raise LaunchError(
            f"the server's log {log} cannot be written", expected="a folder that can be written to",
            got=(error.strerror or "an error").lower(), remedy="name another with --log-folder",
        ) from error  # fmt: skip
    environment = server_environment(command.environment)
    words = command.command(host=host, port=port)
    try:
        with sink:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        raise LaunchError(
            f"cannot start {words[0]}",
            expected="an interpreter or command that has vLLM",
            got=error.strerror,
            remedy="name one with --python PATH",
            field="python",
        ) from error
    return Server(process, url=f"http://{host}:{port}", log=log)


def server_environment(own: Mapping[str, str] | None) -> dict[str, str]:
    """Our environment and what is added for the server; what points to our own interpreter must not leak into it."""
    environment = {**os.environ, **(own or {})}
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        if name not in (own or {}):
            environment.pop(name, None)
    return environment


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on now; vLLM opens it a minute later, so a race is possible and is reported then."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _port_is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def read_tail(log: Path, *, max_bytes: int = 200_000) -> str:
    """The end of a log, however long it is; empty where there is none."""
    try:
        with log.open("rb") as source:
            source.seek(0, os.SEEK_END)
            source.seek(max(0, source.tell() - max_bytes))
            return source.read().decode(errors="replace")
    except OSError:
        return ""


def last_line(log: Path) -> str:
    """The last line with text, for a message."""
    lines = [line.strip() for line in read_tail(log, max_bytes=4000).splitlines() if line.strip()]
    return lines[-1][:300] if lines else "(empty)"
