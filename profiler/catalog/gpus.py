"""What can this accelerator do: memory, bandwidth and dense rates, from the catalog or from a user's own numbers.

The numbers are datasheets' (dense, converted where a datasheet prints the sparse rate) and, for memory, what a driver
was seen to show. A name that the catalog lacks is refused, and so are numbers that no accelerator has.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from profiler.catalog.names import match_key, unknown_name
from profiler.deployment import Gpu
from profiler.errors import DeploymentError, UnknownNameError

GIB = 2**30

# Ranges outside of which a number is a slip of unit, not an accelerator: from below a T4 to several times a B300.
_PLAUSIBLE = {
    "memory_gib": (1.0, 2048.0),
    "bandwidth_gb_per_s": (50.0, 100_000.0),
    "bf16_tflops": (1.0, 50_000.0),
    "fp8_tflops": (1.0, 100_000.0),
}


@dataclass(frozen=True, slots=True)
class GpuEntry:
    """One accelerator of the catalog, with where its numbers come from."""

    gpu: Gpu
    aliases: tuple[str, ...]
    memory_basis: Literal["measured", "reported", "nominal"]  # of the memory size: see the head of gpus.yaml
    source: str
    date: str  # of the source, year and month


@functools.lru_cache(maxsize=1)
def _catalog() -> dict[str, Any]:
    text = Path(__file__).with_name("gpus.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded


@functools.lru_cache(maxsize=1)
def gpus() -> tuple[GpuEntry, ...]:
    """Every accelerator that the catalog holds, in its order."""
    return tuple(_entry(fields) for fields in _catalog()["gpus"])


def _entry(fields: dict[str, Any]) -> GpuEntry:
    gpu = Gpu(
        name=fields["name"],
        memory_bytes=round(fields["memory_gib"] * GIB),
        bandwidth_bytes_per_s=fields["bandwidth_bytes_per_s"],
        bf16_flops_per_s=fields["bf16_flops_per_s"],
        fp8_flops_per_s=fields["fp8_flops_per_s"],
        interconnect_bytes_per_s=fields["interconnect_bytes_per_s"],
    )
    return GpuEntry(
        gpu=gpu,
        aliases=tuple(fields["aliases"]),
        memory_basis=fields["memory_basis"],
        source=fields["source"],
        date=str(fields["date"]),
    )


_VENDORS = ("nvidia", "amd", "geforce", "instinct", "tesla")  # words that drivers put before a product's name


def _key(name: str) -> str:
    key = match_key(name)
    for word in _VENDORS:
        key = key.removeprefix(word)
    return key


@functools.lru_cache(maxsize=1)
def _by_key() -> dict[str, Gpu]:
    found: dict[str, Gpu] = {}
    for entry in gpus():
        for name in (entry.gpu.name, *entry.aliases):
            found[_key(name)] = entry.gpu
    return found


def find_gpu(name: str, *, field: str = "deployment.gpu") -> Gpu:
    """The accelerator of that name or alias, whatever its case and separators.

    Raises UnknownNameError with the nearest known names, or with the variants of a name that could mean several.
    """
    gpu = _by_key().get(_key(name))
    if gpu is not None:
        return gpu
    for ambiguous, variants in _catalog()["ambiguous"].items():
        if _key(ambiguous) == _key(name):
            raise UnknownNameError(
                f"GPU {name!r} comes in several sizes",
                expected="one of " + ", ".join(variants),
                got=repr(name),
                field=field,
            )
    raise unknown_name(
        "GPU",
        name,
        [entry.gpu.name for entry in gpus()],
        field=field,
        remedy="`specworth catalog gpus` (GET /v1/catalog/gpus) lists all; for another give an object with name, "
        "memory_gib, bandwidth_gb_per_s and bf16_tflops",
    )


def gpu_from_numbers(
    *,
    name: str,
    memory_gib: float,
    bandwidth_gb_per_s: float,
    bf16_tflops: float,
    fp8_tflops: float | None = None,
    field: str = "deployment.gpu",
) -> Gpu:
    """An accelerator of the user's own: memory in GiB, bandwidth in GB/s (10^9), dense rates in TFLOP/s (10^12).

    Raises DeploymentError, naming the number, where it is no number or one that no accelerator has.
    """
    given = {"memory_gib": memory_gib, "bandwidth_gb_per_s": bandwidth_gb_per_s, "bf16_tflops": bf16_tflops}
    if fp8_tflops is not None:
        given["fp8_tflops"] = fp8_tflops
    for key, value in given.items():
        low, high = _PLAUSIBLE[key]
        if not (isinstance(value, int | float) and math.isfinite(value) and low <= value <= high):
            raise DeploymentError(
                f"The GPU {name!r} cannot have this {key}",
                expected=f"a number from {low:g} to {high:g}",
                got=repr(value),
                field=f"{field}.{key}",
            )
    return Gpu(
        name=name,
        memory_bytes=round(memory_gib * GIB),
        bandwidth_bytes_per_s=bandwidth_gb_per_s * 1e9,
        bf16_flops_per_s=bf16_tflops * 1e12,
        fp8_flops_per_s=None if fp8_tflops is None else fp8_tflops * 1e12,
    )
