"""The catalog of accelerators, and accelerators of the user's own."""

import math
import re

import pytest

from profiler.catalog import find_gpu, gpu_from_numbers, gpus
from profiler.errors import DeploymentError, UnknownNameError

PROMISED = ["T4", "A10G", "L4", "L40S", "RTX 4090", "RTX PRO 6000 Blackwell", "A100 40GB", "A100 80GB", "H100 PCIe",
            "H100 SXM", "H200", "B200", "GB200", "MI300X"]  # fmt: skip

# Multiprocessors x clock in GHz x dense bf16 FLOPs per multiprocessor and clock, of the vendors' architecture papers:
# the product must give the rate, so that a sparse rate cannot slip in.
DENSE_BF16 = [
    ("A100 80GB", 108, 1.410, 2048),
    ("H100 SXM", 132, 1.830, 4096),
    ("H200", 132, 1.830, 4096),
    ("L40S", 142, 2.520, 1024),
    ("RTX 4090", 128, 2.520, 512),
    ("RTX 5090", 170, 2.407, 512),
    ("RTX PRO 6000 Blackwell", 188, 2.617, 1024),
    ("RTX PRO 6000 Blackwell Max-Q", 188, 2.280, 1024),
    ("T4", 40, 1.590, 1024),
    ("MI300X", 304, 2.100, 2048),
]


def test_promised_accelerators():
    """At least 15 accelerators, among them every one that is promised."""
    assert len(gpus()) >= 15
    for name in PROMISED:
        assert find_gpu(name)


@pytest.mark.parametrize("entry", gpus(), ids=lambda entry: entry.gpu.name)
def test_entries(entry):
    """Every entry has source and date, plausible SI numbers, and fp8 at twice bf16 where the chip has it."""
    gpu = entry.gpu
    assert entry.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d", entry.date)
    assert entry.memory_basis in ("measured", "reported", "nominal")
    assert 10 * 2**30 < gpu.memory_bytes < 300 * 2**30
    assert 2e11 < gpu.bandwidth_bytes_per_s < 1e13
    assert 5e13 < gpu.bf16_flops_per_s < 5e15
    assert gpu.interconnect_bytes_per_s < gpu.bandwidth_bytes_per_s
    if gpu.fp8_flops_per_s is not None:
        assert gpu.fp8_flops_per_s == pytest.approx(2 * gpu.bf16_flops_per_s, rel=0.02)


@pytest.mark.parametrize(("name", "units", "clock_ghz", "flops_per_clock"), DENSE_BF16)
def test_rates_are_dense(name, units, clock_ghz, flops_per_clock):
    """The bf16 rate is the dense one that units and clock give, not the sparse one of the datasheet."""
    assert find_gpu(name).bf16_flops_per_s == pytest.approx(units * clock_ghz * 1e9 * flops_per_clock, rel=0.02)


def test_measured_memory():
    """The H200 shows the 139.80 GiB that its driver reported here."""
    assert find_gpu("H200").memory_bytes / 2**30 == pytest.approx(139.80, abs=0.005)


@pytest.mark.parametrize("name", ["h200", "NVIDIA H200", "H200 SXM", " h200-sxm ", "nvidia_h200"])
def test_aliases(name):
    """Drivers' names, case and separators lead to the same accelerator."""
    assert find_gpu(name).name == "H200"


def test_aliases_are_unambiguous():
    """No two accelerators answer to the same name."""
    seen = {}
    for entry in gpus():
        for name in (entry.gpu.name, *entry.aliases):
            assert find_gpu(name) is entry.gpu
            assert seen.setdefault(name.lower(), entry) is entry


def test_unknown_name():
    """An unknown GPU is refused with its nearest neighbours, the field and the way out."""
    with pytest.raises(UnknownNameError) as caught:
        find_gpu("H2000")
    assert "H200" in caught.value.line()
    assert "memory_gib" in caught.value.line()
    assert caught.value.field == "deployment.gpu"


@pytest.mark.parametrize("name", ["A100", "NVIDIA A100"])
def test_ambiguous_name(name):
    """A name that stands for several memory sizes is refused with the variants, not resolved in silence."""
    with pytest.raises(UnknownNameError, match="A100 40GB SXM, A100 80GB SXM"):
        find_gpu(name)


def test_own_numbers():
    """A user's numbers become SI units."""
    gpu = gpu_from_numbers(name="mine", memory_gib=24, bandwidth_gb_per_s=900, bf16_tflops=100)
    assert gpu.memory_bytes == 24 * 2**30
    assert gpu.bandwidth_bytes_per_s == 9e11
    assert gpu.bf16_flops_per_s == 1e14
    assert gpu.fp8_flops_per_s is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("memory_gib", 0.5), ("memory_gib", 25_769_803_776), ("memory_gib", -24), ("bandwidth_gb_per_s", 0.9),
     ("bf16_tflops", 1e14), ("bf16_tflops", math.nan), ("fp8_tflops", math.inf), ("memory_gib", "24")],
)  # fmt: skip
def test_absurd_numbers(key, value):
    """A number that no accelerator has is refused by its name and range."""
    numbers = {"memory_gib": 24, "bandwidth_gb_per_s": 900, "bf16_tflops": 100} | {key: value}
    with pytest.raises(DeploymentError) as caught:
        gpu_from_numbers(name="mine", **numbers)
    assert caught.value.field == f"deployment.gpu.{key}"
    assert "a number from" in caught.value.line()
