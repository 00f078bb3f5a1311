"""POST /v1/gates judges what the command judges, from evidence given or stored, and connects only where it may."""

import json
import threading
from datetime import UTC, datetime

import httpx
import pytest

from api.settings import Settings
from tests.advisor.profiles import point, profile
from tests.api.canaries import traffic, two_servers

POLICY = {"rules": {"min_speedup": 1.1, "methods": ["eagle3"], "max_age": "1d"}}
PATH = "/v1/gates"


def measured():
    return profile(point(4, 1.5), created=datetime.now(UTC).isoformat())


@pytest.fixture(scope="module")
def kept(serve, tmp_path_factory):
    """A service that keeps what it answers, in a database of its own."""
    path = tmp_path_factory.mktemp("gates") / "history.sqlite"
    with (
        serve(Settings(database_url=f"sqlite:///{path}")) as url,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as opened,
    ):
        yield opened


def test_a_profile_given_and_the_same_stored_are_judged_alike(kept):
    """By its id it keeps the same rules with the same figures."""
    given = kept.post(PATH, json={"policy": POLICY, "profile": measured()}).json()
    key = kept.post("/v1/profiles:import", json=measured()).json()["id"]
    stored = kept.post(PATH, json={"policy": POLICY, "profile_id": key}).json()
    assert given["outcome"] == stored["outcome"] == "pass"
    assert given["rules"][0]["figure"] == stored["rules"][0]["figure"] == 1.5


def test_a_recommendation_given_and_the_same_stored_are_judged_alike(kept, body):
    """As it was answered, and by its id."""
    answer = kept.post("/v1/recommendations", json=body).json()
    policy = {"rules": {"min_speedup": 1.01, "min_kv_headroom": 0.1, "max_age": "1h"}}
    given = kept.post(PATH, json={"policy": policy, "recommendation": answer}).json()
    stored = kept.post(PATH, json={"policy": policy, "recommendation_id": answer["id"]}).json()
    assert given["rules"][:2] == stored["rules"][:2]
    assert given["kind"] == stored["kind"] == "recommendation"
    assert stored["rules"][2]["outcome"] == "pass"


def test_the_command_and_the_service_say_the_same(kept, in_process, tmp_path):
    """One profile, one policy, both answers but their time."""
    content = measured()
    (tmp_path / "profile.json").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "policy.toml").write_text(
        '[rules]\nmin_speedup = 1.1\nmethods = ["eagle3"]\nmax_age = "1d"\n', encoding="utf-8"
    )
    said = json.loads(in_process("gate", "--policy", "policy.toml", "--profile", "profile.json", "--json").stdout)
    served = kept.post(PATH, json={"policy": POLICY, "profile": content}).json()
    for one in (said, served):
        del one["judged_at"]
        next(rule for rule in one["rules"] if rule["rule"] == "max_age")["figure"] = None
    assert said == served


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"policy": POLICY}, 422, "expected one of recommendation, recommendation_id, profile, profile_id, canary"),
        (
            {"policy": POLICY, "profile_id": "0" * 32, "recommendation_id": "0" * 32},
            422,
            "got recommendation_id and pr",
        ),
        ({"policy": {"rules": {"min_sped": 1}}, "profile_id": "0" * 32}, 422, "policy.rules.min_sped"),
        ({"policy": POLICY, "profile_id": "0" * 32}, 404, "no profile has the id"),
        ({"policy": POLICY, "recommendation_id": "0" * 32}, 404, "no recommendation has the id"),
        ({"policy": POLICY, "profile_id": "x"}, 422, "profile_id"),
    ],
)
def test_bodies_that_cannot_be_judged_are_problems(kept, body, status, message):
    """With their place."""
    answer = kept.post(PATH, json=body)
    assert answer.status_code == status
    assert message in answer.json()["detail"]


def test_two_live_servers_are_watched(kept):
    """On loopback, until it is decided: pass long before the window ends."""
    policy = {"objective": "tpot", "rules": {"min_speedup": 1.2}}
    with two_servers() as servers, traffic(*servers, gain=2.0):
        spec = {"control": servers[0].url, "canary": servers[1].url, "window_s": 600, "every_s": 0.1}
        answer = kept.post(PATH, json={"policy": policy, "canary": spec})
    assert answer.status_code == 200
    assert answer.json()["outcome"] == "pass"


@pytest.mark.parametrize("url", ["http://10.0.0.7:8000", "http://169.254.169.254", "http://example.com"])
def test_servers_that_the_operator_did_not_list_are_not_asked(kept, url):
    """403, with the setting that would allow it."""
    spec = {"control": "http://127.0.0.1:9", "canary": url}
    answer = kept.post(PATH, json={"policy": POLICY, "canary": spec})
    assert answer.status_code == 403
    assert "SPECWORTH_ATTACH_HOSTS" in answer.json()["detail"]


def test_more_canaries_than_may_be_watched_are_put_off(kept):
    """Four are watched, the others are told to come again."""
    policy = {"rules": {"min_speedup": 1.1}}
    with two_servers() as servers:
        spec = {"control": servers[0].url, "canary": servers[1].url, "window_s": 3.0, "every_s": 0.5}
        request = {"policy": policy, "canary": spec}
        codes: list[int] = []
        askers = [
            threading.Thread(target=lambda: codes.append(kept.post(PATH, json=request).status_code)) for _ in range(6)
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(30)
    assert sorted(codes) == [200] * 4 + [429] * 2
    assert kept.get("/openapi.json").json()["paths"][PATH]["post"]["tags"] == ["gates"]
