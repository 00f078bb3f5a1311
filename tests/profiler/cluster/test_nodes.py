"""An engine asks for its GPUs on one node; what no node holds is refused by name, GPUs of several kinds, too."""

import pytest

from profiler.cluster.connection import ClusterError
from profiler.cluster.nodes import Needs, check_cluster, fitting, gpus_of


def node(*, alive=True, **resources):
    return {"Alive": alive, "NodeID": "n", "Resources": {name.replace("__", ":"): n for name, n in resources.items()}}


H200 = {"accelerator_type__H200": 1.0}
A100 = {"accelerator_type__A100": 1.0}


def test_gpus_come_from_the_engines_parallel_sizes():
    """Their product; none given is one."""
    assert gpus_of({}) == 1
    assert gpus_of({"tensor_parallel_size": 4}) == 4
    assert gpus_of({"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 2}) == 8


def test_an_engine_fits_where_one_living_node_has_all():
    """Two nodes of two GPUs hold no engine of four; a dead node holds none."""
    nodes = [node(GPU=2, CPU=8), node(GPU=2, CPU=8), node(GPU=8, CPU=8, alive=False)]
    assert len(fitting(nodes, Needs(2, 2))) == 2
    assert not fitting(nodes, Needs(4, 2))
    check_cluster(nodes, {"small": Needs(2, 2)})


@pytest.mark.parametrize(
    ("nodes", "needs", "said"),
    [
        ([node(CPU=8)], Needs(1, 2), "has no GPU; expected 1 GPU on one node for engine big; got 1 node without"),
        ([node(CPU=8), node(CPU=8)], Needs(2, 2), "expected 2 GPUs on one node for engine big; got 2 nodes without"),
        ([node(CPU=8, GPU=2)], Needs(4, 2), "no node of the Ray cluster has the GPUs of engine big; expected 4"),
        ([node(CPU=1)], Needs(0, 2), "expected 0 GPUs and 2 CPUs on one node; got at most 0 and 1"),
        ([node(CPU=8, GPU=1, **H200)], Needs(1, 2, "A100"), "has no A100; expected one of H200; got A100"),
        ([node(CPU=8, GPU=1)], Needs(1, 2, "A100"), "expected a name that Ray gives a GPU of this cluster"),
        (
            [node(CPU=8, GPU=1, **H200), node(CPU=8, GPU=1, **A100)], Needs(1, 2),
            "GPUs of several kinds, .* expected --ray-accelerator with one of A100, H200",
        ),
    ],
)  # fmt: skip
def test_what_the_cluster_cannot_hold_is_refused(nodes, needs, said):
    """Before anything starts."""
    with pytest.raises(ClusterError, match=said):
        check_cluster(nodes, {"big": needs})


def test_a_named_kind_settles_it():
    """And is asked of Ray for the task."""
    nodes = [node(CPU=8, GPU=1, **H200), node(CPU=8, GPU=1, **A100)]
    needs = Needs(1, 2, "H200")
    check_cluster(nodes, {"base": needs})
    assert fitting(nodes, needs) == nodes[:1]
    assert needs.options() == {"num_gpus": 1, "num_cpus": 2, "accelerator_type": "H200"}


def test_cpus_of_several_kinds_of_gpu_nodes_are_no_trouble():
    """An engine without a GPU has no kind."""
    check_cluster([node(CPU=8, GPU=1, **H200), node(CPU=8, GPU=1, **A100)], {"base": Needs(0, 2)})
