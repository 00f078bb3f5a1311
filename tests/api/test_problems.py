"""Wrong requests over HTTP: always a 4xx with problem details that name the field, what was expected and what came."""

from __future__ import annotations

import concurrent.futures
import copy
import json
import re
import socket
import threading
from collections.abc import Iterator
from random import Random

import httpx
import pytest

from api.examples import REQUEST_EXAMPLES
from api.settings import Settings

JSON = {"content-type": "application/json"}
PATH = "/v1/recommendations"


def problem(answer: httpx.Response, status: int) -> dict:
    """The problem details of an answer, checked for what RFC 9457 and our own form ask of every one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert told["type"].startswith("urn:problem-type:specworth:")
    assert told["title"]
    assert told["detail"]
    assert "\n" not in told["detail"]
    assert "Traceback" not in answer.text
    for error in told["errors"]:
        assert {"field", "expected", "got"} <= set(error)
        assert error["expected"]
    return told


def one_error(told: dict, field: str) -> dict:
    found = [error for error in told["errors"] if error["field"] == field]
    assert found, told
    return found[0]


@pytest.mark.parametrize("path", [PATH, PATH + ":validate"])
@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"", 400, "the body is empty"),
        (b"{", 400, "not valid JSON"),
        (b'{"traffic": {"temperature": NaN}}', 400, "the literal NaN"),
        (b'{"prompts": ["\\udc00"]}', 400, "surrogate"),
        (b'{"prompts": ["\xff"]}', 400, "UTF-8"),
        (b"[" * 100_000, 422, "nested too deeply"),
        (b'{"prompts": ' + b"[" * 200 + b"]" * 200 + b"}", 422, "nested too deeply"),
        (b"[1, 2]", 422, "expected a JSON object"),
        (b"null", 422, "expected a JSON object"),
        (b'{"prompts": ["a"], "prompts": ["b"]}', 422, "the key 'prompts' twice"),
    ],
)
def test_bodies_that_are_no_json_object(client, path, content, status, said):
    """Malformed text is a 400, JSON that is no object of unique keys a 422; neither is ever a 500."""
    assert said in problem(client.post(path, content=content, headers=JSON), status)["detail"]


def test_a_repeated_key_is_named_with_its_path(client):
    """`deployment.gpu` given twice: which was meant is not ours to guess."""
    content = b'{"prompts": ["a"], "deployment": {"target": "x", "gpu": "H200", "gpu": "L4"}}'
    error = one_error(problem(client.post(PATH, content=content, headers=JSON), 422), "deployment.gpu")
    assert error["expected"] == "each key once"
    assert "'gpu'" in error["got"]


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "no Content-Type"),
        ({"content-type": "text/plain"}, "text/plain"),
        ({"content-type": "application/x-www-form-urlencoded"}, "x-www-form-urlencoded"),
        ({"content-type": "application/json; charset=utf-16"}, "utf-16"),
        ({"content-type": "application/json", "content-encoding": "gzip"}, "gzip"),
    ],
)
def test_other_media_types_are_415(client, headers, said):
    """What the body says of itself is checked before any of it is read."""
    told = problem(client.post(PATH, content=b"{}", headers=headers), 415)
    assert said in told["detail"]


@pytest.mark.parametrize(
    "kind", ["application/json; charset=UTF-8", "application/vnd.specworth+json", "Application/JSON"]
)
def test_every_way_of_saying_json_is_taken(client, body, kind):
    """Parameters, +json and case do not matter."""
    answer = client.post(PATH + ":validate", content=json.dumps(body).encode(), headers={"content-type": kind})
    assert answer.status_code == 200


def change(body: dict, path: str, value: object) -> dict:
    """The body with the value at a dotted path replaced."""
    *above, last = path.split(".")
    at = body
    for step in above:
        at = at.setdefault(step, {})
    at[last] = value
    return body


@pytest.mark.parametrize(
    ("field", "value", "expected", "got"),
    [
        ("traffic.concurrency", -3, "from 1 to", "-3"),
        ("traffic.concurrency", 10**9, "from 1 to", "1000000000"),
        ("traffic.concurrency", "16", "a whole number", "'16'"),
        ("traffic.temperature", -0.5, "from 0 to 2", "-0.5"),
        ("traffic.output_tokens", 0, "from 1 to", "0"),
        ("traffic.cached_prefix_share", 1.5, "from 0 to 1", "1.5"),
        ("deployment.gpu_memory_utilization", 92, "to 1", "92"),
        ("deployment.tensor_parallel_size", 0, "from 1 to", "0"),
        ("deployment.max_model_len", -1, "from 16 to", "-1"),
        ("deployment.engine_version", "latest", "a vLLM version", "'latest'"),
        ("deployment.kv_cache_dtype", "int3", "'auto'", "'int3'"),
        ("deployment.speculation.method", "eagel3", "eagle3", "'eagel3'"),
        ("policy.objective", "fastest", "'end_to_end' or 'tpot'", "'fastest'"),
        ("policy.confidence", 2, "from 0.5", "2"),
        ("prompts", "Write a poem", "a list of prompts", "'Write a poem'"),
    ],
)
def test_values_out_of_bounds_name_field_expectation_and_value(client, body, field, value, expected, got):
    """Each message can be acted on without looking anything up."""
    error = one_error(problem(client.post(PATH, json=change(body, field, value)), 422), field)
    assert expected in error["expected"]
    assert error["got"] == got


@pytest.mark.parametrize("k", [0, 50, 2.5, True])
def test_k_outside_of_what_is_served_is_refused(client, body, k):
    """0 is no speculation and 50 no server runs."""
    body["deployment"]["speculation"] = {"method": "ngram", "num_speculative_tokens": k}
    field = "deployment.speculation.num_speculative_tokens"
    error = one_error(problem(client.post(PATH, json=body), 422), field)
    assert error["expected"] == "a whole number from 1 to 16"
    assert error["got"] == str(k)


@pytest.mark.parametrize(
    ("field", "value", "nearest"),
    [
        ("deployment.gpu", "H2000", "H200"),
        ("deployment.target", "Qwen/Qwen3-9B", "Qwen/Qwen3-8B"),
        ("deployment.target", "meta-llama/Lama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("deployment.speculation.method", "eagel3", "eagle3"),
    ],
)
def test_unknown_names_come_back_with_the_nearest_known(client, body, field, value, nearest):
    """A slip of the finger is mended from the message alone."""
    if field.endswith("method"):
        body["deployment"]["speculation"] = {}
    told = problem(client.post(PATH, json=change(body, field, value)), 422)
    one_error(told, field)
    assert nearest in told["detail"]
    assert value in told["detail"]


def test_an_unknown_field_is_refused_with_the_nearest_known(client, body):
    """A mistyped field is no silent default."""
    body["traffic"]["concurency"] = 4
    error = one_error(problem(client.post(PATH, json=body), 422), "traffic.concurency")
    assert "concurrency" in error["remedy"]


def test_required_fields_are_named(client):
    """What is missing is told by its path."""
    told = problem(client.post(PATH, json={"prompts": ["a"], "deployment": {"gpu": "H200"}}), 422)
    assert one_error(told, "deployment.target")["got"] == "nothing"


@pytest.mark.parametrize(
    "prompts", [[], [""], [None, 3, {}], [{"messages": []}], [{"messages": [{"role": {}, "content": "a"}]}]]
)
def test_no_readable_prompt_is_an_error_that_says_so(client, body, prompts):
    """Nothing to read is no verdict."""
    body["prompts"] = prompts
    told = problem(client.post(PATH, json=body), 422)
    assert re.fullmatch(r"prompts(\[0\](\.[\w.\[\]]+)?)?", told["errors"][0]["field"])


def test_a_config_that_lacks_a_field_is_refused_by_that_field(client, body, llama_config):
    """The missing number is named; none is made up."""
    del llama_config["num_hidden_layers"]
    body["deployment"]["target"] = {"name": "ours", "config": llama_config}
    told = problem(client.post(PATH, json=body), 422)
    assert "num_hidden_layers" in json.dumps(told)


def test_a_path_of_the_server_is_no_model_name(client, body, tmp_path, llama_config):
    """Over HTTP a name is looked up and never opened: files of the server cannot be probed."""
    (tmp_path / "config.json").write_text(json.dumps(llama_config), encoding="utf-8")
    for name in (str(tmp_path), str(tmp_path / "config.json"), "/etc/passwd", "../../etc/passwd"):
        body["deployment"]["target"] = name
        told = problem(client.post(PATH, json=body), 422)
        one_error(told, "deployment.target")


def test_a_target_that_does_not_fit_says_how_many_gpus_would_do(client, body):
    """70B in bf16 on one L4 cannot be; the answer names a number of GPUs."""
    body["deployment"] |= {"target": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "L4"}
    told = problem(client.post(PATH, json=body), 422)
    assert re.search(r"\b\d+\b[^.]*GPUs?|tensor.parallel.size[^.]*\d", told["detail"]), told


def test_a_draft_that_is_larger_than_its_target_is_refused(client, body):
    """It cannot gain anything, and is most likely the two swapped."""
    body["deployment"] |= {
        "target": "meta-llama/Llama-3.2-1B-Instruct",
        "speculation": {"method": "draft_model", "draft": "meta-llama/Llama-3.1-8B-Instruct"},
    }
    told = problem(client.post(PATH, json=body), 422)
    one_error(told, "deployment.speculation.draft")
    assert "not smaller than its target" in told["detail"]


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"drafts": 10, "accepted_tokens": 50}, "at most 30"),
        ({"drafts": 10, "accepted_per_position": [5, 9]}, "accepted 9"),
        ({"drafts": 10}, "accepted_per_position or accepted_tokens"),
        ({"accepted_tokens": 5}, "drafts"),
        ({"drafts": -1, "accepted_tokens": 0}, "-1"),
    ],
)
def test_evidence_that_contradicts_itself_is_refused(client, body, evidence, said):
    """Counts that no run can have given are a mistake in the reading of them."""
    body["deployment"]["speculation"] = {"method": "ngram", "num_speculative_tokens": 3}
    body["evidence"] = evidence
    told = problem(client.post(PATH, json=body), 422)
    assert said in told["detail"]
    assert any(error["field"].startswith("evidence") for error in told["errors"])


def test_evidence_without_its_method_is_refused(client, body):
    """Counts are of one method and one k."""
    body["evidence"] = {"drafts": 10, "accepted_tokens": 5}
    told = problem(client.post(PATH, json=body), 422)
    one_error(told, "deployment.speculation")


def test_an_infinite_number_in_evidence_is_refused(client, body):
    """1e999 is no count."""
    text = json.dumps(body)[:-1] + ', "evidence": {"drafts": 1e999}}'
    assert "infinity" in problem(client.post(PATH, content=text.encode(), headers=JSON), 400)["detail"]


def test_a_prompt_of_a_million_characters_is_answered(client, body):
    """It is long, not wrong."""
    body["prompts"] = ["lorem ipsum " * 90_000]
    body["traffic"] = {"concurrency": 1, "temperature": 0.0}
    answer = client.post(PATH, json=body)
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 422:  # longer than the model's context: refused by that name
        assert "token" in problem(answer, 422)["detail"]


def test_unknown_resources_and_methods_are_problems_too(client):
    """404 and 405 have the same form."""
    assert "not found" in problem(client.get("/v1/recomendations"), 404)["detail"]
    told = problem(client.delete(PATH), 405)
    assert "method not allowed" in told["detail"]


def test_a_query_parameter_out_of_bounds_is_a_problem(client):
    """A search of 300 characters is refused with its length."""
    told = problem(client.get("/v1/catalog/gpus", params={"search": "x" * 300}), 422)
    assert "200" in one_error(told, "query.search")["expected"]


@pytest.fixture(scope="module")
def small(serve):
    """A server with small limits."""
    limits = Settings(max_body_bytes=4096, max_prompts=3, body_timeout_s=0.5)
    with serve(limits) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


def test_a_declared_length_beyond_the_limit_is_413(small):
    """The message has both numbers and says what to do."""
    told = problem(small.post(PATH, content=b" " * 5000, headers=JSON), 413)
    assert "at most 4,096 bytes" in told["detail"]
    assert "5,000 bytes" in told["detail"]
    assert "sample" in told["detail"]


@pytest.mark.parametrize("chunks", [5, 200])
def test_a_stream_beyond_the_limit_is_413_without_a_declared_length(small, chunks):
    """Counting does not need Content-Length, and the sender gets to read the answer."""

    def pieces():
        for _ in range(chunks):
            yield b" " * 1024

    try:
        told = problem(small.post(PATH, content=pieces(), headers=JSON), 413)
    except httpx.WriteError:  # far beyond the limit the connection is closed while the client still sends
        assert chunks == 200
    else:
        assert "more than that" in told["detail"]


def test_the_default_limit_is_32_mib(client):
    """33 MiB are refused, and the answer can be read although all of it was sent."""
    told = problem(client.post(PATH, content=b" " * (33 * 2**20), headers=JSON), 413)
    assert "33,554,432" in told["detail"]
    assert "32 MiB" in told["detail"]


def test_too_many_prompts_are_422(small, body):
    """The message has the limit, the number, and the advice to send a sample."""
    body["prompts"] = ["a"] * 4
    error = one_error(problem(small.post(PATH, json=body), 422), "prompts")
    assert (error["expected"], error["got"]) == ("at most 3 prompts", "4")
    assert "sample" in error["remedy"]


def test_a_body_that_does_not_arrive_is_408(small):
    """A client that stalls does not hold on to the service."""
    host, port = small.base_url.host, small.base_url.port
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 100\r\n\r\n{"
        )
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"application/problem+json" in answer


def test_a_client_that_leaves_halfway_is_no_failure(small, caplog):
    """Nothing is logged as a fault of ours, and the next client is served."""
    host, port = small.base_url.host, small.base_url.port
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 100\r\n\r\n{"
        )
    assert small.get("/healthz").status_code == 200
    assert not caplog.records


def test_a_client_that_asks_before_sending_is_told_at_once(small):
    """With Expect: 100-continue nothing of a body that is too large needs to be sent."""
    host, port = small.base_url.host, small.base_url.port
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 99999999\r\nexpect: 100-continue\r\n\r\n"
        )
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413")


def test_an_unexpected_failure_is_a_problem_without_its_inside(monkeypatch, caplog, body, serve):
    """The log has the traceback under a number; the answer has the number only."""
    from api.routes import recommendations

    def fails(_request: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(recommendations, "advise", fails)
    with serve(Settings()) as url, httpx.Client(trust_env=False) as client:
        answer = client.post(url + PATH, json=body)
    told = problem(answer, 500)
    assert "secret" not in answer.text
    number = told["detail"].split()[-1]
    assert any(number in record.getMessage() for record in caplog.records)


def test_more_waiting_than_allowed_is_503_with_retry_after(monkeypatch, body, serve):
    """A queue that only grows helps nobody: while one is worked on, whoever does not fit in line is told so at once."""
    from api.routes import recommendations

    advise, refusal = recommendations.advise, threading.Event()

    def works_until_one_was_refused(asked: object) -> object:
        refusal.wait(60)
        return advise(asked)

    monkeypatch.setattr(recommendations, "advise", works_until_one_was_refused)
    answers = []
    with (
        serve(Settings(max_waiting=1)) as url,
        httpx.Client(timeout=120, trust_env=False) as client,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        sent = [pool.submit(client.post, url + PATH, json=body) for _ in range(8)]
        for done in concurrent.futures.as_completed(sent):
            answers.append(done.result())
            if answers[-1].status_code == 503:
                refusal.set()
    refused = [answer for answer in answers if answer.status_code == 503]
    assert {answer.status_code for answer in answers} == {200, 503}
    assert problem(refused[0], 503)["title"] == "The service is busy"
    assert refused[0].headers["retry-after"] == "1"


ODD_VALUES: list[object] = [
    None, True, 0, -1, 3.5, 1e300, 2**70, "", "x" * 5000, "\u0000", "../../etc/passwd", [], [[]], {}, {"name": "H200"},
    {"content": None}, {"messages": [{}]}, {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
    {"prompt": [1, 2, 3]}, {"prompt": "x", "temperature": "hot", "max_tokens": -1},
]  # fmt: skip


def places(node: object, path: tuple = ()) -> Iterator[tuple]:
    """The path of everything inside a JSON value."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


@pytest.mark.parametrize("name", REQUEST_EXAMPLES)
def test_no_change_of_a_valid_request_makes_the_service_fail(client, name):
    """Whatever stands anywhere in a request, the answer is a verdict or a problem, and never a 500."""
    random = Random(name)
    example = REQUEST_EXAMPLES[name]["value"]
    for path in places(example):
        changed = copy.deepcopy(example)
        at = changed
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = random.choice(ODD_VALUES)
        answer = client.post(PATH, json=changed)
        if answer.status_code != 200:
            assert problem(answer, 422)["errors"], changed
