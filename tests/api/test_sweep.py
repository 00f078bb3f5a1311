"""`specworth sweep` refuses what cannot be measured before anything starts; real sweeps are in tests/real_vllm."""

import os
import socket
import sys
from pathlib import Path

import pytest

GRID = Path(__file__).parents[2] / "data" / "grids" / "cost-1.yaml"


def test_a_plan_names_engines_and_cells_and_starts_nothing(specworth, tmp_path):
    """--plan needs no vLLM: it prints each engine with its cells."""
    done = specworth("sweep", GRID, "--out", "out", "--plan")
    assert done.returncode == 0, done.stderr
    assert " cells: " in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "own interpreter has no vLLM"),
        (("--python", "no-such-python"), "is no program"),
        (("--python", sys.executable), "has no vLLM"),
        (("--time-limit", "tomorrow", "--plan"), "--time-limit: no such time"),
        (("--only", "nothing", "--plan"), "--only: the grid has no such engine"),
        (("--executor", "dask"), "--executor: no such executor; expected local or ray; got 'dask'"),
        (("--ray-gpus", "1"), "--ray-gpus is for a Ray cluster; add --executor ray"),
        (("--executor", "ray", "--ray-address", "ray://10.0.0.5:10001"), "Ray Client"),
        (("--executor", "ray", "--ray-address", "10.0.0.5"), "is no address of a cluster's head"),
    ],
)
def test_what_cannot_be_measured_is_one_line(in_process, arguments, said):
    """An interpreter without vLLM, a wrong time, an engine that the grid lacks, a cluster that is none."""
    done = in_process("sweep", GRID, "--out", "out", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr
    assert os.listdir() == []


@pytest.mark.parametrize(
    "command", [("sweep", GRID, "--out", "out"), ("worker", "--database", "sqlite:///jobs.sqlite3")]
)
def test_a_cluster_without_ray_here_is_one_line(in_process, monkeypatch, command):
    """The extra is named, by the sweep and by the worker, before either does anything."""
    monkeypatch.setitem(sys.modules, "ray", None)
    done = in_process(*command, "--executor", "ray", "--ray-address", "10.0.0.5:6379")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Ray is not installed here" in done.stderr
    assert "pip install 'specworth[ray]'" in done.stderr
    assert os.listdir() == []


def test_an_address_where_nobody_listens_is_one_line(specworth, tmp_path):
    """And leaves no folder behind."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = specworth("sweep", GRID, "--out", "out", "--executor", "ray", "--ray-address", address)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        f"no Ray cluster at {address}; got connection refused; "
        "start one there (ray start --head), or look at the address and the firewall"
    ]
    assert not list(tmp_path.iterdir())
