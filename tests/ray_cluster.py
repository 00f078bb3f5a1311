"""A Ray cluster on loopback for the tests: a head and named nodes that come and go, in processes of their own.

    with running_cluster() as cluster:
        cluster.add("alpha", cpus=2, gpus=1)
        cluster.kill("alpha")

Ray's own test helper (ray.cluster_utils) starts the nodes, in a child that this module talks to by lines: a driver and
the head of its cluster would not live well in one process, least of all when the head is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STORE_BYTES = 80_000_000  # of each node; Ray's least is 75 MiB


class LocalCluster:
    """What the tests tell it."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.address: str = self._answer()["address"]

    def add(self, name: str, *, cpus: int = 2, gpus: int = 0, **resources: float) -> None:
        """One node more; waits until it is there."""
        self._tell("add", name=name, cpus=cpus, gpus=gpus, resources=resources)

    def kill(self, name: str) -> None:
        """A node, as a power cut would."""
        self._tell("kill", name=name)

    def kill_head(self) -> None:
        """The cluster's state, and with it the cluster."""
        self._tell("kill_head")

    def claim_version(self, ray: str, python: str) -> None:
        """Have the cluster say that it was started by these versions."""
        self._tell("claim_version", ray=ray, python=python)

    def _tell(self, what: str, **details: Any) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"what": what, **details}) + "\n")
        self._child.stdin.flush()
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                assert "error" not in answer, answer
                return answer
        raise AssertionError("the cluster's process ended")


@contextlib.contextmanager
def running_cluster() -> Iterator[LocalCluster]:
    """A head without resources; nothing of the cluster is left after the block."""
    folder = tempfile.mkdtemp(prefix="sw-ray-", dir="/tmp")  # short: Ray's sockets lie below it
    (Path(folder) / "ray").mkdir()  # where Ray notes the latest cluster of TMPDIR
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    child = subprocess.Popen(
        [sys.executable, __file__, folder], text=True,
        env=environment | {"RAY_USAGE_STATS_ENABLED": "0", "TMPDIR": folder},  # a killed node leaves its tasks' folders
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(Path(folder) / "told").open("w"), start_new_session=True,
    )  # fmt: skip
    try:
        yield LocalCluster(child)
    finally:
        child.kill()
        child.wait()
        for pid in _processes(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _processes(folder: str) -> list[int]:
    """Those that name this cluster's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.encode() in (path / "cmdline").read_bytes() or folder.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
    return [pid for pid in found if pid != os.getpid()]


def main(folder: str) -> None:
    """The child: does what it is told, and answers each line with one."""
    from ray.cluster_utils import Cluster

    def answer(**said: Any) -> None:
        print(json.dumps(said), flush=True)

    common: dict[str, Any] = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 0, "temp_dir": folder})
    nodes: dict[str, Any] = {}
    answer(address=cluster.address)
    for line in sys.stdin:
        told = json.loads(line)
        try:
            if told["what"] == "add":
                nodes[told["name"]] = cluster.add_node(
                    **common, num_cpus=told["cpus"], num_gpus=told["gpus"], resources=told["resources"] or None,
                    node_name=told["name"],
                )  # fmt: skip
            elif told["what"] == "kill":
                cluster.remove_node(nodes.pop(told["name"]), allow_graceful=False)
            elif told["what"] == "kill_head":
                cluster.head_node.kill_gcs_server(check_alive=False)
            elif told["what"] == "claim_version":
                _claim_version(cluster.address, told["ray"], told["python"])
        except Exception as error:
            answer(error=repr(error))
        else:
            answer(done=told["what"])


def _claim_version(address: str, ray: str, python: str) -> None:
    from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
    from ray._raylet import GcsClient

    client = GcsClient(address=address)
    known = json.loads(client.internal_kv_get(CLUSTER_METADATA_KEY, b"cluster"))
    claimed = json.dumps(known | {"ray_version": ray, "python_version": python}).encode()
    client.internal_kv_put(CLUSTER_METADATA_KEY, claimed, True, b"cluster")


if __name__ == "__main__":
    main(sys.argv[1])
