"""Which nodes of the cluster can hold an engine, now and while it waits?

An engine asks for GPUs (the product of its parallel sizes, unless told otherwise; 0 on a cluster of CPUs) and CPU cores
on ONE node. Cells of one sweep belong on one kind of GPU, since the speedup is a ratio of two of them.

Refused: a cluster without GPUs, or without enough on one node, for an engine that asks for them; nodes with GPUs of
several kinds while none is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.cluster.connection import ClusterError

_KIND = "accelerator_type:"
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


@dataclass(frozen=True, slots=True)
class Needs:
    """What one engine asks of a node."""

    gpus: int
    cpus: int
    accelerator: str | None = None

    def resources(self) -> dict[str, float]:
        """As Ray counts them."""
        asked: dict[str, float] = {"GPU": self.gpus, "CPU": self.cpus}
        if self.accelerator is not None:
            asked[_KIND + self.accelerator] = 0.001  # what Ray's own option of that name asks for
        return {name: amount for name, amount in asked.items() if amount}

    def options(self) -> dict[str, Any]:
        """As a Ray task takes them."""
        kind = {} if self.accelerator is None else {"accelerator_type": self.accelerator}
        return {"num_gpus": self.gpus, "num_cpus": self.cpus, **kind}


def gpus_of(settings: Mapping[str, Any]) -> int:
    """GPUs that vLLM takes with these engine arguments."""
    gpus = 1
    for name in _PARALLEL:
        gpus *= int(settings.get(name) or 1)
    return gpus


def fitting(nodes: Iterable[Mapping[str, Any]], needs: Needs) -> list[Mapping[str, Any]]:
    """The nodes, as `ray.nodes()` has them, that live and could hold it if they were idle."""
    return [
        node for node in nodes
        if node["Alive"] and all(node["Resources"].get(name, 0) >= n for name, n in needs.resources().items())
    ]  # fmt: skip


def check_cluster(nodes: Sequence[Mapping[str, Any]], needed: Mapping[str, Needs]) -> None:
    """Refuse engines, by name, that no node of the cluster can hold. Raises ClusterError."""
    for name, needs in needed.items():
        if not fitting(nodes, needs):
            raise _refusal(nodes, name, needs)
    kinds = {kind for needs in needed.values() if needs.gpus for node in fitting(nodes, needs) for kind in _kinds(node)}
    if len(kinds) > 1 and any(needs.gpus and needs.accelerator is None for needs in needed.values()):
        raise ClusterError(
            "the cluster has GPUs of several kinds, and a speedup is a ratio of two cells on one kind",
            expected="--ray-accelerator with one of " + ", ".join(sorted(kinds)), got="none",
        )  # fmt: skip


def _refusal(nodes: Sequence[Mapping[str, Any]], name: str, needs: Needs) -> ClusterError:
    alive = [node for node in nodes if node["Alive"]]
    if needs.accelerator is not None and not any(needs.accelerator in _kinds(node) for node in alive):
        kinds = sorted({kind for node in alive for kind in _kinds(node)})
        return ClusterError(
            f"--ray-accelerator: the cluster has no {needs.accelerator}",
            expected="one of " + ", ".join(kinds) if kinds else "a name that Ray gives a GPU of this cluster",
            got=needs.accelerator,
        )
    most = {kind: max((node["Resources"].get(kind, 0) for node in alive), default=0) for kind in ("GPU", "CPU")}
    if needs.gpus and not most["GPU"]:
        return ClusterError(
            "the Ray cluster has no GPU", expected=f"{_counted(needs.gpus, 'GPU')} on one node for engine {name}",
            got=f"{_counted(len(alive), 'node')} without",
            remedy="add nodes that have GPUs, or measure on CPUs: --ray-gpus 0 (SPECWORTH_RAY_GPUS=0)",
        )  # fmt: skip
    if needs.gpus > most["GPU"]:
        return ClusterError(
            f"no node of the Ray cluster has the GPUs of engine {name}", expected=f"{needs.gpus} on one node",
            got=f"at most {most['GPU']:g}", remedy="leave the engine out with --only, or add a larger node",
        )  # fmt: skip
    return ClusterError(
        f"no node of the Ray cluster can hold engine {name}",
        expected=f"{_counted(needs.gpus, 'GPU')} and {_counted(needs.cpus, 'CPU')} on one node",
        got=f"at most {most['GPU']:g} and {most['CPU']:g}", remedy="ask for fewer with --ray-gpus and --ray-cpus",
    )  # fmt: skip


def _kinds(node: Mapping[str, Any]) -> list[str]:
    return [name.removeprefix(_KIND) for name in node["Resources"] if name.startswith(_KIND)]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
