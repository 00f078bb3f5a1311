"""What do the GPUs of this host say: their names, the driver, and how much of their memory is in use?

Read by NVML where NVIDIA's bindings (`nvidia-ml-py`, the extra `nvml`) and a driver are there; otherwise nothing is
known, which is no error. Memory in use is the driver's count over all processes, so it is that of one server only
while no other runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuHost:
    """The visible GPUs of this host; empty names where there are none, or none that can be asked."""

    names: tuple[str, ...] = ()
    memory_bytes: int | None = None  # of one GPU
    driver: str | None = None
    read_used_bytes: Callable[[], int | None] | None = None  # summed over the visible GPUs


def find_gpus() -> GpuHost:
    """Ask NVML once."""
    try:
        import pynvml
    except ImportError:
        return GpuHost()
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in _visible(pynvml.nvmlDeviceGetCount())]
        names = tuple(_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
        total = int(pynvml.nvmlDeviceGetMemoryInfo(handles[0]).total) if handles else None
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return GpuHost()

    def used() -> int | None:
        try:
            return sum(int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in handles)
        except pynvml.NVMLError:
            return None

    return GpuHost(names, total, driver, used if handles else None)


def _visible(count: int) -> list[int]:
    """Indices in CUDA_VISIBLE_DEVICES; all where it names none or names them otherwise (by UUID)."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    found = [int(word) for word in named if word.strip().isdecimal() and int(word) < count]
    return found or list(range(count))


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
