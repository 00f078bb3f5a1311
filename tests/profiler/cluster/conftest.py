"""A cluster of its own for these tests, a grid, and what stands in for an interpreter that has vLLM."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ray_cluster import LocalCluster, running_cluster

STUB = Path(__file__).with_name("stub_python.py")
GRID = """
shapes: shapes.yaml
settings: {max_model_len: 1000}
traffic: {core: [[1, 10, 10], [4, 10, 10]]}
engines:
  - {name: base, target: small, traffic: [core]}
  - {name: k2, target: small, traffic: [core], speculation: {method: ngram, num_speculative_tokens: 2}}
  - {name: k3, target: small, traffic: [core], speculation: {method: ngram, num_speculative_tokens: 3}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A head that holds nothing; tests add nodes, and lose them."""
    with running_cluster() as started:
        yield started


@pytest.fixture(scope="session")
def stub_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has vLLM, as far as a sweep can tell."""
    path = tmp_path_factory.mktemp("stub") / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {STUB} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Three engines of two cells."""
    (tmp_path / "shapes.yaml").write_text("small: {hidden_size: 8, vocab_size: 1000}\n")
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def wait_for_rows(rows: Path, process: subprocess.Popen[str], count: int = 1) -> None:
    """Until so many are there."""
    until = time.monotonic() + 120
    while not rows.exists() or rows.read_text().count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
