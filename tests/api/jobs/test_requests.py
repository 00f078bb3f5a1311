"""What POST /v1/profiles takes and refuses: keys, launching, forms; and that a job's prompts are not kept."""

from __future__ import annotations

import json
import time
import uuid

import httpx
import pytest

from api.settings import Settings, load_settings
from profiler.errors import InputError
from tests.api.jobs.conftest import CONFIG, JOBS, attach_body, ended, launch_body, submit, wait_until

PATH = "/v1/profiles"
MARK = "zebrafinch-9182"


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


@pytest.fixture
def body(servers):
    return attach_body(*servers)


def test_the_same_request_with_the_same_key_is_the_same_job(client, body):
    """However it is written; another request with that key is refused, another key is another job."""
    key = uuid.uuid4().hex
    job = submit(client, body, key=key)
    assert submit(client, dict(reversed(body.items())), key=key) == job
    told = problem(client.post(PATH, json=body | {"seed": 1}, headers={"Idempotency-Key": key}), 422)
    assert told["type"].endswith(":idempotency-key-reused")
    assert told["errors"][0]["field"] == "Idempotency-Key"
    assert job in told["detail"]
    assert submit(client, body, key=key + "x") != job
    assert submit(client, body) != submit(client, body)
    problem(client.post(PATH, json=body, headers={"Idempotency-Key": "x" * 256}), 422)


def test_a_key_is_known_after_the_job_has_ended(client, body):
    """So that a client that never got an answer does not measure twice."""
    job = submit(client, body, key="again")
    client.delete(f"{JOBS}/{job}")
    assert submit(client, body, key="again") == job


def test_nothing_is_launched_unless_the_operator_says_so(client):
    """403 with the variable that would allow it."""
    told = problem(client.post(PATH, json=launch_body("Qwen/Qwen3-8B")), 403)
    assert "SPECWORTH_LAUNCH_MODELS" in told["errors"][0]["remedy"]


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"target": "Qwen/Other"}, 403, "target"),
        ({"target": "../../etc"}, 403, "target"),
        ({"target": "Qwen/Target --trust-remote-code"}, 403, "target"),
        ({"speculative_config": CONFIG | {"model": "evil/drafter"}}, 403, "speculative_config.model"),
        ({"speculative_config": CONFIG | {"code_revision": "x"}}, 403, "speculative_config.code_revision"),
        ({"speculative_config": CONFIG | {"method": {"a": 1}}}, 422, "speculative_config.method"),
        ({"speculative_config": CONFIG | {"method": "a b"}}, 422, "speculative_config.method"),
        ({"speculative_config": None}, 422, "speculative_config"),
        ({"launch": {"arguments": {"--trust-remote-code": True}}}, 403, "launch.arguments.--trust-remote-code"),
        ({"launch": {"arguments": {"--trust": True}}}, 403, "launch.arguments.--trust"),  # argparse takes beginnings
        ({"launch": {"arguments": {"--port": 1}}}, 403, "launch.arguments.--port"),
        ({"launch": {"arguments": {"--config": "/etc/passwd"}}}, 403, "launch.arguments.--config"),
        ({"launch": {"arguments": {"--max-model-len=1 --port": 1}}}, 403, "launch.arguments.--max-model-len=1 --port"),
        ({"launch": {"arguments": {"--max_model_len": 1}}}, 403, "launch.arguments.--max_model_len"),
        ({"launch": {"arguments": {"-O3": True}}}, 403, "launch.arguments.-O3"),
        ({"launch": {"arguments": {"--dtype": "a --port 1"}}}, 422, "launch.arguments.--dtype"),
        ({"launch": {"arguments": {"--dtype": "--port"}}}, 422, "launch.arguments.--dtype"),
        ({"launch": {"arguments": {"--dtype": "a;b"}}}, 422, "launch.arguments.--dtype"),
        ({"launch": {"arguments": {"--dtype": "/etc/passwd"}}}, 422, "launch.arguments.--dtype"),
        ({"launch": {"arguments": {"--dtype": ["a"]}}}, 422, "launch.arguments.--dtype"),
        ({"launch": {"arguments": {"--dtype": None}}}, 422, "launch.arguments.--dtype"),
        ({"launch": {"speculative_arguments": {"--host": "0.0.0.0"}}}, 403, "launch.speculative_arguments.--host"),
        ({"launch": {"python": "/bin/sh"}}, 422, "launch.python"),
    ],
)
def test_only_listed_models_and_flags_are_launched(refusing, changes, status, field):
    """Each refusal names its place; nothing is queued."""
    answer = refusing.post(PATH, json=launch_body("Qwen/Target") | changes)
    told = problem(answer, status)
    assert told["errors"][0]["field"] == field
    assert told["errors"][0]["expected"]
    assert refusing.get(JOBS).json()["jobs"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"attach": None}, "attach"),
        ({"launch": {}}, "attach"),
        ({"prompts": []}, "prompts"),
        ({"prompts": [{"nothing": 1}]}, "prompts[0]"),
        ({"prompts": "x"}, "prompts"),
        ({"budget_s": 601}, "budget_s"),
        ({"budget_s": "1"}, "budget_s"),
        ({"traffic": {"concurrency": 0}}, "traffic.concurrency"),
        ({"traffic": {"temperature": 3}}, "traffic.temperature"),
        ({"policy": {"confidence": 1}}, "policy.confidence"),
        ({"attach": {"speculative_url": 1}}, "attach.speculative_url"),
        ({"attach": {"baseline_url": "http://127.0.0.1:1"}}, "attach.speculative_url"),
        ({"prompt": []}, "prompt"),
    ],
)
def test_a_wrong_request_is_refused_by_its_place(refusing, body, changes, field):
    """As everywhere: 422, with what was expected and what came."""
    told = problem(refusing.post(PATH, json=body | changes), 422)
    assert field in [error["field"] for error in told["errors"]]
    assert all(error["expected"] and error["got"] for error in told["errors"])


def test_a_full_queue_is_told(service, servers):
    """429 and when to come again."""
    with service(max_queued_jobs=1) as client:
        submit(client, attach_body(*servers))
        answer = client.post(PATH, json=attach_body(*servers))
        problem(answer, 429)
        assert answer.headers["retry-after"]


def test_a_service_without_storage_takes_no_jobs(serve, servers):
    """Said as such."""
    with serve(Settings(store=False)) as url, httpx.Client(base_url=url, trust_env=False) as client:
        problem(client.post(PATH, json=attach_body(*servers)), 404)


def test_prompts_are_nowhere_once_the_job_has_ended(client, servers, start_worker, tmp_path, database_url):
    """Not in the job, its events or its profile; with SQLite not in any of the database's files."""
    start_worker()
    told = [{"prompt": f"{MARK} number {i}", "max_tokens": 13, "temperature": 0} for i in range(40)]
    job = submit(client, attach_body(*servers, prompts=told))
    wait_until(client, job, ended)
    for path in (f"{JOBS}/{job}", f"{JOBS}/{job}/events", f"/v1/profiles/{job}"):
        assert MARK not in client.get(path).text
    if database_url.startswith("sqlite"):
        files = sorted(tmp_path.glob("history.sqlite3*"))
        assert files
        until = time.monotonic() + 5  # the worker wipes right after the end
        while any(MARK.encode() in path.read_bytes() for path in files) and time.monotonic() < until:
            time.sleep(0.1)
        assert all(MARK.encode() not in path.read_bytes() for path in files)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SPECWORTH_ATTACH_HOSTS", "http://a:1"),
        ("SPECWORTH_LAUNCH_FLAGS", "max-model-len"),
        ("SPECWORTH_LAUNCH_ARGUMENTS", "--a 'b"),
        ("SPECWORTH_JOB_LEASE_S", "0"),
    ],
)
def test_settings_of_jobs_are_checked_at_the_start(monkeypatch, variable, value):
    """By name and value."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=variable) as caught:
        load_settings()
    assert repr(value) in str(caught.value)


def test_keys_with_the_scope_profile_may_measure_and_cancel(serve, servers, in_process, tmp_path):
    """advise may not; read may watch."""
    keys = {}
    text = ""
    for scope in ("advise", "profile", "read"):
        made = in_process("keys", "new", scope, "--scope", scope)
        text += made.stdout
        keys[scope] = {"Authorization": "Bearer " + next(w for w in made.stderr.split() if w.startswith("specworth_"))}
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'h.sqlite3'}", api_keys=text)
    with serve(settings) as url, httpx.Client(base_url=url, trust_env=False) as client:
        problem(client.post(PATH, json=attach_body(*servers)), 401)
        problem(client.post(PATH, json=attach_body(*servers), headers=keys["advise"]), 403)
        job = client.post(PATH, json=attach_body(*servers), headers=keys["profile"]).json()
        assert job["asked_by"] == "profile"
        place = f"{JOBS}/{job['id']}"
        assert client.get(place, headers=keys["read"]).status_code == 200
        problem(client.get(place, headers=keys["advise"]), 403)
        problem(client.get(f"{place}/events"), 401)
        problem(client.delete(place, headers=keys["read"]), 403)
        assert client.delete(place, headers=keys["profile"]).status_code == 200


def test_an_unknown_job_is_404_for_its_events_too(client, body):
    """Before a stream begins; a Last-Event-ID that is no number is refused."""
    for path in (f"{JOBS}/{'0' * 32}", f"{JOBS}/{'0' * 32}/events"):
        assert "0" * 32 in problem(client.get(path), 404)["detail"]
    job = submit(client, body)
    problem(client.get(f"{JOBS}/{job}/events", headers={"Last-Event-ID": "x"}), 422)
    assert json.loads(client.get("/openapi.json").text)["paths"][f"{JOBS}/{{id}}/events"]
