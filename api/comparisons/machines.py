"""Do the two servers share a machine, a GPU? What can be known from outside, and what not, in one sentence.

Known: addresses that lead to one host; whether both run on a CPU, where inspection tells; the GPUs of this host, where
NVML shows them; and how much of a GPU each took (`gpu_memory_utilization` in /metrics): vLLM does not start where that
much is not free, so two that ask for more than one GPU has cannot both be on it, unless their caches were sized in
bytes. Not known: which GPU of a host a server runs on, and what is behind the address of a proxy.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import Literal

from profiler.metrics import Scrape
from profiler.metrics.gpu import find_gpus
from profiler.serving.inspection import ServerFacts

Order = Literal["together", "in_turn"]
Kind = Literal["one_cpu", "one_gpu", "one_machine", "several_gpus", "different_addresses"]


@dataclass(frozen=True)
class Place:
    """Where one server is, and what it says of what it runs on."""

    host: str  # as it was named
    ip: str
    is_cpu: bool | None
    gpu_share: float | None  # of each of its GPUs' memory; None where it is not told, or sized otherwise

    @classmethod
    def of(cls, host: str, ip: str, facts: ServerFacts, scrape: Scrape | None) -> Place:
        """From what the server says."""
        return cls(host, ip, facts.is_cpu, None if scrape is None else _gpu_share(scrape))


@dataclass(frozen=True)
class Sharing:
    """What is known, and the sentence that says it."""

    kind: Kind
    text: str


def sharing(baseline: Place, speculative: Place, *, order: Order) -> Sharing:
    """What both share. May ask this host's driver: not for the event loop."""
    here = _is_this_host(baseline.ip) and _is_this_host(speculative.ip)
    if not here and baseline.ip != speculative.ip:
        return Sharing(
            "different_addresses",
            f"The servers are at different addresses ({baseline.host} and {speculative.host}). Most likely they share "
            "neither machine nor GPU, but what is behind an address cannot be seen from here.",
        )
    machine = "this machine" if here else f"one machine ({baseline.host})"
    if baseline.is_cpu and speculative.is_cpu:
        return Sharing("one_cpu", f"Both servers run on the CPU of {machine} and share its cores{_known(order)}")
    gpus = find_gpus().names if here and "CUDA_VISIBLE_DEVICES" not in os.environ else ()
    if len(gpus) == 1 and not (baseline.is_cpu or speculative.is_cpu):
        return Sharing(
            "one_gpu", f"Both servers run on {machine}, which has one GPU ({gpus[0]}): they share it{_known(order)}"
        )
    shares = baseline.gpu_share, speculative.gpu_share
    if shares[0] is not None and shares[1] is not None and shares[0] + shares[1] > 1.0 and baseline.is_cpu is False:
        return Sharing(
            "several_gpus",
            f"Both servers run on {machine}, most likely on different GPUs: they take {shares[0]:.0%} and "
            f"{shares[1]:.0%} of a GPU's memory, which one GPU does not have.",
        )
    return Sharing(
        "one_machine",
        f"Both servers run on {machine}. Whether they share a GPU, servers do not tell{_unknown(order)}",
    )


def _known(order: Order) -> str:
    if order == "in_turn":
        return "; they answer one after the other, so that neither slows the other."
    return (
        ": each slows the other, so both are slower than alone and the speedup is that of this contest. "
        "Choose “One after the other” to see each alone."
    )


def _unknown(order: Order) -> str:
    if order == "in_turn":
        return "; they answer one after the other, so that it does not matter."
    return ": if they do, each slows the other. Choose “One after the other” to see each alone."


def _is_this_host(ip: str) -> bool:
    """Whether an address is one of this host's own: a socket can be bound to those alone, and nothing is sent."""
    if ipaddress.ip_address(ip).is_loopback:
        return True
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((ip, 0))
        return True
    return False


def _gpu_share(scrape: Scrape) -> float | None:
    for line in scrape.lines("cache_config_info"):
        if line.labels.get("kv_cache_memory_bytes", "None") == "None":
            with contextlib.suppress(ValueError):
                share = float(line.labels.get("gpu_memory_utilization", ""))
                return share if 0.0 < share <= 1.0 else None
    return None
