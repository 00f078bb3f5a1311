"""A profile job on real servers: asked for over HTTP, measured by a worker of its own, kept as evidence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

from api.settings import Settings
from tests.api.conftest import serving
from tests.real_vllm.conftest import K

THINGS = ("kettle", "pillow", "carpet", "spoon", "shelf", "curtain", "fork", "bucket", "broom", "plate", "cup", "rope")


def test_a_job_measures_real_servers(baseline_server, ngram_server, tmp_path: Path) -> None:
    """It ends by itself, with real counts of acceptance and equal texts, and its profile is found by its id."""
    url = f"sqlite:///{tmp_path / 'history.sqlite3'}"
    prompts = [
        {"prompt": text, "max_tokens": 16, "temperature": 0}
        for thing in THINGS
        for text in (f"Copy this four times: the {thing} is red, the {thing} is old.", f"Tell a story of a {thing}.")
    ]
    body = {
        "prompts": prompts,
        "target": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "speculative_config": {"method": "ngram", "num_speculative_tokens": K},
        "attach": {"baseline_url": baseline_server.url, "speculative_url": ngram_server.url},
        "traffic": {"concurrency": 4},
        "policy": {"confidence": 0.9999},
        "budget_s": 120,
        "look_around": False,
    }
    environment = os.environ | {"SPECWORTH_DATABASE_URL": url}
    worker = subprocess.Popen([Path(sys.executable).with_name("specworth"), "worker"], env=environment)
    try:
        with serving(Settings(database_url=url)) as address, httpx.Client(base_url=address, trust_env=False) as client:
            posted = client.post("/v1/profiles", json=body)
            assert posted.status_code == 202, posted.text
            until = time.monotonic() + 300
            while (job := client.get(posted.headers["location"]).json())["state"] in ("queued", "running"):
                assert time.monotonic() < until, job
                time.sleep(0.5)
            assert job["state"] == "finished", job
            document = client.get(f"/v1/profiles/{job['profile_id']}").json()["document"]
    finally:
        worker.terminate()
        assert worker.wait(timeout=30) == 0
    assert document["status"] == "complete"
    assert document["environment"]["platform"] == "cpu"
    assert document["acceptance"]["drafts"] > 0
    assert document["points"][0]["identical_share"] == 1.0
    assert document["points"][0]["pairs"] >= 16
