"""A job from its request to its profile, with a service and a worker as they are run."""

from __future__ import annotations

import time

from tests.api.jobs.conftest import JOBS, ON_SQLITE, attach_body, ended, measured_once, read_events, submit, wait_until


def test_a_job_measures_and_its_profile_is_evidence(client, servers, start_worker, body):
    """202 and a Location; then finished, with a profile of the same id that a question can name as evidence."""
    start_worker()
    job = submit(client, attach_body(*servers))
    found = wait_until(client, job, ended)
    assert (found["state"], found["profile_id"], found["problem"]) == ("finished", job, None)
    assert found["ended"] == "settled"
    assert "prompts" not in found["request"]
    stored = client.get(f"/v1/profiles/{job}").json()
    assert stored["status"] == "complete"
    assert stored["document"]["decision"]["verdict"] == "enable"
    assert stored["document"]["acceptance"]["drafts"] > 0
    body["deployment"]["speculation"] = {"method": "ngram", "num_speculative_tokens": 4}
    answer = client.post("/v1/recommendations", json=body | {"evidence": {"profile_id": job}}).json()
    assert answer["basis"] in ("measured", "mixed")  # a concurrency that was not measured is predicted, too


def test_events_tell_phases_progress_and_acceptance_and_can_be_resumed(client, servers, start_worker):
    """Numbered from 1 without a gap; the stream ends with the job; Last-Event-ID gives what comes after."""
    job = submit(client, attach_body(*servers))
    start_worker()
    told = read_events(client, job)
    assert [int(event["id"]) for event in told] == list(range(1, len(told) + 1))
    states = [event["data"]["values"]["state"] for event in told if event["event"] == "state"]
    assert states == ["queued", "running", "finished"]
    kinds = {event["event"] for event in told}
    assert {"state", "phase", "wave_started", "wave_finished", "look"} <= kinds
    accepted = [e["data"]["values"]["speculation"] for e in told
                if e["event"] == "wave_finished" and e["data"]["values"]["arm"] == "speculative"]  # fmt: skip
    assert all(counts["accepted_tokens"] > 0 for counts in accepted)
    assert accepted
    assert read_events(client, job, after=len(told) - 2) == told[-2:]
    assert read_events(client, job, after=len(told)) == []


@ON_SQLITE
def test_progress_has_the_acceptance_so_far(client, endless, start_worker):
    """While it runs: which arm, how many answers, and the acceptance length once the speculative server drafts."""
    start_worker()
    job = submit(client, attach_body(*endless))
    found = wait_until(client, job, lambda job: "acceptance_length" in job["progress"])
    assert found["state"] == "running"
    assert found["progress"]["arm"] == "speculative"
    assert found["progress"]["acceptance_length"] == 1.0
    assert client.delete(f"{JOBS}/{job}").status_code == 202


def test_a_running_job_is_cancelled_and_its_part_kept(client, endless, start_worker):
    """Nothing is asked of the servers any more; what was measured is a partial profile; the worker goes on."""
    start_worker()
    job = submit(client, attach_body(*endless))
    wait_until(client, job, lambda found: measured_once(found) and found["progress"]["arm"] == "speculative")
    answer = client.delete(f"{JOBS}/{job}")
    assert (answer.status_code, answer.json()["cancelling"]) == (202, True)
    found = wait_until(client, job, ended, timeout_s=5)
    assert (found["state"], found["profile_id"], found["cancelling"]) == ("cancelled", job, False)
    assert client.get(f"/v1/profiles/{job}").json()["status"] == "partial"
    assert client.delete(f"{JOBS}/{job}").status_code == 200  # as often as one likes
    asked = len(endless[0].bodies) + len(endless[1].bodies)
    time.sleep(0.5)
    assert len(endless[0].bodies) + len(endless[1].bodies) == asked
    second = submit(client, attach_body(*endless))
    wait_until(client, second, measured_once)


def test_a_queued_job_is_cancelled_at_once(client, servers):
    """Without any worker; a job that has ended cannot be cancelled."""
    job = submit(client, attach_body(*servers))
    answer = client.delete(f"{JOBS}/{job}")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    states = [event["data"]["values"]["state"] for event in read_events(client, job)]
    assert states == ["queued", "cancelled"]
    assert client.delete(f"{JOBS}/{'0' * 32}").status_code == 404


@ON_SQLITE
def test_a_job_that_cannot_be_measured_says_why(client, servers, start_worker):
    """The session's own error, in its parts; a job that has failed cannot be cancelled."""
    start_worker()
    base, spec = servers
    job = submit(client, attach_body(spec, base))  # the wrong way round
    found = wait_until(client, job, ended)
    assert found["state"] == "failed"
    assert "speculates" in found["problem"]["what"]
    assert found["problem"]["expected"] == "a server without a speculative config"
    assert found["profile_id"] is None
    refused = client.delete(f"{JOBS}/{job}")
    assert refused.status_code == 409
    assert refused.json()["errors"][0]["got"] == "failed"


def test_jobs_are_listed_newest_first_by_state_and_page(client, servers):
    """Pages follow one another; a state restricts."""
    made = [submit(client, attach_body(*servers)) for _ in range(3)]
    client.delete(f"{JOBS}/{made[1]}")
    assert [job["id"] for job in client.get(JOBS).json()["jobs"]] == made[::-1]
    queued = client.get(JOBS, params={"state": "queued", "limit": 1}).json()
    assert [job["id"] for job in queued["jobs"]] == [made[2]]
    rest = client.get(JOBS, params={"state": "queued", "cursor": queued["next_cursor"]}).json()
    assert [job["id"] for job in rest["jobs"]] == [made[0]]
    assert rest["next_cursor"] is None


def test_jobs_are_in_the_metrics_and_are_deleted_for_good(client, servers):
    """Every state has a sample; a job that has ended is deleted with its events, one that waits is not."""
    made = [submit(client, attach_body(*servers)) for _ in range(2)]
    client.delete(f"{JOBS}/{made[0]}")
    text = client.get("/metrics").text
    for state, count in {"queued": 1, "running": 0, "finished": 0, "cancelled": 1}.items():
        assert f'specworth_profile_jobs{{state="{state}"}} {count}.0' in text
    assert 'specworth_profile_jobs_run_seconds{state="finished"} 0.0' in text
    (line,) = (line for line in text.splitlines() if line.startswith("specworth_profile_jobs_oldest_queued_seconds "))
    assert float(line.split()[1]) > 0
    refused = client.delete(f"{JOBS}/{made[1]}/record")
    assert refused.status_code == 409
    assert (refused.json()["errors"][0]["got"], "cancel it first" in refused.json()["detail"]) == ("queued", True)
    assert client.delete(f"{JOBS}/{made[0]}/record").status_code == 204
    for path in (f"{JOBS}/{made[0]}", f"{JOBS}/{made[0]}/events"):
        assert client.get(path).status_code == 404
    assert client.delete(f"{JOBS}/{made[0]}/record").status_code == 404
    assert [job["id"] for job in client.get(JOBS).json()["jobs"]] == [made[1]]


@ON_SQLITE
def test_streams_of_events_have_an_end_to_their_number(service, servers):
    """One more is a 429 that says when to come again; the place of a reader who left is free."""
    with service(max_event_streams=2) as client:
        job = submit(client, attach_body(*servers))
        place = f"{JOBS}/{job}/events"
        with client.stream("GET", place) as first, client.stream("GET", place) as second:
            assert (first.status_code, second.status_code) == (200, 200)
            refused = client.get(place)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
            assert refused.json()["type"].endswith(":too-many-streams")
        until = time.monotonic() + 20
        while True:
            with client.stream("GET", place) as again:
                if again.status_code == 200:
                    break
            assert time.monotonic() < until
            time.sleep(0.1)
        client.delete(f"{JOBS}/{job}")
        assert len(read_events(client, job)) == 2
        for _ in range(4):  # one that ended gave its place back, too
            assert len(read_events(client, job)) == 2
