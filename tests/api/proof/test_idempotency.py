"""Idempotency-Key on POST /v1/recommendations: asked again, answered as before; on both databases."""

from __future__ import annotations

import concurrent.futures
import threading
import time
import uuid

import httpx
import pytest
from sqlalchemy import func, select

from advisor import advise
from api.history import recommendations as stored
from api.history import schema
from api.history.database import Database, read_url
from api.history.errors import KeyReusedError
from api.history.history import patiently
from api.history.idempotency import idempotency_of
from api.history.record import RecommendationPost, record_of
from api.history.tables import recommendations
from api.settings import Settings
from profiler.probe.profile import Profile
from tests.advisor.profiles import point, profile
from tests.api.history.processes import service

PATH = "/v1/recommendations"


@pytest.fixture
def client(serve, database_url):
    """Of a service on the test's database."""
    with (
        serve(Settings(database_url=database_url)) as url,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as opened,
    ):
        yield opened


def ask(client, body, key, **headers):
    return client.post(PATH, json=body, headers={"Idempotency-Key": key} | headers)


def listed(client):
    return [row["id"] for row in client.get(PATH, params={"limit": 200}).json()["recommendations"]]


def reused(answer):
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["type"] == "urn:problem-type:specworth:idempotency-key-reused"
    assert told["errors"][0]["field"] == "Idempotency-Key"
    assert told["errors"][0]["expected"] == "the same request, or a new key"
    return told["detail"]


def test_the_same_request_with_the_same_key_gets_the_stored_answer(client, body):
    """Byte for byte, under one id, however the body is written; it is kept and counted once."""
    key = uuid.uuid4().hex
    first = ask(client, body | {"labels": ["a"], "store_prompts": True}, key)
    again = ask(client, {"store_prompts": True, "labels": ["a", "a"], "note": ""} | body, key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert listed(client) == [first.json()["id"]]
    kept = client.get(f"{PATH}/{first.json()['id']}").json()
    assert (kept["labels"], kept["prompts"]) == (["a"], body["prompts"])
    total = sum(
        float(line.rsplit(" ", 1)[1])
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("specworth_recommendations_total{")
    )
    assert total == 1


@pytest.mark.parametrize(
    "changes", [{"prompts": ["Another."]}, {"traffic": {"concurrency": 5}}, {"labels": ["b"]}, {"store_prompts": True}]
)
def test_another_request_with_the_same_key_is_refused(client, body, changes):
    """422 that names the earlier one's id; nothing is kept, and the earlier answer stays."""
    key = uuid.uuid4().hex
    first = ask(client, body, key).json()["id"]
    assert first in reused(ask(client, body | changes, key))
    assert listed(client) == [first]
    assert ask(client, body, key).json()["id"] == first


def test_no_key_and_other_keys_are_requests_of_their_own(client, body):
    """Each is answered anew."""
    made = [ask(client, body, key).json()["id"] for key in ("1", "2")]
    made += [client.post(PATH, json=body).json()["id"] for _ in range(2)]
    assert len(set(made)) == 4
    assert sorted(listed(client)) == sorted(made)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "caf\u00e9".encode()])
def test_a_key_that_is_none_is_refused(client, body, key):
    """Printable ASCII, 255 characters at most."""
    answer = client.post(PATH, json=body, headers={"Idempotency-Key": key})
    assert answer.status_code == 422
    assert "Idempotency-Key" in answer.json()["detail"]
    assert listed(client) == []


def test_a_wrong_request_uses_no_key_up(client, body):
    """What was refused was not answered: the mended request takes the key."""
    assert ask(client, body | {"prompts": []}, "k").status_code == 422
    assert ask(client, body, "k").status_code == 200


def test_a_deleted_recommendation_takes_its_key_along(client, body):
    """Nothing of it is left, so that the request is a new one."""
    first = ask(client, body, "k").json()["id"]
    assert client.delete(f"{PATH}/{first}").status_code == 204
    assert ask(client, body, "k").json()["id"] != first


def test_many_at_the_same_moment_get_one_answer(client, body):
    """Eight that ask at once with one key, eight times: one id each time, and one row."""
    for _ in range(8):
        key, gate = uuid.uuid4().hex, threading.Barrier(8)

        def one(_, key=key, gate=gate):
            gate.wait()
            return ask(client, body, key)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            got = list(pool.map(one, range(8)))
        assert {answer.status_code for answer in got} == {200}
        assert len({answer.content for answer in got}) == 1
    assert len(listed(client)) == 8


def test_many_at_the_same_moment_of_several_processes_keep_one(database_url, body):
    """Where each has computed an answer of its own before any was kept: one is kept, all are given it."""
    post = RecommendationPost.model_validate(body | {"labels": ["a"]})
    answer = advise(post)
    again = idempotency_of(post, asked_by=None, key="k")
    opened = [Database(read_url(database_url), wait_s=5.0) for _ in range(6)]
    schema.prepare(opened[0])
    gate = threading.Barrier(6)

    def keep(database):
        own = answer.model_copy(update={"id": uuid.uuid4().hex})
        text = own.model_dump_json()
        record = record_of(post, own, text=text, asked_by=None, idempotency=again)
        gate.wait()
        until = time.monotonic() + 30
        return patiently(lambda: [stored.keep(database, record) or text for _ in range(2)], until=until)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        got = list(pool.map(keep, opened))
    assert len({text for pair in got for text in pair}) == 1  # a second attempt changes nothing either
    with opened[0].reading() as connection:
        assert connection.execute(select(func.count()).select_from(recommendations)).scalar_one() == 1
    other = post.model_copy(update={"note": "another"})
    record = record_of(
        other, answer.model_copy(update={"id": uuid.uuid4().hex}), text="{}", asked_by=None,
        idempotency=idempotency_of(other, asked_by=None, key="k"),
    )  # fmt: skip
    with pytest.raises(KeyReusedError):
        stored.keep(opened[0], record)
    for database in opened:
        database.close()


def test_another_callers_key_is_another_key(serve, database_url, body, in_process):
    """Two teams that number their requests do not get each other's answers."""
    text, keys = "", []
    for name in ("one", "two"):
        made = in_process("keys", "new", name, "--scope", "advise")
        text += made.stdout
        keys.append(next(word for word in made.stderr.split() if word.startswith("specworth_")))
    settings = Settings(database_url=database_url, api_keys=text)
    with serve(settings) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        one, two, again = (ask(client, body, "1", Authorization=f"Bearer {key}") for key in (*keys, keys[0]))
        assert one.json()["id"] != two.json()["id"]
        assert again.content == one.content


def test_evidence_by_id_is_compared_by_its_id(client, body):
    """A stored profile that was deleted since does not change what was answered."""
    document = Profile.model_validate(profile(point(4, 1.4))).model_dump(mode="json")
    key = client.post("/v1/profiles:import", json=document).json()["id"]
    asked = body | {"evidence": {"profile_id": key}}
    drafter = {"method": "eagle3", "draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 3}
    asked["deployment"] = body["deployment"] | {"speculation": drafter}
    first = ask(client, asked, "k")
    assert first.status_code == 200, first.text
    assert client.delete(f"/v1/profiles/{key}").status_code == 204
    assert ask(client, asked, "k").content == first.content


def test_a_service_that_keeps_nothing_says_that_it_cannot(serve, body):
    """A key in silence would be a promise that nobody keeps."""
    with serve(Settings(store=False)) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        answer = ask(client, body, "k")
        assert answer.status_code == 422
        assert "SPECWORTH_STORE" in answer.json()["detail"]
        assert answer.json()["errors"][0]["field"] == "Idempotency-Key"


def test_a_killed_service_knows_its_keys_again(tmp_path, database_url, body):
    """kill -9 after the answer, then the same request at the next process: the same bytes."""
    with service(tmp_path, database_url=database_url) as (process, url, _):
        first = httpx.post(url + PATH, json=body, headers={"Idempotency-Key": "k"}, timeout=60, trust_env=False)
        process.kill()
        process.wait()
    with service(tmp_path, database_url=database_url) as (_, url, _):
        again = httpx.post(url + PATH, json=body, headers={"Idempotency-Key": "k"}, timeout=60, trust_env=False)
    assert again.content == first.content


def test_the_migration_back_forgets_keys_and_keeps_what_was_answered(database, body):
    """Labels, too: none of the tables is made anew under them; after the way up the key is free again."""
    post = RecommendationPost.model_validate(body | {"labels": ["a"]})
    answer, again = advise(post), idempotency_of(post, asked_by=None, key="k")
    stored.keep(database, record_of(post, answer, text="{}", asked_by=None, idempotency=again))
    schema.downgrade(database, "0002")
    schema.upgrade(database)
    row = stored.find(database, answer.id)
    assert row is not None
    assert (row.labels, row.values["request_sha256"], stored.answered(database, again)) == (("a",), None, None)


def test_the_key_is_documented(client):
    """As a header of both POSTs, with its form."""
    paths = client.get("/openapi.json").json()["paths"]
    for path in (PATH, "/v1/profiles"):
        (found,) = (one for one in paths[path]["post"]["parameters"] if one["name"] == "Idempotency-Key")
        assert (found["in"], found["required"]) == ("header", False)
        assert "refused" in found["description"]
