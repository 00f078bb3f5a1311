"""`specworth sweep` refuses what cannot be measured before anything starts; real sweeps are in tests/real_vllm."""

import os
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
    ],
)
def test_what_cannot_be_measured_is_one_line(in_process, arguments, said):
    """An interpreter without vLLM, a wrong time, an engine that the grid lacks."""
    done = in_process("sweep", GRID, "--out", "out", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr
    assert os.listdir() == []
