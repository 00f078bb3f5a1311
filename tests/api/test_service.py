"""The service, by a real server on a loopback port: answers, listings, health and documentation."""

from __future__ import annotations

import concurrent.futures
import time

import pytest

from api.examples import REQUEST_EXAMPLES


@pytest.mark.parametrize("name", REQUEST_EXAMPLES)
def test_every_example_of_the_documentation_works(client, name):
    """What OpenAPI shows can be posted as it stands, and checks as valid."""
    example = REQUEST_EXAMPLES[name]["value"]
    answer = client.post("/v1/recommendations", json=example)
    assert answer.status_code == 200, answer.text
    assert answer.json()["verdict"] in ("enable", "disable")
    checked = client.post("/v1/recommendations:validate", json=example)
    assert checked.json() == {"valid": True, "prompts": len(example["prompts"])}


def test_openapi_holds_the_examples_and_every_reference_resolves(client):
    """The documentation is generated from what is served; nothing in it points nowhere."""
    schema = client.get("/openapi.json").json()
    content = schema["paths"]["/v1/recommendations"]["post"]["requestBody"]["content"]["application/json"]
    assert {name: example["value"] for name, example in content["examples"].items()} == {
        name: example["value"] for name, example in REQUEST_EXAMPLES.items()
    }

    def references(node):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for child in node.values():
                yield from references(child)
        elif isinstance(node, list):
            for child in node:
                yield from references(child)

    found = set(references(schema))
    assert "#/components/schemas/RecommendationRequest" in found
    for reference in found:
        at = schema
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]


def test_the_query_examples_of_the_documentation_work(client):
    """Every example of a query parameter gives a listing."""
    schema = client.get("/openapi.json").json()
    tried = 0
    for path, operations in schema["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", ()):
            for example in parameter.get("examples", {}).values():
                answer = client.get(path, params={parameter["name"]: example["value"]})
                assert answer.status_code == 200
                tried += 1
    assert tried >= 4


def test_healthz_says_that_it_is_up_and_which_version(client):
    """The body is small and fixed."""
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert answer.json()["version"]


def test_healthz_answers_while_recommendations_are_made(client, body):
    """Predictions run beside the event loop: health is answered before the requests that came first are done."""
    body["prompts"] = body["prompts"] * 2000
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        posts = [pool.submit(client.post, "/v1/recommendations", json=body) for _ in range(4)]
        time.sleep(0.05)
        assert client.get("/healthz").status_code == 200
        pending = sum(not post.done() for post in posts)
        assert all(post.result().status_code == 200 for post in posts)
    assert pending >= 1


def test_catalog_lists_models_with_sizes_and_sources(client):
    """The name that a request uses stands there, with where its numbers come from."""
    models = client.get("/v1/catalog/models", params={"search": "llama-3.1-8b-instruct"}).json()["models"]
    found = {model["name"]: model for model in models}
    model = found["meta-llama/Llama-3.1-8B-Instruct"]
    assert model["kind"] == "model"
    assert abs(model["parameters"] / 8.03e9 - 1) < 0.01
    assert model["kv_bytes_per_token"] == 131072
    assert model["source"].startswith("https://")


def test_catalog_search_ignores_case_and_separators_and_may_find_nothing(client):
    """A search that matches nothing is an empty list, not an error."""
    for search in ("H100 sxm", "h100-SXM", "h100sxm"):
        gpus = client.get("/v1/catalog/gpus", params={"search": search}).json()["gpus"]
        assert "H100 SXM" in [gpu["name"] for gpu in gpus]
    assert client.get("/v1/catalog/gpus", params={"search": "abacus"}).json() == {"gpus": []}


def test_catalog_without_search_lists_all_that_the_catalogs_hold(client):
    """Models and drafter heads together; every accelerator."""
    from profiler.catalog import gpus, heads, models

    listed = client.get("/v1/catalog/models").json()["models"]
    assert [entry["name"] for entry in listed] == [entry.name for entry in (*models(), *heads())]
    assert len(client.get("/v1/catalog/gpus").json()["gpus"]) == len(gpus())


def test_the_same_request_gives_the_same_answer_but_for_its_id(client, body):
    """Nothing in an answer is drawn by chance."""
    first, second = (client.post("/v1/recommendations", json=body).json() for _ in range(2))
    assert first.pop("id") != second.pop("id")
    assert first == second
