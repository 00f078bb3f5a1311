"""A real PostgreSQL for the tests, from Debian's packages: installed where it is missing, started as nobody important.

    python -m tests.postgresql        # installs it where it is missing (as root, or by sudo), says where it is

PostgreSQL refuses to run as root, so a cluster that root's tests start belongs to the user postgres. Its data lie in a
folder of the tests; it listens on a free loopback port. Standard library only, since `make test` runs this early.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.debian import installed


def binaries() -> Path | None:
    """The folder of initdb and pg_ctl, of the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def install() -> Path:
    """The same, installed if it is missing."""
    return installed("postgresql", "PostgreSQL's server", binaries)


class Cluster:
    """One server with its data; can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._bin = install()
        self._folder = folder
        self._data = folder / "data"
        self._user: str | None = None
        if os.geteuid() == 0:
            known = {entry.pw_name for entry in pwd.getpwall()}
            self._user = "postgres" if "postgres" in known else "nobody"
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, pwd.getpwnam(self._user).pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._run("initdb", "--username=tests", "--auth=trust", "--encoding=UTF8", "--no-sync", "--no-locale")

    def url(self, database: str = "postgres") -> str:
        """Of one of its databases."""
        return f"postgresql://tests@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
        self._run("pg_ctl", "--wait", f"--log={self._folder / 'log'}", f"--options={options}", "start")

    def stop(self, mode: str = "immediate") -> None:
        """End it; `immediate` is what a crash leaves behind."""
        self._run("pg_ctl", "--wait", f"--mode={mode}", "stop")

    @property
    def running(self) -> bool:
        """Was it started, and not ended in order?"""
        return (self._data / "postmaster.pid").exists()

    def processes(self) -> list[int]:
        """The ids of all its processes, the first one's first."""
        first = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def create(self, database: str) -> str:
        """A fresh database; its URL."""
        self._psql(f'CREATE DATABASE "{database}"')
        return self.url(database)

    def _psql(self, statement: str) -> None:
        command = [self._bin / "psql", "--no-psqlrc", "--quiet", "--command", statement, self.url()]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def _run(self, name: str, *arguments: str) -> None:
        command = [self._bin / name, "--pgdata", self._data, *arguments]
        # A file, not a pipe: the server inherits it, and a pipe would be read until the server ends.
        with tempfile.TemporaryFile("w+") as told:
            ended = subprocess.run(command, stdout=told, stderr=told, user=self._user, cwd=self._folder)
            told.seek(0)
            assert ended.returncode == 0, told.read()


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    """A server that ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="specworth-postgresql-"))
    try:
        cluster = Cluster(folder)
        cluster.start()
        try:
            yield cluster
        finally:
            with contextlib.suppress(AssertionError):  # a test may have stopped it
                cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    print(install(), file=sys.stderr)
