"""Which GPUs does a worker hold, by names that are the same for whoever holds one of them?

CUDA_VISIBLE_DEVICES names GPUs by number or by (the beginning of) a UUID, and two workers may name one GPU differently;
so numbers are told as UUIDs where the NVIDIA driver says which is which (/proc/driver/nvidia). A UUID is one in the
world, so that workers in several containers of a host meet in it, too. CUDA counts in the order of the PCI bus where
CUDA_DEVICE_ORDER says so or all GPUs are alike; where neither is so, a number could be any of them, and is refused.
Without the driver's word (no GPU, another vendor) a GPU is its host and its number.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import InputError

_DRIVER = Path("/proc/driver/nvidia/gpus")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


@dataclass(frozen=True)
class _Gpu:
    model: str
    uuid: str


def own_devices(
    environment: Mapping[str, str] = os.environ, *, host: str | None = None, driver: Path = _DRIVER
) -> frozenset[str]:
    """The GPUs that this process sees; one without GPUs counts its processor as number 0. Raises InputError."""
    host = host or socket.gethostname()
    named = [word.strip() for word in environment.get(VARIABLE, "").split(",") if word.strip()]
    known = _told_by(driver)
    if not named:
        numbers = sorted(path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")) or ["0"]
        return frozenset(gpu.uuid for gpu in known) or frozenset(_numbered(host, number) for number in numbers)
    return frozenset(_name(word, known, environment, host) for word in named)


def _name(word: str, known: list[_Gpu], environment: Mapping[str, str], host: str) -> str:
    if not known:
        return _numbered(host, word)
    if word.isdecimal() and int(word) < len(known):
        if len({gpu.model for gpu in known}) > 1 and environment.get(ORDER) != "PCI_BUS_ID":
            raise InputError(
                f"{VARIABLE} names a GPU by its number, and this host has GPUs of several kinds",
                expected=f"UUIDs (nvidia-smi -L), or {ORDER}=PCI_BUS_ID beside it", got=f"{VARIABLE}={word}",
                field=VARIABLE,
            )  # fmt: skip
        return known[int(word)].uuid
    meant = [gpu.uuid for gpu in known if gpu.uuid.startswith(word)] if word.startswith("GPU-") else []
    return meant[0] if len(meant) == 1 else word[:300] if word.startswith(("MIG-", "GPU-")) else _numbered(host, word)


def _numbered(host: str, number: str) -> str:
    return f"{host} gpu {number}"[:300]


def _told_by(driver: Path) -> list[_Gpu]:
    """The GPUs of this host in the order of the PCI bus; none where the driver does not say who they are."""
    found = []
    for path in sorted(driver.glob("*/information")):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        uuid = told.get("GPU UUID", "").lower().replace("gpu-", "GPU-")
        if not _UUID.fullmatch(uuid):  # question marks until the driver has initialised it
            return []
        found.append(_Gpu(told.get("Model", ""), uuid))
    return found
