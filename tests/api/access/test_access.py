"""Access over HTTP: which key opens which route, how often, and who may come without one."""

from __future__ import annotations

import http.client
import urllib.parse

import httpx
import pytest
import yaml
from pydantic import SecretStr

from api.access.access import Access
from api.access.keys import SCOPES, new_key
from api.settings import Settings
from profiler.errors import InputError

ID = "0" * 32
# Route -> the scope that it needs, and an answer of it that is no refusal.
ROUTES = [
    ("POST", "/v1/recommendations", "advise", 400),
    ("POST", "/v1/recommendations:validate", "advise", 400),
    ("GET", "/v1/recommendations", "read", 200),
    ("GET", f"/v1/recommendations/{ID}", "read", 404),
    ("GET", f"/v1/recommendations/{ID}/diff/{ID}", "read", 404),
    ("PATCH", f"/v1/recommendations/{ID}", "advise", 400),
    ("DELETE", f"/v1/recommendations/{ID}", "admin", 404),
    ("POST", "/v1/workloads", "advise", 415),
    ("POST", "/v1/explorations", "advise", 400),
    ("POST", "/v1/gates", "advise", 400),
    ("POST", "/v1/capacity-plans", "advise", 400),
    ("POST", "/v1/comparisons", "profile", 400),
    ("POST", "/v1/comparisons/prompts", "profile", 415),
    ("POST", "/v1/profiles:import", "profile", 400),
    ("POST", "/v1/profiles", "profile", 400),
    ("GET", "/v1/profiles/jobs", "read", 200),
    ("GET", f"/v1/profiles/jobs/{ID}", "read", 404),
    ("GET", f"/v1/profiles/jobs/{ID}/events", "read", 404),
    ("DELETE", f"/v1/profiles/jobs/{ID}", "profile", 404),
    ("DELETE", f"/v1/profiles/jobs/{ID}/record", "admin", 404),
    ("GET", f"/v1/profiles/{ID}/report.html", "read", 404),
    ("GET", f"/v1/recommendations/{ID}/report.html", "read", 404),
    ("GET", "/v1/profiles", "read", 200),
    ("GET", f"/v1/profiles/{ID}", "read", 404),
    ("DELETE", f"/v1/profiles/{ID}", "admin", 404),
    ("GET", "/v1/catalog/models", "read", 200),
    ("GET", "/v1/catalog/gpus", "read", 200),
    ("GET", "/metrics", "read", 200),
]
OPEN = ["/healthz", "/readyz", "/openapi.json", "/docs"]


def made(*wanted, **more):
    """Keys by scope, and the text of their file."""
    entries, by_scope = [], {}
    for scope in wanted:
        by_scope[scope], kept = new_key(scope)
        entries.append({"name": scope, "scopes": [scope], "hash": kept} | more)
    return by_scope, SecretStr(yaml.safe_dump(entries))


@pytest.fixture(scope="module")
def guarded(serve, tmp_path_factory):
    """A service with one key for each scope: a client, and the keys."""
    by_scope, text = made(*SCOPES)
    url = f"sqlite:///{tmp_path_factory.mktemp('guarded') / 'h.sqlite3'}"
    settings = Settings(api_keys=text, database_url=url)
    with serve(settings) as address, httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        yield client, by_scope


def ask(client, method, path, key=None, **more):
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    return client.request(method, path, headers=headers, content=b"{" if method in ("POST", "PATCH") else None, **more)


@pytest.mark.parametrize(("method", "path", "scope", "status"), ROUTES)
def test_each_route_opens_to_its_scope_and_to_admin_alone(guarded, method, path, scope, status):
    """No key: 401. Another scope: 403, which names the one that is needed. The right one: the route's own answer."""
    client, by_scope = guarded
    missing = ask(client, method, path)
    assert missing.status_code == 401
    assert missing.headers["www-authenticate"].startswith("Bearer")
    assert missing.headers["content-type"] == "application/problem+json"
    for held, key in by_scope.items():
        answer = ask(client, method, path, key)
        if held in (scope, "admin"):
            assert answer.status_code == status, answer.text
        else:
            assert answer.status_code == 403
            assert f"expected the scope {scope}" in answer.json()["detail"]


def test_every_route_is_in_the_table_or_open(guarded):
    """A route that is added must be told who may use it."""
    client, _ = guarded
    known = {
        (method, path.replace(ID, "{id}", 1).replace(ID, "{other}").replace(".html", ".{kind}"))
        for method, path, _, _ in ROUTES
    }
    paths = client.get("/openapi.json").json()["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert served == known | {("GET", path) for path in ("/healthz", "/readyz")}


def test_health_readiness_and_documentation_are_open(guarded):
    """Machines that ask for them have no key, and they say nothing of anybody's requests."""
    client, _ = guarded
    assert [client.get(path).status_code for path in OPEN] == [200] * len(OPEN)


@pytest.mark.parametrize("header", ["", "Bearer", "Basic YTpi", "Bearer nonsense", "Bearer specworth_read_x",
                                    "Token specworth_read_x", "Bearer specworth_nobody_x"])  # fmt: skip
def test_what_is_no_key_is_401_and_is_not_repeated(guarded, header):
    """Whatever came, the answer does not have it."""
    client, _ = guarded
    answer = client.get("/v1/recommendations", headers={"authorization": header})
    assert answer.status_code == 401
    assert "nonsense" not in answer.text


def test_nothing_of_a_body_is_read_for_whoever_may_not_ask(guarded):
    """A refusal comes before the body has: the head alone is enough."""
    client, _ = guarded
    url = urllib.parse.urlsplit(str(client.base_url))
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
    connection.putrequest("POST", "/v1/recommendations")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "1000000")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_the_key_that_asked_stands_in_the_history(guarded, body):
    """By its name."""
    client, by_scope = guarded
    bearer = {"authorization": f"Bearer {by_scope['advise']}"}
    key = client.post("/v1/recommendations", json=body, headers=bearer).json()["id"]
    found = client.get(f"/v1/recommendations/{key}", headers={"authorization": f"Bearer {by_scope['read']}"})
    assert found.json()["asked_by"] == "advise"


def test_a_rate_is_kept_for_each_key_apart(serve, tmp_path):
    """The fourth of three a minute is 429 with the seconds to wait; another key is not held back."""
    by_scope, text = made("read", "admin", rate_limit="3/minute")
    settings = Settings(api_keys=text, database_url=f"sqlite:///{tmp_path / 'h.sqlite3'}")
    with serve(settings) as url, httpx.Client(base_url=url, trust_env=False) as client:
        answers = [ask(client, "GET", "/v1/profiles", by_scope["read"]) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 60
        assert "3/minute" in answers[3].json()["detail"]
        assert ask(client, "GET", "/v1/profiles", by_scope["admin"]).status_code == 200


def test_the_services_own_rate_holds_where_a_key_has_none(serve, tmp_path):
    """SPECWORTH_RATE_LIMIT."""
    by_scope, text = made("read")
    settings = Settings(api_keys=text, rate_limit="1/minute", database_url=f"sqlite:///{tmp_path / 'h.sqlite3'}")
    with serve(settings) as url, httpx.Client(base_url=url, trust_env=False) as client:
        statuses = [ask(client, "GET", "/v1/profiles", by_scope["read"]).status_code for _ in range(2)]
    assert statuses == [200, 429]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "specworth.example"])
def test_without_keys_no_other_machine_can_be_served(host):
    """Neither for want of keys nor by the flag."""
    with pytest.raises(InputError, match="specworth keys new"):
        Access(Settings(host=host))
    with pytest.raises(InputError, match="--no-keys"):
        Access(Settings(host=host, no_keys=True, api_keys=made("read")[1]))
    assert Access(Settings(host=host, api_keys=made("read")[1])).keys


def test_on_loopback_keys_hold_until_they_are_turned_off():
    """Given keys are asked for; --no-keys does not; without any, nobody is asked."""
    text = made("read")[1]
    assert Access(Settings(api_keys=text)).keys
    assert Access(Settings(api_keys=text, no_keys=True)).keys is None
    assert Access(Settings()).keys is None


def test_without_keys_another_name_for_this_machine_is_refused(client):
    """A page in a browser whose name leads here (DNS rebinding) gets nothing."""
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example"):
        answer = client.get("/v1/recommendations", headers={"host": host})
        assert answer.status_code == 421
        assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/v1/recommendations", headers={"host": "localhost:1"}).status_code == 200


def test_without_keys_a_caller_behind_a_proxy_is_refused(client):
    """A proxy on this machine says for whom it asks; that is another machine."""
    assert client.get("/v1/recommendations", headers={"x-forwarded-for": "203.0.113.7"}).status_code == 403
