"""What OpenAPI promises is what the service does: schemathesis draws requests from it, valid ones and others.

`schemathesis.toml` beside this file says which, with a fixed seed, and how to run all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from api.examples import REQUEST_EXAMPLES
from api.settings import Settings
from profiler.probe.profile import Profile
from tests.advisor.profiles import point, profile

CONFIG = Path(__file__).with_name("schemathesis.toml")
COMMAND = Path(sys.executable).with_name("schemathesis")


def test_every_operation_answers_as_it_is_documented(serve, tmp_path):
    """No 5xx; statuses, media types, headers and contents as described; what the schema forbids is refused.

    Links between operations are followed, so that records which are there are read, changed and deleted.
    """
    with serve(Settings(database_url=f"sqlite:///{tmp_path / 'history.sqlite3'}")) as url:
        document = Profile.model_validate(profile(point(4, 1.4))).model_dump(mode="json")
        assert httpx.post(f"{url}/v1/profiles:import", json=document, trust_env=False).status_code == 201
        for example in REQUEST_EXAMPLES.values():
            asked = httpx.post(f"{url}/v1/recommendations", json=example["value"], timeout=60, trust_env=False)
            assert asked.status_code == 200
        ran = subprocess.run(
            [COMMAND, "--config-file", CONFIG, "run", f"{url}/openapi.json", "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, timeout=600, env=os.environ | {"NO_PROXY": "*"},
        )  # fmt: skip
        operations = httpx.get(f"{url}/openapi.json", trust_env=False).json()["paths"].values()
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    tested = re.search(r"Tested: (\d+)", ran.stdout)
    assert tested is not None
    assert int(tested[1]) == sum(map(len, operations))
    cases = re.search(r"(\d+) generated, \1 passed", ran.stdout)
    assert cases is not None
    assert int(cases[1]) > 300


@pytest.fixture(scope="module")
def there(serve):
    """Of a service of its own."""
    with serve(Settings()) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/profiles", "GET, POST"), ("/v1/profiles/" + "0" * 32, "GET, DELETE"), ("/v1/profiles/jobs", "GET"),
        ("/v1/recommendations", "GET, POST"), ("/v1/recommendations/" + "0" * 32, "GET, PATCH, DELETE"),
    ],
)  # fmt: skip
def test_allow_lists_every_method_of_a_path(there, path, allowed):
    """Whichever routes they are; the list of jobs is no profile that could be deleted."""
    answer = there.options(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert there.delete("/v1/profiles/jobs").status_code == 405


@pytest.mark.parametrize("moment", ["0.5", "1730000000", "-1", "2026", "now"])
def test_a_bare_number_is_no_moment(there, moment):
    """Seconds since 1970 are not what anybody means who writes a number there."""
    answer = there.get("/v1/recommendations", params={"created_from": moment})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "query.created_from"
    assert "2026-11-01T00:00:00Z" in answer.json()["detail"]


@pytest.mark.parametrize("number", ["1", True, None, 1.5])
def test_a_number_in_a_profile_is_a_number(there, number):
    """No text that looks like one."""
    document = Profile.model_validate(profile(point(4, 1.4))).model_dump(mode="json")
    document["refused"] = [{"what": "a", "why": "b", "count": number}]
    answer = there.post("/v1/profiles:import", json=document)
    assert answer.status_code == 422
    assert any("refused" in error["field"] for error in answer.json()["errors"])
