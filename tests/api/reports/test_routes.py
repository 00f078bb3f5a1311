"""Reports of what is stored: the answer as it was given, as one HTML file or as Markdown."""

from __future__ import annotations

import json

import httpx
import pytest

from api.report.review.html import CONTENT_SECURITY_POLICY
from api.settings import Settings
from tests.api.reports.conftest import Parsed, profile_of

PROMPT = "Return the invoice of Frobnicate Ltd as JSON."
ASKED = {
    "prompts": [PROMPT, "Write a haiku."],
    "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"},
    "traffic": {"concurrency": 4, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
}


@pytest.fixture(scope="module")
def http(serve, tmp_path_factory):
    """A service with a history of its own."""
    database = tmp_path_factory.mktemp("reports") / "history.sqlite3"
    with (
        serve(Settings(database_url=f"sqlite:///{database}")) as url,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as client,
    ):
        yield client


def stored(http: httpx.Client, **fields: object) -> dict[str, object]:
    """A recommendation that is kept."""
    answer = http.post("/v1/recommendations", json=ASKED | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_stored_recommendation_is_told_as_it_was_answered(http):
    """Its numbers, its request, its prompts' hash as the history has it; never a prompt."""
    answer = stored(http)
    kept = http.get(f"/v1/recommendations/{answer['id']}").json()
    found = http.get(f"/v1/recommendations/{answer['id']}/report.html")
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    text = " ".join(Parsed(found.text).text.split())
    for point in answer["curve"]:
        assert f"{point['end_to_end']['low']:.2f} to {point['end_to_end']['high']:.2f}" in text
    assert kept["prompts_sha256"] in text
    assert answer["id"] in text
    assert '"concurrency": 4' in text
    assert "Frobnicate" not in text


def test_a_report_is_served_so_that_it_can_do_nothing(http):
    """Its own policy, as a header too; nobody frames it, guesses its type, or keeps it for others."""
    headers = http.get(f"/v1/recommendations/{stored(http)['id']}/report.html").headers
    assert headers["content-security-policy"] == f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "private, no-cache"


def test_markdown_is_the_same_report(http):
    """For wikis and merge requests."""
    answer = stored(http)
    found = http.get(f"/v1/recommendations/{answer['id']}/report.md")
    assert found.headers["content-type"] == "text/markdown; charset=utf-8"
    assert found.text.startswith("# meta-llama/Llama-3.1-8B-Instruct on H200\n")
    assert "```json" in found.text


def test_evidence_is_told_even_though_it_is_kept_apart(http):
    """A profile that came with the request is measured evidence in the report, by its hash; once deleted it is gone."""
    profile = json.loads(profile_of().model_dump_json())
    head = {"method": "eagle3", "num_speculative_tokens": 3, "draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}
    answer = stored(http, evidence={"profile": profile}, deployment=ASKED["deployment"] | {"speculation": head})
    kept = http.get(f"/v1/recommendations/{answer['id']}").json()
    report = http.get(f"/v1/recommendations/{answer['id']}/report.md").text
    assert "A complete profile of 2026" in report
    assert kept["profile_id"] in report
    assert http.delete(f"/v1/profiles/{kept['profile_id']}").status_code == 204
    assert "A complete profile" not in http.get(f"/v1/recommendations/{answer['id']}/report.md").text


def test_counts_are_told_from_the_request(http):
    """They stay in it."""
    head = {"method": "eagle3", "num_speculative_tokens": 3, "draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}
    counts = {"drafts": 412, "accepted_tokens": 931, "temperature": 0.0}
    answer = stored(http, evidence=counts, deployment=ASKED["deployment"] | {"speculation": head})
    assert "931 accepted tokens in 412 drafts" in http.get(f"/v1/recommendations/{answer['id']}/report.md").text


@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_stored_profile_has_a_report_too(http, kind):
    """Its points, and a command that measures the same."""
    profile = json.loads(profile_of().model_dump_json())
    key = http.post("/v1/profiles:import", json=profile).json()["id"]
    report = http.get(f"/v1/profiles/{key}/report.{kind}")
    assert report.status_code == 200
    assert "1.83x" in report.text
    assert "specworth profile PROMPTS" in report.text


@pytest.mark.parametrize("what", ["recommendations", "profiles"])
def test_what_is_not_there_is_a_problem(http, what):
    """An id that nothing has, and a kind of report that there is not."""
    for path, said in ((f"{'0' * 32}/report.html", "has the id 000"), (f"{'0' * 32}/report.pdf", "html")):
        answer = http.get(f"/v1/{what}/{path}")
        assert answer.status_code in (404, 422)
        assert answer.headers["content-type"] == "application/problem+json"
        assert said in answer.text


def test_openapi_tells_both_forms(http):
    """So that generated clients know that it is no JSON."""
    paths = http.get("/openapi.json").json()["paths"]
    for path in ("/v1/recommendations/{id}/report.{kind}", "/v1/profiles/{id}/report.{kind}"):
        assert set(paths[path]["get"]["responses"]["200"]["content"]) == {"text/html", "text/markdown"}
