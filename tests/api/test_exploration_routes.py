"""POST /v1/workloads and /v1/explorations: a file's features, an answer with its map, and nothing of either kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import httpx
import pytest

from api.settings import Settings
from tests.api.test_problems import problem

EXAMPLE = Path(__file__).parents[2] / "data" / "example_prompts.jsonl"
FILE = {"content-type": "application/octet-stream"}


def describe(client, content, name="prompts.jsonl", **headers):
    return client.post("/v1/workloads", params={"name": name}, content=content, headers=FILE | headers)


@pytest.fixture(scope="module")
def own(serve, tmp_path_factory):
    """A service with a history of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('explored') / 'h.sqlite3'}"
    settings = Settings(database_url=url, max_body_bytes=100_000)
    with serve(settings) as address, httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        yield client


def test_a_file_gives_features_and_they_the_answer_of_its_prompts(client, body):
    """The example file: read once, asked with twice, the same as with its prompts."""
    features = describe(client, EXAMPLE.read_bytes()).json()
    assert features["prompts"] == 40
    del body["prompts"]
    prompts = [json.loads(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines()]
    one = client.post("/v1/recommendations", json=body | {"prompts": prompts}).json()
    other = client.post("/v1/explorations", json=body | {"workload": features}).json()
    assert other["recommendation"]["probability"] == pytest.approx(one["probability"])
    assert other["recommendation"]["candidate"] == one["candidate"]
    assert len(other["map"]["speedup"]) == len(other["map"]["input_tokens"])


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"prompt,answer\nWrite a poem,Snow\nWrite a story,Once\n", "p.csv", 2),
        (b'["Write a poem", "Write a story", "Write an essay"]', "p.json", 3),
        (b"Write a poem\n", "p.txt", 1),
    ],
)
def test_the_files_name_and_content_tell_what_it_is(client, content, name, said):
    """As on the command line."""
    assert describe(client, content, name).json()["prompts"] == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "bad.jsonl is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "bad.jsonl"),
        (b'{"colour": "red"}\n', "expected"),
        (
            gzip.compress(b"Write a poem", mtime=0),
            "bad.jsonl is compressed; expected the file as it is; got gzip; unpack it",
        ),
    ],
)
def test_a_bad_file_is_one_clear_line(client, content, said):
    """422 with what was expected."""
    told = problem(describe(client, content, "bad.jsonl"), 422)
    assert said in told["detail"]


def test_a_file_must_say_that_it_is_one(client):
    """A form of another site's page cannot send this media type unasked; and encodings are not undone."""
    told = problem(client.post("/v1/workloads", content=b"a", headers={"content-type": "text/plain"}), 415)
    assert "expected application/octet-stream; got text/plain" in told["detail"]
    problem(describe(client, b"a", **{"content-encoding": "gzip"}), 415)


def test_a_name_cannot_break_the_line(client):
    """What a client calls its file stands in messages, shortened and on one line."""
    told = problem(describe(client, b"", "a\nb" + "c" * 150), 422)
    assert "a\\nb" in told["detail"]


def test_a_file_beyond_the_limit_is_refused(own):
    """As every body."""
    problem(describe(own, b"Write a poem\n" * 20_000), 413)


def test_nothing_is_kept_of_either(own, body):
    """The history stays empty until something is posted to it; features are kept by their number alone."""
    features = describe(own, EXAMPLE.read_bytes()).json()
    del body["prompts"]
    assert own.post("/v1/explorations", json=body | {"workload": features}).status_code == 200
    assert own.get("/v1/recommendations").json()["recommendations"] == []
    kept = own.post("/v1/recommendations", json=body | {"workload": features})
    assert kept.status_code == 200
    stored = own.get(f"/v1/recommendations/{kept.json()['id']}").json()
    assert stored["prompt_count"] == 40
    assert stored["request"]["workload"]["prompts"] == 40  # features are kept, so that it can be asked again
    other = own.post("/v1/recommendations", json=body | {"workload": features | {"overlap": 0.5}}).json()["id"]
    same = [own.get(f"/v1/recommendations/{kept.json()['id']}/diff/{id}").json()["same_prompts"]
            for id in (kept.json()["id"], other)]  # fmt: skip
    assert same == [True, False]


def test_features_cannot_be_kept_as_prompts(own, body):
    """There are none."""
    features = describe(own, b"Write a poem\n", "p.txt").json()
    del body["prompts"]
    told = problem(own.post("/v1/recommendations", json=body | {"workload": features, "store_prompts": True}), 422)
    assert "expected prompts to keep; got their features alone" in told["detail"]


def test_a_wrong_exploration_is_a_problem_with_its_place(client, body):
    """As with recommendations."""
    body["deployment"]["target"] = "meta-llama/Llama-3.1-8B-Instruc"
    told = problem(client.post("/v1/explorations", json=body), 422)
    assert told["errors"][0]["field"] == "deployment.target"
