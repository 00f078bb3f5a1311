"""Faults of ten seconds and full disks, for real, under clients that ask again with their Idempotency-Key.

What such clients were told is exactly what the database holds in the end: nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from api.history.database import Database, read_url
from api.history.tables import recommendations
from models.artefact import FOLDER
from tests.api.history.processes import BODY, JSON, PATH, Busy, service
from tests.postgresql import Cluster

OUTAGE_S = 10.0


@dataclass
class Retrying(Busy):
    """They send each request again, with its key, until it is answered; `answered` has key and id."""

    count: int = 2
    answered: dict[str, str] = field(default_factory=dict)
    broken: int = 0  # connections without an answer, or with half of one

    def work(self) -> None:
        with httpx.Client(timeout=30, trust_env=False) as client:
            while not self._stop.is_set():
                key = uuid.uuid4().hex
                while (told := self._send(client, key)) is None:
                    time.sleep(0.1)
                self.answered[key] = told

    def _send(self, client: httpx.Client, key: str) -> str | None:
        try:
            answer = client.post(self.url + PATH, content=BODY, headers=JSON | {"Idempotency-Key": key})
            found = answer.json()
        except (httpx.HTTPError, ValueError):
            self.broken += 1
            return None
        if answer.status_code == 200:
            return str(found["id"])
        self.refused.append(answer)
        return None

    def wait_for(self, more: int, seconds: float = 40.0) -> None:
        """Until so many more are answered."""
        wanted = len(self.answered) + more
        until = time.monotonic() + seconds
        while len(self.answered) < wanted:
            assert time.monotonic() < until, (len(self.answered), self.refused[-1:], self.broken)
            time.sleep(0.02)

    def check(self, database_url: str) -> None:
        """What the clients were told is what there is; what they were refused with was a 503 that says so."""
        for answer in self.refused:
            assert answer.status_code == 503, answer.text
            assert answer.json()["type"] == "urn:problem-type:specworth:storage-unavailable"
            assert int(answer.headers["retry-after"]) > 0
        database = Database(read_url(database_url))
        with database.reading() as connection:
            kept = connection.execute(select(recommendations.c.id)).scalars().all()
        database.close()
        assert sorted(kept) == sorted(self.answered.values())


def test_killed_under_load_each_request_is_answered_once(tmp_path, database_url):
    """kill -9 and a new process: clients that lost their answer get it, and none of their requests is kept twice."""
    with contextlib.ExitStack() as stack:
        process, url, _ = stack.enter_context(service(tmp_path, database_url=database_url))
        clients = stack.enter_context(Retrying(url, count=4))
        clients.wait_for(10)
        process.kill()
        process.wait()
        with service(tmp_path, database_url=database_url) as (_, again, _):
            clients.url = again
            clients.wait_for(20)
            stack.close()
    assert clients.broken > 0
    clients.check(database_url)


def test_a_database_locked_or_gone_for_ten_seconds(tmp_path, cluster):
    """SQLite's file locked, another moved away, PostgreSQL stopped, all at once: 503 meanwhile, then all is well."""
    names = ("locked", "moved", "stopped")
    folders = {name: tmp_path / name for name in names}
    for folder in folders.values():
        folder.mkdir()
    urls = {name: f"sqlite:///{folders[name] / 'history.sqlite3'}" for name in names[:2]}
    urls["stopped"] = cluster.create(f"stopped_{uuid.uuid4().hex}")
    with contextlib.ExitStack() as stack:
        served = {name: stack.enter_context(service(folders[name], database_url=urls[name]))[1] for name in names}
        with contextlib.ExitStack() as asking:
            clients = {name: asking.enter_context(Retrying(served[name])) for name in names}
            for one in clients.values():
                one.wait_for(3)
            lock = sqlite3.connect(folders["locked"] / "history.sqlite3", isolation_level=None, timeout=30)
            lock.execute("BEGIN IMMEDIATE")
            (folders["moved"] / "history.sqlite3").rename(tmp_path / "elsewhere")
            cluster.stop("immediate")
            try:
                before = {name: len(one.answered) for name, one in clients.items()}
                time.sleep(OUTAGE_S)
                for name, url in served.items():
                    assert httpx.get(url + "/healthz", timeout=10, trust_env=False).status_code == 200, name
                    assert len(clients[name].answered) - before[name] <= clients[name].count, name  # commits under way
                for name in ("moved", "stopped"):  # what is locked can still be read
                    assert httpx.get(served[name] + "/readyz", timeout=10, trust_env=False).status_code == 503
            finally:
                lock.execute("ROLLBACK")
                lock.close()
                (tmp_path / "elsewhere").rename(folders["moved"] / "history.sqlite3")
                cluster.start()
            for one in clients.values():
                one.wait_for(5)
    for name, one in clients.items():
        assert one.refused, name
        one.check(urls[name])


def may_mount() -> bool:
    """Whether this process has the right to mount (CAP_SYS_ADMIN), as root has it outside of most containers."""
    status = Path("/proc/self/status").read_text()
    return bool(int(re.search(r"CapEff:\s*([0-9a-f]+)", status)[1], 16) >> 21 & 1)


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A file system of its own, of this size."""
    folder = Path(tempfile.mkdtemp(prefix="specworth-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(path: Path) -> None:
    """Take what room there is, to the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


def until_full(clients: Retrying, url: str) -> None:
    """Until writing is refused; the service is well all along."""
    until = time.monotonic() + 60
    while len(clients.refused) < 4:
        assert time.monotonic() < until, "it never became full"
        time.sleep(0.05)
    assert httpx.get(url + "/healthz", timeout=10, trust_env=False).status_code == 200


def test_the_largest_file_that_may_be_is_reached(tmp_path):
    """A limit on the size of the service's files: 503 while it holds; raised, all goes on, and the file is sound."""
    path = tmp_path / "history.sqlite3"
    with (
        service(tmp_path, database_url=f"sqlite:///{path}", database_wait_s="1") as (process, url, _),
        Retrying(url) as clients,
    ):
        clients.wait_for(3)
        largest = max(one.stat().st_size for one in tmp_path.iterdir())
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest + 16_384, hard))
        until_full(clients, url)
        assert httpx.get(url + PATH, timeout=10, trust_env=False).status_code == 200  # reading goes on
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        clients.wait_for(5)
    sound(path)
    clients.check(f"sqlite:///{path}")


def sound(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def the_disk_is_full(tmp_path, kind):
    """A file system without a byte left: 503 while it is so; with room again it goes on, and nothing is damaged."""
    with small_disk("8m" if kind == "sqlite" else "160m") as folder, contextlib.ExitStack() as stack:
        database_url = f"sqlite:///{folder / 'history.sqlite3'}"
        if kind == "postgresql":
            cluster = Cluster(folder)
            cluster.start()
            stack.callback(cluster.stop)
            database_url = cluster.create("full")
        with (
            service(tmp_path, database_url=database_url, database_wait_s="1") as (_, url, _),
            Retrying(url) as clients,
        ):
            clients.wait_for(3)
            fill(folder / "filler")
            until_full(clients, url)
            (folder / "filler").unlink()
            clients.wait_for(5)
        if kind == "sqlite":
            sound(folder / "history.sqlite3")
        clients.check(database_url)


if may_mount():  # elsewhere the limit on files stands for the disk's end

    @pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
    def test_the_disk_is_full(tmp_path, kind):
        """No byte is left on the file system of SQLite's file, or of PostgreSQL's server."""
        the_disk_is_full(tmp_path, kind)


def test_a_tampered_artefact_is_noticed_and_told(tmp_path):
    """A trained file that is not what the manifest says: not ready, by its name, and no answer rests on it."""
    shutil.copytree(FOLDER, tmp_path / "models")
    damaged = tmp_path / "models" / "step_cost.json"
    text = damaged.read_bytes()
    damaged.write_bytes(text.replace(b"0.1", b"0.2", 1))
    assert damaged.read_bytes() != text
    with service(tmp_path, models=str(tmp_path / "models")) as (_, url, lines):
        ready = httpx.get(url + "/readyz", timeout=30, trust_env=False)
        assert ready.status_code == 503
        (found,) = (check for check in ready.json()["checks"] if check["name"] == "artefacts")
        assert found["status"] == "failed"
        assert "step_cost.json" in found["detail"]
        answer = httpx.post(url + PATH, content=BODY, headers=JSON, timeout=30, trust_env=False)
        assert answer.status_code == 500
        assert "step_cost.json" in answer.json()["detail"]
        assert httpx.get(url + PATH, timeout=30, trust_env=False).json()["recommendations"] == []
        assert httpx.get(url + "/healthz", timeout=30, trust_env=False).status_code == 200
        assert any("not ready" in line and "step_cost.json" in line for line in list(lines))
