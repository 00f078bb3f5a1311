"""GPUs are told by NVML where it is there, and unknown otherwise."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from profiler.metrics.gpu import GpuHost, find_gpus


class NvmlError(Exception):
    """As the bindings raise."""


def bindings(*, devices: int = 4, fails: bool = False) -> ModuleType:
    """NVIDIA's bindings as a host with these GPUs would answer; no GPU is needed to read names off it."""
    module = ModuleType("pynvml")

    def init() -> None:
        if fails:
            raise NvmlError("Driver Not Loaded")

    module.NVMLError = NvmlError
    module.nvmlInit = init
    module.nvmlDeviceGetCount = lambda: devices
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetName = lambda handle: b"NVIDIA H200" if handle % 2 else "NVIDIA H200"
    module.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=150 * 2**30, used=(handle + 1) * 2**30)
    module.nvmlSystemGetDriverVersion = lambda: "580.1"
    return module


def test_without_bindings_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is optional."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert find_gpus() == GpuHost()


def test_without_a_driver_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bindings on a host without GPU raise; that is an answer, too."""
    monkeypatch.setitem(sys.modules, "pynvml", bindings(fails=True))
    assert find_gpus() == GpuHost()


@pytest.mark.parametrize(("visible", "used_gib"), [("", 10), ("2", 3), ("0,1", 3), ("GPU-3a,GPU-4b", 10), ("9", 10)])
def test_visible_gpus_count(monkeypatch: pytest.MonkeyPatch, visible: str, used_gib: int) -> None:
    """CUDA_VISIBLE_DEVICES by index narrows; by UUID, or beyond what is there, it does not."""
    monkeypatch.setitem(sys.modules, "pynvml", bindings())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = find_gpus()
    assert set(found.names) == {"NVIDIA H200"}
    assert (found.memory_bytes, found.driver) == (150 * 2**30, "580.1")
    assert found.read_used_bytes is not None
    assert found.read_used_bytes() == used_gib * 2**30
