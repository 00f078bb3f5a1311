"""Jobs under faults, for real: workers that are killed or stopped, databases that go away, services that restart."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import threading
import time

import httpx
import pytest

from tests.api.history.processes import service as service_process
from tests.api.jobs.conftest import (
    JOBS,
    ON_POSTGRESQL,
    ON_SQLITE,
    SERVE,
    attach_body,
    ended,
    launch_body,
    measured_once,
    open_body,
    processes_of,
    prompts,
    read_events,
    submit,
    wait_for_kept,
    wait_until,
)

SLOW = {"ttft_s": 0.1, "step_s": 0.008, "jitter_s": 0.1}


@pytest.fixture
def lease_s():
    """Short, since some wait until it has run out."""
    return 2.0


@pytest.fixture
def model(tmp_path):
    """A name that marks the processes of its servers."""
    return f"fake-{tmp_path.name}"


@pytest.fixture
def launching(model):
    """What an operator sets who lets jobs start the stand-in; each of its servers has a child of its own."""
    knobs = json.dumps(SLOW | {"child": True})
    return {
        "launch_models": model, "launch_python": f"{sys.executable} {SERVE}", "launch_arguments": f"--knobs '{knobs}'"
    }  # fmt: skip


def no_process_is_left(model, timeout_s=25.0):
    until = time.monotonic() + timeout_s
    while processes_of(model) and time.monotonic() < until:
        time.sleep(0.1)
    return processes_of(model) == []


@ON_SQLITE
def test_servers_are_started_and_stopped_and_the_flags_reach_them(service, start_worker, model, launching):
    """The baseline, then the speculative one; each with the flags of the request; none is left."""
    quick = json.dumps({"ttft_s": 0.01, "step_s": 0.02, "speculative": {"tokens_per_step": 3}})
    settings = launching | {"launch_arguments": f"--knobs '{quick}'"}
    start_worker(**settings)
    with service(**settings) as client:
        launch = {
            "arguments": {"--max-model-len": 2048, "--enforce-eager": True},
            "speculative_arguments": {"--seed": 1},
        }
        job = submit(client, launch_body(model, launch=launch))
        found = wait_until(client, job, ended)
        assert (found["state"], found["ended"]) == ("finished", "settled"), found
        document = client.get(f"/v1/profiles/{job}").json()["document"]
        assert document["environment"]["serve_arguments"][:2] == ["--max-model-len=2048", "--enforce-eager"]
        assert document["environment"]["mode"] == "launched"
        told = json.dumps(read_events(client, job))
        assert "starting vLLM (its log: baseline.log)" in told
        assert "/tmp" not in told
    assert no_process_is_left(model)


@ON_POSTGRESQL
def test_cancelling_stops_every_process_that_was_started(service, start_worker, model, launching):
    """The server and its child; the worker then takes the next job."""
    start_worker(**launching)
    with service(**launching) as client:
        job = submit(client, open_body(model))
        wait_until(client, job, measured_once)
        assert processes_of(model)
        client.delete(f"{JOBS}/{job}")
        assert wait_until(client, job, ended)["state"] == "cancelled"
        assert processes_of(model) == []
        assert client.get(f"/v1/profiles/{job}").json()["status"] == "partial"
        following = submit(client, open_body(model, 401))
        wait_until(client, following, measured_once)


@ON_SQLITE
def test_cancelling_while_a_server_starts_stops_it_and_leaves_no_profile(service, start_worker, model, launching):
    """One that never becomes ready, so that however long the request to cancel takes nothing is measured."""
    settings = launching | {"launch_arguments": """--knobs '{"start": "never"}'"""}
    start_worker(**settings)
    with service(**settings) as client:
        job = submit(client, launch_body(model))
        wait_until(client, job, lambda found: "starting vLLM" in found["phase"] and bool(processes_of(model)))
        client.delete(f"{JOBS}/{job}")
        found = wait_until(client, job, ended)
        assert (found["state"], found["profile_id"]) == ("cancelled", None)
        assert processes_of(model) == []


def test_a_killed_workers_job_is_interrupted_its_part_kept_and_nothing_left(service, start_worker, model, launching):
    """kill -9: the servers end, too; the partial profile is evidence; after a restart the job is not run again."""
    worker = start_worker(**launching)
    with service(**launching) as client:
        job, following = (submit(client, open_body(model, 400 + n)) for n in range(2))
        wait_for_kept(client, job)
        worker.kill()
        found = wait_until(client, job, ended, timeout_s=10)
        assert (found["state"], found["profile_id"]) == ("interrupted", job)
        stored = client.get(f"/v1/profiles/{job}").json()
        assert stored["status"] == "partial"
        assert stored["document"]["waves"]
        assert stored["document"]["ended"] == "interrupted: its worker died or lost the database"
        assert no_process_is_left(model)
        events = read_events(client, job)
        start_worker(**launching)
        wait_until(client, following, measured_once)
        assert read_events(client, job) == events
        assert client.get(f"{JOBS}/{job}").json()["state"] == "interrupted"


@pytest.mark.parametrize(
    ("database_url", "number"), [("sqlite", signal.SIGINT), ("postgresql", signal.SIGTERM)], indirect=["database_url"]
)
def test_a_worker_that_is_told_to_stop_puts_its_job_down_first(service, start_worker, model, launching, number):
    """Interrupted, with its part; its servers are gone and its exit code is 0."""
    worker = start_worker(**launching)
    with service(**launching) as client:
        job = submit(client, open_body(model))
        wait_until(client, job, measured_once)
        worker.send_signal(number)
        assert worker.wait(timeout=30) == 0
        found = client.get(f"{JOBS}/{job}").json()
        assert found["state"] == "interrupted"
        assert "its worker was stopped by" in found["ended"]
        assert processes_of(model) == []
        idle = start_worker(**launching)
        idle.send_signal(number)
        assert idle.wait(timeout=10) == 0


def test_two_workers_of_one_gpu_run_one_job_at_a_time(client, endless, start_worker):
    """The second job waits for the first, although a worker is free."""
    for _ in range(2):
        start_worker()
    first, second = (submit(client, attach_body(*endless, prompts=prompts(400 + n))) for n in range(2))
    wait_until(client, first, measured_once)
    time.sleep(1.5)  # each looks once a second
    assert client.get(f"{JOBS}/{second}").json()["state"] == "queued"
    client.delete(f"{JOBS}/{first}")
    wait_until(client, second, measured_once)
    assert client.get(f"{JOBS}/{first}").json()["state"] == "cancelled"


def test_a_stopped_worker_that_comes_back_has_lost_its_job(client, endless, start_worker):
    """SIGSTOP beyond the lease: another's job may run by then, so that it stops its own and says nothing more of it."""
    worker = start_worker()
    job = submit(client, attach_body(*endless))
    wait_until(client, job, measured_once)
    worker.send_signal(signal.SIGSTOP)
    found = wait_until(client, job, ended, timeout_s=10)
    assert found["state"] == "interrupted"
    events = read_events(client, job)
    worker.send_signal(signal.SIGCONT)
    time.sleep(2.0)
    asked = len(endless[0].bodies) + len(endless[1].bodies)
    time.sleep(0.5)
    assert len(endless[0].bodies) + len(endless[1].bodies) == asked
    assert read_events(client, job) == events
    following = submit(client, attach_body(*endless, prompts=prompts(401)))
    wait_until(client, following, measured_once)  # and it works on


class TestDatabase:
    """Faults of SQLite's file; those of PostgreSQL are the same to a worker: no answer."""

    @pytest.fixture
    def database_url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'history.sqlite3'}"

    def test_a_database_locked_for_less_than_the_lease_costs_nothing(self, client, endless, start_worker, tmp_path):
        """Three seconds: the job goes on, and its events come later."""
        start_worker(job_lease_s="30")
        job = submit(client, attach_body(*endless))
        wait_until(client, job, measured_once)
        locked = sqlite3.connect(tmp_path / "history.sqlite3", isolation_level=None)
        locked.execute("BEGIN IMMEDIATE")
        asked = len(endless[0].bodies) + len(endless[1].bodies)
        time.sleep(3)
        assert len(endless[0].bodies) + len(endless[1].bodies) > asked
        locked.execute("ROLLBACK")
        locked.close()
        assert client.get(f"{JOBS}/{job}").json()["state"] == "running"
        numbers = [int(event["id"]) for event in read_events(client, job, most=5)]
        assert numbers == [1, 2, 3, 4, 5]

    def test_a_database_gone_for_longer_than_the_lease_stops_the_job(self, client, endless, start_worker, tmp_path):
        """The GPU may be another's by then: nothing is asked any more; its end is put down once the file is back."""
        start_worker(job_lease_s="3")
        job = submit(client, attach_body(*endless))
        wait_until(client, job, measured_once)
        for path in sorted(tmp_path.glob("history.sqlite3*")):
            path.rename(path.with_name(f"away-{path.name}"))
        time.sleep(4)
        asked = len(endless[0].bodies) + len(endless[1].bodies)
        time.sleep(0.5)
        assert len(endless[0].bodies) + len(endless[1].bodies) == asked
        for path in sorted(tmp_path.glob("away-*")):
            path.rename(path.with_name(path.name.removeprefix("away-")))
        found = wait_until(client, job, lambda found: ended(found) and found["profile_id"] is not None)
        assert (found["state"], found["profile_id"]) == ("interrupted", job)


def answers(client):
    try:
        return client.get("/healthz").status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.parametrize(
    ("database_url", "processes"), [("sqlite", "1"), ("postgresql", "2")], indirect=["database_url"]
)
def test_the_service_restarts_and_streams_go_on(tmp_path, endless, start_worker, database_url, processes):
    """SIGTERM ends streams at once; a client that comes back with Last-Event-ID misses nothing."""
    start_worker()
    told = []
    with service_process(tmp_path, database_url=database_url, processes=processes) as (process, url, _):
        try:
            # The first of several processes may not listen yet when their parent says where they do.
            client = httpx.Client(base_url=url, timeout=60, trust_env=False)
            until = time.monotonic() + 30
            while not answers(client):
                assert time.monotonic() < until
                time.sleep(0.1)
            job = submit(client, attach_body(*endless, prompts=prompts(400)))
            wait_until(client, job, measured_once)
            reader = threading.Thread(target=lambda: told.extend(read_events(client, job)))
            reader.start()
            time.sleep(0.7)
        finally:
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        reader.join(timeout=10)
        assert not reader.is_alive()
        assert time.monotonic() - began < 15  # SPECWORTH_SHUTDOWN_S, which others have, is 30
    with service_process(tmp_path, database_url=database_url) as (_, url, _):
        client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        assert client.get(f"{JOBS}/{job}").json()["state"] in ("running", "finished")  # luck can settle even this one
        client.delete(f"{JOBS}/{job}")
        rest = read_events(client, job, after=int(told[-1]["id"]))
        assert [int(event["id"]) for event in told + rest] == list(range(1, len(told + rest) + 1))
        assert rest[-1]["data"]["values"] in ({"state": "cancelled"}, {"state": "finished"})
