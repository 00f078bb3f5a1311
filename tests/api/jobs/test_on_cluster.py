"""Jobs that start servers run on the nodes of a real Ray cluster; where one is lost, neither a word nor a part is."""

from __future__ import annotations

import json
import sys

import pytest

from tests.api.jobs.conftest import (
    JOBS,
    ON_SQLITE,
    SERVE,
    attach_body,
    ended,
    launch_body,
    measured_once,
    open_body,
    processes_of,
    read_events,
    submit,
    wait_for_kept,
    wait_until,
)
from tests.ray_cluster import running_cluster

pytestmark = ON_SQLITE
SLOW = {"ttft_s": 0.05, "step_s": 0.004, "jitter_s": 0.05}
PATIENCE_S = 120.0  # a node's Python and Ray's worker start first


@pytest.fixture(scope="module")
def ray_cluster():
    """A head alone; tests add nodes."""
    with running_cluster() as started:
        yield started


@pytest.fixture
def on_cluster(ray_cluster, tmp_path, monkeypatch):
    """What an operator sets who has jobs run on the cluster; a model whose name marks its servers' processes."""
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")
    model = f"fake-{tmp_path.name}"
    return {
        "job_executor": "ray", "ray_address": ray_cluster.address, "launch_models": model,
        "launch_python": f"{sys.executable} {SERVE}", "launch_arguments": f"--knobs '{json.dumps(SLOW)}'",
    }  # fmt: skip


def phases(client, job):
    """What its events say of where it is."""
    return [event["data"]["text"] for event in read_events(client, job) if event["event"] == "phase"]


def test_a_job_runs_on_a_node_and_anew_where_that_is_lost(ray_cluster, service, start_worker, on_cluster):
    """Asking for a GPU that the cluster lacks is said; without, it measures, and a second node takes it over."""
    model = on_cluster["launch_models"]
    ray_cluster.add("alpha", cpus=2)
    with service(**on_cluster) as client:
        asking = start_worker(**on_cluster)
        refused = wait_until(client, submit(client, launch_body(model)), ended, PATIENCE_S)
        assert refused["state"] == "failed"
        assert "the Ray cluster has no GPU" in refused["problem"]["what"]
        assert "SPECWORTH_RAY_GPUS=0" in refused["problem"]["what"]
        asking.terminate()
        asking.wait()
        start_worker(**on_cluster, ray_gpus="0")
        job = submit(client, open_body(model))
        wait_until(client, job, measured_once, PATIENCE_S)
        ray_cluster.add("beta", cpus=2)
        ray_cluster.kill("alpha")
        found = wait_until(client, job, ended, PATIENCE_S)
        assert found["state"] == "finished", found
        assert client.get(f"/v1/profiles/{job}").json()["status"] == "complete"
        told = phases(client, job)
        assert any("its node was lost" in text for text in told)
        assert sum(text.startswith("on node ") for text in told) == 2
        assert "/tmp" not in json.dumps(read_events(client, job))
    assert processes_of(model) == []


def test_a_cancelled_job_ends_on_its_node_and_a_lost_cluster_leaves_the_worker(
    ray_cluster, service, start_worker, on_cluster, servers
):
    """Either way its part is kept; jobs on servers that run already need no cluster."""
    model = on_cluster["launch_models"]
    start_worker(**on_cluster, ray_gpus="0")
    with service(**on_cluster) as client:
        job = submit(client, open_body(model))
        wait_until(client, job, measured_once, PATIENCE_S)
        assert client.delete(f"{JOBS}/{job}").status_code == 202
        assert wait_until(client, job, ended, PATIENCE_S)["state"] == "cancelled"
        assert client.get(f"/v1/profiles/{job}").json()["status"] == "partial"
        assert processes_of(model) == []
        job = submit(client, open_body(model))
        wait_for_kept(client, job, PATIENCE_S)
        ray_cluster.kill_head()
        found = wait_until(client, job, ended, PATIENCE_S)
        assert (found["state"], found["profile_id"]) == ("failed", job)
        assert "the Ray cluster went away" in found["problem"]["what"]
        attached = submit(client, attach_body(*servers))
        assert wait_until(client, attached, ended, PATIENCE_S)["state"] == "finished"
