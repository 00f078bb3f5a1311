"""The database locked, away, replaced, stopped or full, the service killed: nothing acknowledged is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
import uuid

import httpx
import pytest
from sqlalchemy import select

from api.history import recommendations as stored
from api.history import schema
from api.history.database import Database, read_url
from api.history.errors import UnavailableError
from api.history.tables import recommendations
from tests.api.history.processes import BODY, JSON, PATH, Clients, service


def post(url):
    return httpx.post(url + PATH, content=BODY, headers=JSON, timeout=60, trust_env=False)


def unavailable(answer):
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["type"] == "urn:problem-type:specworth:storage-unavailable"
    return answer.json()["detail"]


def stored_ids(database_url):
    """Every id that the database holds, read past the service."""
    database = Database(read_url(database_url))
    with database.reading() as connection:
        found = set(connection.execute(select(recommendations.c.id)).scalars())
    database.close()
    return found


def wait_for(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def test_killed_under_load_every_acknowledged_id_is_there(tmp_path, database_url):
    """kill -9 while four clients post, twice over one database: what was answered is found afterwards."""
    acknowledged: list[str] = []
    for _ in range(2):
        with service(tmp_path, database_url=database_url) as (process, url, _), Clients(url) as clients:
            wait_for(lambda clients=clients: len(clients.acknowledged) >= 25)
            process.kill()
            process.wait()
        acknowledged += clients.acknowledged
        assert clients.refused == []
    assert set(acknowledged) <= stored_ids(database_url)
    assert len(acknowledged) >= 50


def test_stopped_by_a_signal_it_finishes_what_is_under_way(tmp_path, database_url):
    """SIGTERM under load: each request is answered or its connection refused; what was answered is there."""
    with service(tmp_path, database_url=database_url) as (process, url, _):
        with Clients(url) as clients:
            wait_for(lambda: len(clients.acknowledged) >= 10)
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
        assert clients.refused == []
    assert set(clients.acknowledged) <= stored_ids(database_url)


def test_locked_for_a_moment_a_request_waits(tmp_path):
    """Another program writes for a second: the answer comes after it."""
    path = tmp_path / "h.sqlite3"
    with service(tmp_path, database_url=f"sqlite:///{path}") as (_, url, _):
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1.0, other.execute, ["COMMIT"])
        began = time.monotonic()
        release.start()
        answer = post(url)
        assert answer.status_code == 200
        assert time.monotonic() - began >= 0.9
        release.join()
        other.close()
    assert stored_ids(f"sqlite:///{path}") == {answer.json()["id"]}


def test_locked_for_long_it_says_so_in_time_and_recovers(tmp_path):
    """503 with Retry-After once the wait is over, for each of many at once; nothing was kept; then it works again."""
    path = tmp_path / "h.sqlite3"
    with service(tmp_path, database_url=f"sqlite:///{path}", database_wait_s="1") as (_, url, _):
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        unavailable(post(url))
        assert 0.8 <= time.monotonic() - began < 4
        assert httpx.get(url + "/healthz").status_code == 200
        with Clients(url, count=12) as clients:
            wait_for(lambda: len(clients.refused) >= 24)
        for refused in clients.refused:
            unavailable(refused)
        assert clients.acknowledged == []
        other.execute("COMMIT")
        other.close()
        assert stored_ids(f"sqlite:///{path}") == set()
        assert post(url).status_code == 200


def test_a_file_that_is_moved_away_for_a_while_loses_nothing(tmp_path):
    """No write goes into a file that nobody will find, none is made anew; put back, it is used again."""
    path = tmp_path / "h.sqlite3"
    with (
        service(tmp_path, database_url=f"sqlite:///{path}", database_wait_s="1") as (_, url, _),
        Clients(url) as clients,
    ):
        wait_for(lambda: len(clients.acknowledged) >= 10)
        path.rename(tmp_path / "elsewhere")
        wait_for(lambda: len(clients.refused) >= 8)
        assert not path.exists()
        assert httpx.get(url + "/readyz").status_code == 503
        before = len(clients.acknowledged)
        (tmp_path / "elsewhere").rename(path)
        wait_for(lambda: len(clients.acknowledged) >= before + 10)
    for refused in clients.refused:
        unavailable(refused)
    assert set(clients.acknowledged) <= stored_ids(f"sqlite:///{path}")


def test_a_file_that_is_replaced_is_noticed(make_record, tmp_path):
    """A commit into the file that was there before does not count; the next one goes into the new file."""
    database = Database(read_url(f"sqlite:///{tmp_path / 'h.sqlite3'}"))
    schema.prepare(database)
    assert database.path is not None
    first, second = make_record(), make_record()
    stored.keep(database, first)
    kept = database.path.read_bytes()
    database.path.rename(tmp_path / "old")
    database.path.write_bytes(kept)
    with pytest.raises(UnavailableError, match="replaced"):
        stored.keep(database, second)
    stored.keep(database, second)
    assert stored.find(database, second.id) is not None


def test_a_server_that_restarts_loses_nothing(tmp_path, cluster):
    """PostgreSQL crashes under load and comes back: 503 meanwhile, and every acknowledged id is there."""
    database_url = cluster.create(f"restart_{uuid.uuid4().hex}")
    with service(tmp_path, database_url=database_url, database_wait_s="1") as (_, url, _), Clients(url) as clients:
        wait_for(lambda: len(clients.acknowledged) >= 10)
        cluster.stop("immediate")
        try:
            wait_for(lambda: len(clients.refused) >= 8)
        finally:
            cluster.start()
        before = len(clients.acknowledged)
        wait_for(lambda: len(clients.acknowledged) >= before + 10)
    for refused in clients.refused:
        unavailable(refused)
    assert set(clients.acknowledged) <= stored_ids(database_url)


def test_a_server_that_hangs_is_not_waited_for(tmp_path, cluster):
    """PostgreSQL's processes are stopped: callers are told in time, and served again when it goes on."""
    database_url = cluster.create(f"hang_{uuid.uuid4().hex}")
    with service(tmp_path, database_url=database_url, database_wait_s="1") as (_, url, _):
        assert post(url).status_code == 200
        stopped = cluster.processes()
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            began = time.monotonic()
            unavailable(post(url))
            assert time.monotonic() - began < 5
            assert httpx.get(url + "/healthz").status_code == 200
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)
        wait_for(lambda: post(url).status_code == 200)


def test_a_service_starts_before_its_database(tmp_path, cluster):
    """Not ready until it is there, then ready, with its tables made."""
    database_url = cluster.create(f"late_{uuid.uuid4().hex}")
    cluster.stop("fast")
    try:
        with service(tmp_path, database_url=database_url, database_wait_s="1") as (_, url, _):
            told = httpx.get(url + "/readyz")
            assert told.status_code == 503
            assert told.json()["checks"][0]["status"] == "failed"
            cluster.start()
            wait_for(lambda: httpx.get(url + "/readyz").status_code == 200)
            assert post(url).status_code == 200
    finally:
        if not cluster.running:
            cluster.start()


def test_a_full_disk_is_told_and_mended(tmp_path, make_record):
    """SQLite's own limit of pages stands for the disk's end: unavailable, nothing half kept; with room it works."""
    database = Database(read_url(f"sqlite:///{tmp_path / 'h.sqlite3'}"))
    schema.prepare(database)
    with database.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    record = make_record(note="x" * 50_000)
    with pytest.raises(UnavailableError, match="full"):
        stored.keep(database, record)
    assert stored.find(database, record.id) is None
    with database.reading() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    stored.keep(database, record)
    assert stored.find(database, record.id) is not None
    database.close()
