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
