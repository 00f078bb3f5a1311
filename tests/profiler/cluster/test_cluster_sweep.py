"""A sweep on a real Ray cluster gives the rows of one alone, whatever happens to the nodes; wrong input is one line.

The tests share a cluster and follow each other: its nodes come and go as in a long life.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import ray

from profiler.cluster.connection import ClusterError, connected
from profiler.sweep.grid import read_grid
from profiler.sweep.rows import read_rows
from tests.profiler.cluster.conftest import wait_for_rows
from tests.profiler.test_sweep_process import gone

SPECWORTH = Path(sys.executable).with_name("specworth")
# Ray waits so long for a head that was lost, before it ends the process; a minute unless told otherwise.
LOST = {"RAY_gcs_rpc_server_reconnect_timeout_s": "2"}


@pytest.fixture
def sweep(cluster, grid, stub_python, tmp_path):
    """Starts `specworth sweep` of the grid on the cluster."""
    started = []

    def start(*more, executor="ray", python=stub_python):
        where = ["--executor", "ray", "--ray-address", cluster.address] if executor == "ray" else []
        command = [SPECWORTH, "sweep", grid, "--out", tmp_path / "out", *where, "--python", python, *more]
        process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | LOST, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.communicate()


def keys(grid):
    """Every cell of the grid, once."""
    return Counter(engine.key(point) for engine in read_grid(grid).engines for point in engine.points)


def measured(tmp_path):
    """The cells that have a row, as often as they have one."""
    return Counter(row["key"] for row in read_rows([tmp_path / "out" / "rows.jsonl"]))


def refused(process, *said):
    """The one line that it ends with, having measured nothing."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2, out + err
    assert out == ""
    (line,) = err.strip().splitlines()
    for part in said:
        assert part in line, line


def test_a_cluster_without_a_gpu_is_refused(sweep, tmp_path):
    """An engine asks for a GPU unless told otherwise; the line says how to do without."""
    refused(sweep(), "has no GPU", "1 GPU on one node for engine base", "1 node without", "--ray-gpus 0")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("version", "python", "said"),
    [
        ("2.9.3", platform.python_version(), ("is too old", "2.55 or newer", "got Ray 2.9.3")),
        ("2.59.0", platform.python_version(), ("of another version", f"expected Ray {ray.__version__}", "ray==2.59.0")),
        (ray.__version__, "3.10.2", ("of another version", "under Python 3.10.2")),
    ],
)
def test_a_cluster_of_another_version_is_refused(cluster, version, python, said):
    """Ray does not work across versions; the line says which are where."""
    cluster.claim_version(version, python)
    try:
        with pytest.raises(ClusterError) as told, connected(cluster.address, give_up=pytest.fail):
            pass
    finally:
        cluster.claim_version(ray.__version__, platform.python_version())
    assert all(part in told.value.line() for part in said), told.value.line()


def test_nodes_without_vllm_are_refused(cluster, sweep):
    """--python is looked for where engines would run, before any does."""
    cluster.add("alpha", gpus=1)
    refused(sweep("--python", "/no/such/python"), "cannot be run on 1 of 1 nodes", "no program /no/such/python")


def test_a_node_killed_midway_costs_no_cell_and_repeats_none(cluster, sweep, grid, tmp_path):
    """Two nodes, one lost after the first row: all cells of the grid, each once, as one run alone has them."""
    cluster.add("beta", gpus=1)
    process = sweep()
    wait_for_rows(tmp_path / "out" / "rows.jsonl", process)
    cluster.kill("alpha")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    assert measured(tmp_path) == keys(grid)
    assert "its node was lost" in out
    assert err == ""
    rows = read_rows([tmp_path / "out" / "rows.jsonl"])
    assert {row["seen"] for row in rows} == {"0"}  # the GPU that Ray gave each engine
    assert {row["engine_version"] for row in rows} == {"stub"}


def test_a_stopped_sweep_leaves_nothing_running_and_keeps_its_rows(sweep, tmp_path):
    """Ctrl-C ends the engines on the nodes; what arrived is kept and said."""
    process = sweep()
    wait_for_rows(tmp_path / "out" / "rows.jsonl", process)
    engines = running_stubs()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "go on with --resume" in err
    assert engines
    assert all(gone(pid) for pid in engines)


def test_engines_that_no_node_can_hold_any_more_are_given_up(cluster, grid, stub_python, tmp_path):
    """The last node is lost: what was measured is kept, and what is left is said."""
    command = [sys.executable, "-m", "profiler.cluster.sweep", grid, "--out", tmp_path / "out", "--no-node", "1"]
    command += ["--ray-address", cluster.address, "--python", stub_python, "--scratch", tmp_path]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_rows(tmp_path / "out" / "rows.jsonl", process)
    cluster.kill("beta")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "no node is left that could hold it" in out
    assert "cells are left: go on with --resume" in out
    assert 1 <= len(measured(tmp_path)) < len(keys(grid))


def test_a_cluster_gone_halfway_is_said_and_the_rest_measured_alone(cluster, sweep, grid, tmp_path):
    """Its head is lost: one line says what is kept; `--resume` on this host measures the other cells."""
    cluster.add("gamma", gpus=1)
    process = sweep()
    wait_for_rows(tmp_path / "out" / "rows.jsonl", process)
    cluster.kill_head()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    (line,) = err.strip().splitlines()
    assert f"the Ray cluster at {cluster.address} went away" in line
    kept = measured(tmp_path)
    assert f"{kept.total()} cell" in line
    assert "--resume" in line
    assert "GCS" in (tmp_path / "out" / "ray.log").read_text()
    assert kept.total() < keys(grid).total()
    rest = sweep("--resume", executor="local")
    out, err = rest.communicate(timeout=120)
    assert rest.returncode == 0, out + err
    assert measured(tmp_path) == keys(grid)


def running_stubs():
    """Processes of stand-in engines, whoever started them."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"stub_python.py" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found
