"""POST /v1/comparisons against stand-in servers: what is wrong with one ends that one alone, in one line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

import httpx
import pytest
import yaml
from pydantic import SecretStr

from api.access.keys import new_key
from api.comparisons.arm import Limits
from api.comparisons.comparison import Comparison, Event
from api.comparisons.request import ComparisonRequest
from api.routes.comparisons import MOST_OPEN, _encoded
from api.settings import Settings
from tests.fake_vllm import Knobs, fake_vllm

SPECULATES = {"tokens_per_step": 3, "num_speculative_tokens": 3}


@pytest.fixture(scope="module")
def service(serve):
    with serve(Settings(store=False)) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        yield client


@contextlib.contextmanager
def pair(baseline=None, speculative=None):
    """Two servers, with these knobs besides."""
    with (
        fake_vllm(Knobs(**(baseline or {}))) as one,
        fake_vllm(Knobs(**(SPECULATES | {"per_request": True, "detailed": True} | (speculative or {})))) as two,
    ):
        yield one, two


def asked(one, two, **more):
    """A body; servers by what they are or by their address."""
    urls = [getattr(server, "url", server) for server in (one, two)]
    body = {"baseline": {"url": urls[0]}, "speculative": {"url": urls[1]}, "prompt": "say it", "max_tokens": 12}
    return body | more


def events(service, body):
    """All that happened, as (kind, values)."""
    with service.stream("POST", "/v1/comparisons", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        found, kind = [], None
        for line in answer.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: "))))
    assert found[-1][0] == "end"
    return found


def of(found, kind, arm=None):
    """The values of all events of a kind, of one arm where it is named."""
    return [values for name, values in found if name == kind and (arm is None or values["arm"] == arm)]


def failure(found, arm):
    """The one line of what was wrong with this arm, while the other's answer is whole."""
    other = "baseline" if arm == "speculative" else "speculative"
    lines = of(found, "failed")
    assert [line["arm"] for line in lines] == [arm]
    assert of(found, "finished", other)[0]["output_tokens"] == 12
    assert "\n" not in lines[0]["text"]
    return lines[0]["text"]


def test_both_answer_and_every_figure_is_what_was_served(service):
    """Text, tokens, acceptance by the request's own counts, and which words were drafts."""
    with pair() as (one, two):
        found = events(service, asked(one, two))
        for arm in ("baseline", "speculative"):
            assert "".join(piece["text"] for piece in of(found, "text", arm)) == "word " * 12
            assert sum(piece["new_tokens"] for piece in of(found, "text", arm)) == 12
            assert of(found, "finished", arm)[0]["output_tokens"] == 12
        figures = of(found, "figures")[-1]
        assert figures["speedup"]["tokens"] == 12
        assert figures["speedup"]["end_to_end"] == pytest.approx(
            figures["baseline"]["elapsed_ms"] / figures["speculative"]["elapsed_ms"], rel=1e-3
        )
        assert figures["speculative"]["tokens_per_piece"] == pytest.approx(11 / 4)
        told = of(found, "acceptance")[-1]
        assert (told["source"], told["final"]) == ("request", True)
        assert (told["drafts"], told["drafted_tokens"], told["accepted_tokens"]) == (4, 12, 7)
        assert told["acceptance_length"] == 1 + 7 / 4
        assert of(found, "marks")[0]["spans"] == [
            ["word ", False], ["word word ", True], ["word ", False], ["word word ", True], ["word ", False],
            ["word word ", True], ["word ", False], ["word ", True], ["word ", False],
        ]  # fmt: skip
        assert found[-1][1] == {"same_text": True}
        for server in (one, two):
            body = server.bodies[0]
            assert (body["temperature"], body["max_tokens"], body["stream"]) == (0.0, 12, True)
            assert body["messages"] == [{"role": "user", "content": "say it"}]


def test_without_per_request_metrics_the_counters_tell(service):
    """Of this window alone; which tokens were drafts stays unknown."""
    with pair(speculative={"per_request": False}) as (one, two):
        events(service, asked(one, two))
        found = events(service, asked(one, two))
        told = of(found, "acceptance")[-1]
        assert (told["source"], told["drafts"], told["accepted_tokens"]) == ("metrics", 4, 7)
        assert of(found, "marks") == [{"arm": "speculative", "spans": [], "unknown": "not told"}]


def test_without_metrics_acceptance_is_unknown(service):
    """And nothing is invented: no event of it."""
    with pair(speculative={"per_request": False, "with_metrics": False}) as (one, two):
        found = events(service, asked(one, two))
        assert of(found, "acceptance") == []
        assert of(found, "finished", "speculative")


def test_in_turn_the_second_waits_for_the_first(service):
    """The speculative server is sent the prompt once the baseline has finished."""
    with pair() as (one, two):
        found = events(service, asked(one, two, order="in_turn"))
        told = [(kind, v["arm"]) for kind, v in found if kind in ("started", "finished")]
        assert told == [
            ("started", "baseline"), ("finished", "baseline"), ("started", "speculative"), ("finished", "speculative")
        ]  # fmt: skip
        assert of(found, "figures")[-1]["speedup"]["tokens"] == 12


@pytest.mark.parametrize(
    ("knobs", "line"),
    [
        ({"fault": "cut stream"}, "the server broke off after its first token; expected a whole answer; got a str"),
        ({"fault": "beyond"}, "the server failed after 13 tokens; got the answer went on beyond the 12 tokens"),
        ({"fault": "broken json"}, "the server failed after its first token; got broken JSON in the stream"),
        ({"fault": "status 500"}, "the server refused the prompt: HTTP 500; got told to fail"),
        ({"put_off": 9}, "the server puts requests off: HTTP 429; got too many requests; try again later"),
        ({"max_model_len": 5}, "HTTP 400; got This model's maximum context length is 5 tokens; choose a shorter"),
        ({"api_key": "other"}, "refuses the key; expected the key of that server; got HTTP 401; give the key"),
        ({"model": "another", "root": "/models/another"}, "serves another model than the baseline; expected 'fake'"),
        ({"owned_by": "x", "version": None, "with_metrics": False}, "is no vLLM server"),
    ],
)  # fmt: skip
def test_a_speculative_server_that_fails_says_why_in_one_line(service, knobs, line):
    """The baseline's answer is whole all the same."""
    with pair(speculative=knobs) as (one, two):
        found = events(service, asked(one, two))
        assert line in failure(found, "speculative")
        assert found[-1][1]["same_text"] is None


@pytest.mark.parametrize("fault", ["cut stream", "status 503"])
def test_a_baseline_that_fails_leaves_the_other_its_answer(service, fault):
    """The same the other way round."""
    with pair(baseline={"fault": fault}) as (one, two):
        assert failure(events(service, asked(one, two)), "baseline")


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("http://10.0.0.7:8000", "speculative.url: this service does not connect to 10.0.0.7: it is not listed"),
        ("http://169.254.169.254", "it is link-local or of cloud metadata"),
        ("http://2130706433:8000", "speculative.url: no address of a server; expected an address such as"),
        ("http://user@127.0.0.1:8000", "speculative.url: no address of a server"),
        ("file:///etc/passwd", "speculative.url: no address of a server"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9 does not answer"),
    ],
)
def test_a_server_that_may_not_or_cannot_be_reached(service, address, line):
    """Refused by the same rules as profile jobs; the baseline answers."""
    with pair() as (one, _):
        assert line in failure(events(service, asked(one, address)), "speculative")


def test_a_redirect_is_not_followed(service):
    """What is behind it is not the server that was named."""
    with pair() as (one, two), fake_vllm(Knobs(redirect_to=two.url)) as elsewhere:
        assert "redirects to another address" in failure(events(service, asked(one, elsewhere)), "speculative")
        assert two.bodies == []


def test_one_server_twice_is_no_comparison(service):
    """By any of its addresses."""
    with pair() as (one, _):
        found = events(service, asked(one, one.url.replace("127.0.0.1", "localhost")))
        assert "both addresses are of the same server" in failure(found, "speculative")


def test_a_key_of_the_servers_own_is_passed_on_and_told_to_nobody(service):
    """To that server alone; the answer does not have it."""
    with pair(speculative={"api_key": "s3cret"}) as (one, two):
        body = asked(one, two)
        body["speculative"]["api_key"] = "s3cret"
        found = events(service, body)
        assert of(found, "failed") == []
        assert "s3cret" not in json.dumps(found)
        body["speculative"]["api_key"] = "s3cret\r\nX: y"
        refused = service.post("/v1/comparisons", json=body)
        assert refused.status_code == 422
        assert "printable ASCII" in refused.json()["detail"]
        assert "s3cret" not in refused.text


def test_the_operators_key_goes_to_listed_servers_alone(serve):
    """Loopback may be reached unlisted, but then without the key."""
    with pair({"api_key": "ours"}, {"api_key": "ours"}) as (one, two):
        for hosts, ok in (("127.0.0.1", True), ("", False)):
            settings = Settings(store=False, attach_hosts=hosts, attach_api_key=SecretStr("ours"))
            with serve(settings) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
                assert (of(events(client, asked(one, two)), "failed") == []) == ok


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"baseline": {"url": ""}}, "baseline.url"),
        ({"temperature": 3}, "temperature: expected a number from 0 to 2; got 3"),
        ({"max_tokens": 100_000}, "max_tokens: expected a whole number from 1 to 4,096; got 100000"),
        ({"prompt": ""}, "the prompt cannot be read"),
        ({"prompt": {"messages": []}}, "the prompt cannot be read"),
        ({"prompt": "x" * (2**20 + 1)}, "the prompt is too long to be compared here"),
        ({"order": "backwards"}, "order: expected"),
        ({"tempratur": 0}, "did you mean 'temperature'"),
    ],
)
def test_a_request_that_is_none_is_refused_as_a_whole(service, change, line):
    """With problem details, before any server is asked."""
    refused = service.post("/v1/comparisons", json=asked("http://127.0.0.1:9", "http://127.0.0.1:8") | change)
    assert refused.status_code == 422
    assert line in refused.json()["detail"]


def test_what_makes_figures_less_than_they_seem_is_said(service):
    """First answers, arms that are exchanged, other requests."""
    with pair() as (one, two):
        notes = [note["text"] for note in of(events(service, asked(two, one)), "note")]
        assert sum("first answer of the" in note for note in notes) == 2
        assert any("The baseline speculates, too" in note for note in notes)
        assert any("The speculative server does not speculate" in note for note in notes)
        one.in_flight = 3
        notes = [note["text"] for note in of(events(service, asked(one, two)), "note")]
        assert notes == ["The baseline server answers 3 other requests besides, which share its speed."]


def test_other_traffic_in_the_counters_is_said(service):
    """The counters are the server's, not the request's."""
    with pair(speculative={"per_request": False}) as (one, two):
        two.finish(prompt_tokens=1, output_tokens=1, ttft_s=0.01, tpot_s=0.01)
        body = asked(one, two)
        with service.stream("POST", "/v1/comparisons", json=body) as answer:
            told = None
            for line in answer.iter_lines():
                if line == "event: text":
                    two.add("generation_tokens", 50)
                if line.startswith("data: ") and '"final":true' in line:
                    told = json.loads(line.removeprefix("data: "))
        assert told["other_traffic"] is True


def gone(*servers):
    """Whether the servers' requests end; they are asked until they do."""
    until = time.monotonic() + 30
    while any(server.in_flight for server in servers):
        assert time.monotonic() < until, [server.in_flight for server in servers]
        time.sleep(0.05)
    return True


def test_who_hangs_up_ends_both_requests(service):
    """Upstream, too, although thousands of tokens were still to come; also before the first."""
    slow = {"step_s": 0.05}
    for knobs, awaited in ((slow, "event: text"), ({"ttft_s": 60.0}, "event: started")):
        with pair(knobs, knobs) as (one, two):
            with service.stream("POST", "/v1/comparisons", json=asked(one, two, max_tokens=2000)) as answer:
                for line in answer.iter_lines():
                    if line == awaited and one.in_flight and two.in_flight:
                        break
                    if line == awaited == "event: started":
                        until = time.monotonic() + 10
                        while not (one.in_flight and two.in_flight) and time.monotonic() < until:
                            time.sleep(0.02)
                        break
            assert gone(one, two)


def test_only_so_many_at_one_time(service):
    """The next is refused with 429, and may come once one has left."""
    with contextlib.ExitStack() as stack, pair({"step_s": 0.1}, {"step_s": 0.1}) as (one, two):
        body = asked(one, two, max_tokens=2000)
        open_now = [stack.enter_context(service.stream("POST", "/v1/comparisons", json=body)) for _ in range(MOST_OPEN)]
        assert {answer.status_code for answer in open_now} == {200}
        refused = service.post("/v1/comparisons", json=body)
        assert (refused.status_code, "try again" in refused.json()["detail"]) == (429, True)
        assert refused.headers["retry-after"] == "10"
        for answer in open_now:
            answer.close()
        assert gone(one, two)
        assert of(events(service, asked(one, two, max_tokens=2)), "failed") == []


@pytest.mark.parametrize(
    ("limits", "knobs", "line"),
    [
        (Limits(characters=40), {}, "the answer grew beyond 40 characters and was ended"),
        (Limits(seconds=0.5), {"step_s": 0.1}, "the server was given up after"),
        (Limits(stall_s=0.3), {"fault": "hang"}, "the server was given up before its first token"),
    ],
)
def test_an_answer_without_end_is_ended(limits, knobs, line):
    """Too long, too slow, silent: one line, and the server is rid of the request."""

    async def go(one, two):
        body = ComparisonRequest.model_validate(asked(one, two, max_tokens=1000))
        comparison = Comparison(body, body.read_prompt(), Settings(store=False), limits)
        return [(event.kind, event.values) async for event in comparison.events()]

    with pair(speculative=knobs) as (one, two):
        found = asyncio.run(go(one, two))
        assert line in of(found, "failed", "speculative")[0]["text"]
        assert gone(one, two)


def test_a_service_that_stops_says_so_and_ends_both_requests():
    """The stream has an end, and what it came from is closed."""
    closed = []

    async def endless():
        try:
            yield Event("text", {"text": "word "})
            await asyncio.sleep(3600)
        finally:
            closed.append(True)

    async def go():
        stopping = asyncio.Event()
        asyncio.get_running_loop().call_later(0.2, stopping.set)
        return [part async for part in _encoded(endless(), stopping)]

    first, last = asyncio.run(go())
    assert first == b'event: text\ndata: {"text":"word "}\n\n'
    assert b"event: end" in last
    assert b"the service is stopping" in last
    assert closed == [True]


def test_the_scope_is_that_of_measuring(serve):
    """A key that may only ask is refused."""
    key, kept = new_key("reader")
    keys = SecretStr(yaml.safe_dump([{"name": "reader", "scopes": ["advise", "read"], "hash": kept}]))
    with serve(Settings(store=False, api_keys=keys)) as url:
        head = {"Authorization": f"Bearer {key}"}
        body = asked("http://127.0.0.1:9", "http://127.0.0.1:8")
        for path, content in (("", {"json": body}), ("/prompts", {"content": b"hello"})):
            answer = httpx.post(f"{url}/v1/comparisons{path}", headers=head, trust_env=False, **content)
            assert (answer.status_code, "expected the scope profile" in answer.json()["detail"]) == (403, True)


def test_a_file_of_prompts_is_read_in_any_shape(service):
    """Turns, and what each asks for itself; what cannot be read is said."""
    head = {"Content-Type": "application/octet-stream"}
    chat = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]}
    lines = json.dumps(chat | {"max_tokens": 9, "temperature": 0.5}) + '\n"plain"\n'
    found = service.post("/v1/comparisons/prompts?name=a.jsonl", content=lines.encode(), headers=head).json()
    assert found["usable"] == found["records"] == 2
    first = next(prompt for prompt in found["prompts"] if prompt["max_tokens"])
    assert first == {"messages": chat["messages"], "max_tokens": 9, "temperature": 0.5}
    for content in (b"", b"\x1f\x8b\x08rest"):
        refused = service.post("/v1/comparisons/prompts?name=a.jsonl", content=content, headers=head)
        assert refused.status_code == 422
        assert "a.jsonl" in refused.json()["detail"]
