"""Whether two servers share a GPU is said as far as it can be known, and no further."""

import contextlib
import socket

import pytest

from api.comparisons import machines
from api.comparisons.machines import Place, sharing
from profiler.metrics import read_scrape
from profiler.metrics.gpu import GpuHost
from profiler.serving.inspection import ServerFacts

FACTS = ServerFacts("", "m", None, None, None, None, True, None, None, is_cpu=False)


def place(ip="127.0.0.1", *, host=None, is_cpu=False, share=0.4):
    return Place(host or ip, ip, is_cpu, share)


@pytest.fixture
def gpus(monkeypatch):
    """Has this host show these GPUs: tests have none."""

    def show(*names):
        monkeypatch.setattr(machines, "find_gpus", lambda: GpuHost(names))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return show


def test_two_cpu_servers_of_one_machine_share_its_cores():
    """Known for certain; asked one after the other, neither slows the other."""
    both = place(is_cpu=True), place(is_cpu=True)
    assert sharing(*both, order="together").kind == "one_cpu"
    assert "each slows the other" in sharing(*both, order="together").text
    assert "neither slows the other" in sharing(*both, order="in_turn").text


def test_a_host_with_one_gpu_has_it_shared(gpus):
    """And its name is told."""
    gpus("NVIDIA H200")
    found = sharing(place(), place(), order="together")
    assert (found.kind, "one GPU (NVIDIA H200): they share it" in found.text) == ("one_gpu", True)


def test_one_gpu_that_is_shown_of_several_proves_nothing(gpus, monkeypatch):
    """Where CUDA_VISIBLE_DEVICES hides the others, the servers may be on those."""
    gpus("NVIDIA H200")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert sharing(place(), place(), order="together").kind == "one_machine"


@pytest.mark.parametrize(
    ("shares", "kind"),
    [((0.92, 0.92), "several_gpus"), ((0.45, 0.45), "one_machine"), ((0.92, None), "one_machine")],
)
def test_more_memory_than_one_gpu_has_means_two(gpus, shares, kind):
    """Each server takes its share when it starts, so two that exceed one GPU are on two; less proves nothing."""
    gpus("NVIDIA H200", "NVIDIA H200")
    found = sharing(*(place(share=share) for share in shares), order="together")
    assert found.kind == kind
    assert kind != "one_machine" or "servers do not tell" in found.text


def test_different_addresses_are_said_to_be_just_that():
    """What is behind an address cannot be seen."""
    found = sharing(place("10.0.0.7"), place("10.0.0.8", host="inference"), order="together")
    assert found.kind == "different_addresses"
    assert "10.0.0.7 and inference" in found.text
    assert "cannot be seen from here" in found.text


def test_one_address_elsewhere_is_one_machine():
    """By the address that was connected to, whatever the names."""
    found = sharing(place("10.0.0.7", host="a"), place("10.0.0.7", host="b"), order="in_turn")
    assert found.kind == "one_machine"
    assert "one machine (a)" in found.text


def test_this_hosts_other_address_is_this_host():
    """Loopback and the address of an interface lead to one machine."""
    own = "127.0.0.2"  # where there is no interface but loopback
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: asks which address would be used
        own = probe.getsockname()[0]
    assert sharing(place(), place(own, is_cpu=None), order="together").kind == "one_machine"


@pytest.mark.parametrize(
    ("labels", "share"),
    [
        ('gpu_memory_utilization="0.92",kv_cache_memory_bytes="None"', 0.92),
        ('gpu_memory_utilization="0.92"', 0.92),
        ('gpu_memory_utilization="0.92",kv_cache_memory_bytes="300000000"', None),
        ('gpu_memory_utilization="much"', None),
        ('block_size="16"', None),
    ],
)
def test_the_share_of_a_gpu_is_read_where_it_sized_the_cache(labels, share):
    """A cache sized in bytes takes what it takes."""
    scrape = read_scrape(f"vllm:cache_config_info{{{labels}}} 1.0\n")
    assert Place.of("h", "10.0.0.7", FACTS, scrape).gpu_share == share
