"""What an operator sees of requests: ids, log lines without prompts, and metrics; by the real service."""

from __future__ import annotations

import json
import logging
import re
import signal
import time

import httpx
import pytest

from api.examples import REQUEST_EXAMPLES
from api.operation.logs import configuration
from tests.api.history.processes import JSON, PATH, Clients, service

MARK = "zebrafinch-7351"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service of its own with logs as JSON: a client, and its lines."""
    with (
        service(tmp_path_factory.mktemp("served"), log_format="json") as (_, url, lines),
        httpx.Client(base_url=url, timeout=60, trust_env=False) as client,
    ):
        yield client, lines


def line_of(lines, request_id):
    """The one log line of a request, which comes after its answer."""
    until = time.monotonic() + 10
    while True:
        found = [told for line in list(lines) if (told := json.loads(line)).get("request_id") == request_id]
        if any(told["event"] == "request" for told in found):
            (request,) = (told for told in found if told["event"] == "request")
            return request, found
        assert time.monotonic() < until, lines
        time.sleep(0.02)


def test_a_plain_request_id_is_taken_over_and_any_other_replaced(served):
    """It is in the answer's head, and cannot carry a line of its own into the log."""
    client, _ = served
    assert client.get("/healthz", headers={"x-request-id": "a.B-7_9"}).headers["x-request-id"] == "a.B-7_9"
    for odd in ("x" * 65, "a b", 'a"b', "ü".encode(), b"a\tb", "", "%0a", "{}"):
        given = client.get("/healthz", headers={b"x-request-id": odd if isinstance(odd, bytes) else odd.encode()})
        assert re.fullmatch("[0-9a-f]{32}", given.headers["x-request-id"]), odd


def test_a_log_line_says_what_was_asked_and_how_it_went(served):
    """Method, route, status, time, sizes, verdict; the path's own values stand for none of them."""
    client, lines = served
    example = REQUEST_EXAMPLES["one_method"]["value"]
    answer = client.post(PATH, json=example)
    told, _ = line_of(lines, answer.headers["x-request-id"])
    assert (told["method"], told["route"], told["status"], told["level"]) == ("POST", PATH, 200, "info")
    assert told["verdict"] == answer.json()["verdict"]
    assert told["prompts"] == 1
    assert told["answer_bytes"] == len(answer.content)
    assert 0 < told["duration_ms"] < 60_000
    one = client.get(f"{PATH}/{answer.json()['id']}")
    assert line_of(lines, one.headers["x-request-id"])[0]["route"] == PATH + "/{id}"
    missing = client.get("/v1/nothing%0aelse")
    assert line_of(lines, missing.headers["x-request-id"])[0]["route"] == "unmatched"


def test_nothing_of_prompts_or_keys_is_logged(served):
    """In whatever way a request goes wrong."""
    client, lines = served
    prompt = f"Write about a {MARK}."
    good = {
        "prompts": [prompt],
        "deployment": {"target": "Qwen/Qwen3-8B", "gpu": "H200"},
        "traffic": {"concurrency": 1},
    }
    bodies = [
        json.dumps(good),
        json.dumps(good | {"store_prompts": True}),
        json.dumps(good | {"prompts": {"a": prompt}}),
        json.dumps(good | {"prompts": [{"prompt": [prompt], "max_tokens": prompt}]}),
        json.dumps(good | {MARK: 1}),
        json.dumps(good)[:-5],
        f'{{"{MARK}": 1, "{MARK}": 2}}',
    ]
    for body in bodies:
        answer = client.post(PATH, content=body.encode(), headers=JSON | {"authorization": f"Bearer {MARK}"})
        line_of(lines, answer.headers["x-request-id"])
    answer = client.get(PATH, params={"label": MARK})
    line_of(lines, answer.headers["x-request-id"])
    assert MARK not in "".join(lines)


def test_every_line_is_one_json_object(served):
    """From the first line of the start on."""
    _, lines = served
    for line in list(lines):
        assert {"event", "level", "timestamp", "logger"} <= set(json.loads(line)), line


@pytest.mark.parametrize("form", ["json", "text"])
def test_an_unexpected_error_is_logged_by_its_type_and_places_without_its_message(form):
    """A message may quote what was being read; the frames lead to the code."""
    made = configuration(form)["formatters"]["one"]
    formatter = made.pop("()")(**made)
    try:
        raise ValueError(f"cannot read {MARK}")
    except ValueError as error:
        raised = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed %s", ("here",), raised)
    line = formatter.format(record)
    assert MARK not in line
    assert "ValueError" in line
    assert "failed here" in line
    assert "test_requests.py" in line


def metric(text, name, **labels):
    """The value of one sample."""
    found = [
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if re.match(rf"{name}[{{ ]", line) and all(f'{label}="{value}"' in line for label, value in labels.items())
    ]
    return sum(found)


def test_metrics_count_requests_verdicts_and_the_database(served):
    """One more of each with each recommendation."""
    client, _ = served
    before = client.get("/metrics").text
    answer = client.post(PATH, json=REQUEST_EXAMPLES["one_method"]["value"]).json()
    after = client.get("/metrics").text
    for name, labels in (
        ("specworth_http_request_duration_seconds_count", {"route": PATH, "method": "POST", "status": "200"}),
        ("specworth_recommendations_total", {"verdict": answer["verdict"], "basis": answer["basis"]}),
        ("specworth_database_duration_seconds_count", {"operation": "keep", "outcome": "ok"}),
        ("specworth_prompts_total", {}),
    ):
        assert metric(after, name, **labels) == metric(before, name, **labels) + 1, name
    assert metric(after, "specworth_build_info") == 1
    assert metric(after, "process_resident_memory_bytes") > 1e6


def test_labels_of_metrics_stay_few(served):
    """Paths and methods that clients make up add no series."""
    client, _ = served
    before = len(client.get("/metrics").text.splitlines())
    for n in range(50):
        client.request(f"METHOD{n}", f"/made/up/{n}")
        client.get(f"{PATH}/{n:032x}")
    after = len(client.get("/metrics").text.splitlines())
    assert after - before < 120  # buckets of three histograms' series, not of fifty


def test_drift_is_told_after_enough_recommendations(served):
    """Sixty times the same question far from the grid: far from the training data in each feature that is fixed."""
    client, _ = served
    example = json.loads(json.dumps(REQUEST_EXAMPLES["one_method"]["value"]))
    example["traffic"] = {"concurrency": 1, "temperature": 0.0, "input_tokens": 64, "output_tokens": 2000}
    outside = metric(client.get("/metrics").text, "specworth_outside_training_total", feature="output_tokens")
    for _ in range(60):
        assert client.post(PATH, json=example).status_code == 200
    text = client.get("/metrics").text
    assert metric(text, "specworth_outside_training_total", feature="output_tokens") == outside + 60
    assert metric(text, "specworth_feature_drift_recommendations") >= 60
    for feature in ("concurrency", "input_tokens", "temperature", "structure"):
        assert metric(text, "specworth_feature_drift_psi", feature=feature) > 0.25, feature


def test_several_processes_share_history_and_metrics_and_stop_together(tmp_path):
    """Both answer; /metrics counts them together whichever is asked; a query stands in no log; SIGTERM ends all."""
    with service(tmp_path, "--processes", "2", log_format="json") as (process, url, lines):
        with Clients(url) as clients:
            until = time.monotonic() + 60
            while len(clients.acknowledged) < 20 and time.monotonic() < until:
                time.sleep(0.02)
        assert clients.refused == []
        counted = {metric(httpx.get(url + "/metrics").text, "specworth_recommendations_total") for _ in range(6)}
        assert counted == {len(clients.acknowledged)}
        listed = httpx.get(url + PATH, params={"limit": 200, "label": MARK})
        assert listed.json()["recommendations"] == []
        events = [json.loads(line)["event"] for line in list(lines)]
        assert len({event for event in events if event.startswith("Started server process")}) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert MARK not in "".join(lines)
