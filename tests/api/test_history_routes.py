"""History over HTTP, by real servers with each database: kept, listed, labelled, compared, deleted, and private."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import httpx
import pytest

from api.settings import Settings
from profiler.probe.profile import Profile
from tests.advisor.profiles import point, profile
from tests.api.history.processes import service
from tests.api.round_robin import RoundRobin

PATH = "/v1/recommendations"
MARK = "zebrafinch-7351"  # stands in prompts, and nowhere else


@pytest.fixture(scope="module", params=["sqlite", "two processes on one postgresql"])
def kept(request, serve, tmp_path_factory):
    """A client of a service whose database is empty at first; of two instances, each request asks the other one."""
    folder = tmp_path_factory.mktemp("history")
    if request.param == "sqlite":
        settings = Settings(database_url=f"sqlite:///{folder / 'history.sqlite3'}")
        with serve(settings) as address, httpx.Client(base_url=address, timeout=60) as opened:
            yield opened
        return
    url = request.getfixturevalue("cluster").create(f"routes_{uuid.uuid4().hex}")
    with service(folder, database_url=url) as (_, one, _), service(folder, database_url=url) as (_, other, _):
        transport = RoundRobin([one, other])
        with httpx.Client(base_url=one, transport=transport, timeout=60) as opened:
            yield opened
        assert len(transport.asked) == 2


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


def test_the_answer_is_kept_as_it_went_out(kept, body):
    """What GET gives is what POST gave, with the question beside it."""
    posted = kept.post(PATH, json=body).json()
    found = kept.get(f"{PATH}/{posted['id']}").json()
    assert found["recommendation"] == posted
    assert found["request"]["deployment"]["target"] == {"name": body["deployment"]["target"]}
    assert found["request"]["traffic"] == body["traffic"]
    assert (found["verdict"], found["prompt_count"], found["asked_by"]) == (posted["verdict"], 1, None)
    assert posted["id"] in [row["id"] for row in kept.get(PATH).json()["recommendations"]]


def test_prompts_are_kept_only_where_that_is_asked_for(kept, body):
    """Without store_prompts nothing of them is in any answer; with it they come back as they were."""
    body["prompts"] = [f"Write about a {MARK}.", {"messages": [{"role": "user", "content": MARK}], "output": MARK}]
    plain = kept.post(PATH, json=body).json()["id"]
    text = kept.get(f"{PATH}/{plain}").text
    assert MARK not in text
    assert json.loads(text)["prompts"] is None
    asked = kept.post(PATH, json=body | {"store_prompts": True}).json()["id"]
    whole = kept.get(f"{PATH}/{asked}").json()
    assert whole["prompts"] == body["prompts"]
    assert whole["prompts_sha256"] == json.loads(text)["prompts_sha256"]


def test_labels_and_notes_are_given_changed_and_searched(kept, body):
    """Given with the question or later; a label finds its recommendations."""
    label = uuid.uuid4().hex
    one = kept.post(PATH, json=body | {"labels": [label, "x"], "note": "first"}).json()["id"]
    two = kept.post(PATH, json=body).json()["id"]
    changed = kept.patch(f"{PATH}/{two}", json={"labels": [label, label]}).json()
    assert (changed["labels"], changed["note"]) == ([label], "")
    listed = kept.get(PATH, params={"label": label}).json()["recommendations"]
    assert [row["id"] for row in listed] == [two, one]
    both = kept.get(PATH, params=[("label", label), ("label", "x")]).json()["recommendations"]
    assert [(row["id"], row["note"]) for row in both] == [(one, "first")]


def test_pages_follow_one_another(kept, body):
    """next_cursor leads to the next page, and is null on the last."""
    label = uuid.uuid4().hex
    made = [kept.post(PATH, json=body | {"labels": [label]}).json()["id"] for _ in range(5)]
    seen, cursor = [], None
    while True:
        asked = {"label": label, "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = kept.get(PATH, params=asked).json()
        seen += [row["id"] for row in page["recommendations"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


def test_time_restricts(kept, body):
    """Moments with a zone; from included, before excluded."""
    label = uuid.uuid4().hex
    for _ in range(3):
        kept.post(PATH, json=body | {"labels": [label]})
    rows = kept.get(PATH, params={"label": label}).json()["recommendations"]
    middle = rows[1]["created_at"]
    later = kept.get(PATH, params={"label": label, "created_from": middle}).json()["recommendations"]
    earlier = kept.get(PATH, params={"label": label, "created_before": middle}).json()["recommendations"]
    assert [row["id"] for row in later] == [row["id"] for row in rows[:2]]
    assert [row["id"] for row in earlier] == [rows[2]["id"]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"verdict": "maybe"}, "verdict"),
        ({"created_from": "yesterday"}, "created_from"),
        ({"created_from": "2026-01-01T00:00:00"}, "created_from"),
        ({"cursor": "made-up"}, "cursor"),
        ({"lable": "x"}, "lable"),
    ],
)
def test_a_wrong_query_is_refused_by_its_name(kept, query, field):
    """Also one that nobody knows: a mistyped filter would list everything."""
    assert field in json.dumps(problem(kept.get(PATH, params=query), 422))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"labels": ["a,b"]}, "labels[0]"),
        ({"labels": [""]}, "labels[0]"),
        ({"labels": ["x" * 65]}, "labels[0]"),
        ({"labels": [str(n) for n in range(21)]}, "labels"),
        ({"labels": "x"}, "labels"),
        ({"note": "x" * 4001}, "note"),
        ({"note": 1}, "note"),
        ({"verdict": "enable"}, "verdict"),
    ],
)
def test_a_wrong_change_is_refused_by_its_name(kept, body, changes, field):
    """And changes nothing."""
    key = kept.post(PATH, json=body).json()["id"]
    told = problem(kept.patch(f"{PATH}/{key}", json=changes), 422)
    assert field in [error["field"] for error in told["errors"]]
    assert kept.get(f"{PATH}/{key}").json()["labels"] == []


def test_what_is_not_there_is_404(kept):
    """Read, change, delete, compare; an id of another form is refused as such."""
    for answer in (
        kept.get(f"{PATH}/{'0' * 32}"),
        kept.patch(f"{PATH}/{'0' * 32}", json={"note": ""}),
        kept.delete(f"{PATH}/{'0' * 32}"),
        kept.get(f"{PATH}/{'0' * 32}/diff/{'1' * 32}"),
        kept.get(f"/v1/profiles/{'0' * 32}"),
        kept.delete(f"/v1/profiles/{'0' * 32}"),
    ):
        assert "0" * 32 in problem(answer, 404)["detail"]
    problem(kept.get(f"{PATH}/..%2f..%2fetc%2fpasswd"), 404)
    problem(kept.get(f"{PATH}/not-an-id"), 422)


def test_deleting_is_for_good(kept, body):
    """Gone from lists and by its id; the second time there is nothing to delete."""
    key = kept.post(PATH, json=body | {"labels": ["gone"]}).json()["id"]
    assert kept.delete(f"{PATH}/{key}").status_code == 204
    problem(kept.get(f"{PATH}/{key}"), 404)
    problem(kept.delete(f"{PATH}/{key}"), 404)
    assert key not in kept.get(PATH).text


def test_a_diff_tells_what_was_asked_otherwise_and_answered_otherwise(kept, body):
    """Concurrency differs in the question; what follows from it differs in the answer; the id is no difference."""
    one = kept.post(PATH, json=body).json()["id"]
    body["traffic"]["concurrency"] = 128
    two = kept.post(PATH, json=body).json()["id"]
    told = kept.get(f"{PATH}/{one}/diff/{two}").json()
    assert told["asked"] == [{"field": "traffic.concurrency", "before": 4, "after": 128}]
    assert told["same_prompts"]
    assert told["same_models"]
    assert (told["before"]["id"], told["after"]["id"]) == (one, two)
    fields = [change["field"] for change in told["answered"]]
    assert "workload.concurrency" in fields
    assert "speedup.end_to_end.value" in fields
    assert "id" not in fields
    same = kept.get(f"{PATH}/{one}/diff/{one}").json()
    assert (same["asked"], same["answered"]) == ([], [])


def test_a_profile_is_brought_in_and_named_as_evidence(kept, body):
    """By its id it gives the answer that the document itself gives; a question with a profile keeps it, too."""
    document = profile(point(16, 1.4), target=body["deployment"]["target"])
    posted = kept.post("/v1/profiles:import", json=document)
    assert posted.status_code == 201
    key = posted.json()["id"]
    assert posted.headers["location"] == f"/v1/profiles/{key}"
    found = kept.get(f"/v1/profiles/{key}").json()["document"]
    assert Profile.model_validate(found) == Profile.model_validate(document)
    assert key in [row["id"] for row in kept.get("/v1/profiles").json()["profiles"]]
    body["deployment"]["speculation"] = {"method": "eagle3", "num_speculative_tokens": 3}
    by_document = kept.post(PATH, json=body | {"evidence": {"profile": document}})
    by_id = kept.post(PATH, json=body | {"evidence": {"profile_id": key}})
    if by_document.status_code == 422:  # several heads are known: the one that was measured has to be named
        head = by_document.json()["errors"][0]["expected"].split(": ")[1].split(" or ")[0]
        body["deployment"]["speculation"]["draft"] = head
        by_document = kept.post(PATH, json=body | {"evidence": {"profile": document}})
        by_id = kept.post(PATH, json=body | {"evidence": {"profile_id": key}})
    assert by_document.status_code == by_id.status_code == 200, by_id.text
    answers = [answer.json() for answer in (by_document, by_id)]
    kept_as = [kept.get(f"{PATH}/{answer['id']}").json()["profile_id"] for answer in answers]
    assert kept_as == [key, key]
    for answer in answers:
        del answer["id"]
    assert answers[0] == answers[1]
    assert kept.delete(f"/v1/profiles/{key}").status_code == 204
    unknown = problem(kept.post(PATH, json=body | {"evidence": {"profile_id": key}}), 422)
    assert unknown["errors"][0]["field"] == "evidence.profile_id"


def test_a_profile_says_by_its_id_how_it_speculated(kept, body):
    """A request that names no method is answered as with the document itself."""
    document = profile(point(16, 1.4), target=body["deployment"]["target"])
    document["speculation"] |= {"draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}
    key = kept.post("/v1/profiles:import", json=document).json()["id"]
    body["deployment"].pop("speculation", None)
    answers = [
        kept.post(PATH, json=body | {"evidence": given}) for given in ({"profile": document}, {"profile_id": key})
    ]
    assert [answer.status_code for answer in answers] == [200, 200], answers[1].text
    by_document, by_id = (answer.json() for answer in answers)
    assert by_id["acceptance"]["basis"] == "measured"
    assert all(by_id[part] == by_document[part] for part in ("candidate", "speedup", "basis", "verdict"))


def test_what_is_no_profile_is_refused(kept):
    """By the same checks as in a question."""
    problem(kept.post("/v1/profiles:import", json={"kind": "specworth.profile", "schema_version": 7}), 422)
    problem(kept.post("/v1/profiles:import", json={"a": 1}), 422)


def test_nothing_of_prompts_and_of_deleted_rows_is_in_the_file(serve, body, tmp_path):
    """Not in the database, not in its log, while the service still runs; kept prompts go with their row."""
    path = tmp_path / "history.sqlite3"

    def on_disk() -> bytes:
        return b"".join(each.read_bytes() for each in sorted(Path(tmp_path).iterdir()))

    body["prompts"] = [f"Write about a {MARK}."]
    with serve(Settings(database_url=f"sqlite:///{path}")) as url, httpx.Client(base_url=url, timeout=60) as client:
        client.post(PATH, json=body)
        assert MARK.encode() not in on_disk()
        kept = client.post(PATH, json=body | {"store_prompts": True, "note": f"of {MARK}"}).json()["id"]
        assert MARK.encode() in on_disk()
        assert client.delete(f"{PATH}/{kept}").status_code == 204
        assert MARK.encode() not in on_disk()
        assert kept.encode() not in on_disk()


def test_a_service_that_keeps_nothing_says_so(serve, body, tmp_path, monkeypatch):
    """SPECWORTH_STORE=false: answers as before, no file, and whoever asks for history is told why there is none."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with serve(Settings(store=False)) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.post(PATH, json=body).status_code == 200
        assert "SPECWORTH_STORE" in problem(client.get(PATH), 404)["detail"]
        told = problem(client.post(PATH, json=body | {"store_prompts": True}), 422)
        assert told["errors"][0]["field"] == "store_prompts"
        assert client.get("/readyz").json()["checks"][0]["status"] == "off"
    assert list(tmp_path.iterdir()) == []


def test_the_same_question_has_the_same_hash_and_another_another(kept, body):
    """The order of members of a chat does not matter; the prompts themselves do."""
    body["prompts"] = [{"prompt": "a", "max_tokens": 5}]
    one = kept.post(PATH, json=body).json()["id"]
    body["prompts"] = [{"max_tokens": 5, "prompt": "a"}]
    two = kept.post(PATH, json=body).json()["id"]
    body["prompts"] = [{"max_tokens": 5, "prompt": "b"}]
    three = kept.post(PATH, json=body).json()["id"]
    hashes = [kept.get(f"{PATH}/{key}").json()["prompts_sha256"] for key in (one, two, three)]
    assert hashes[0] == hashes[1] != hashes[2]
