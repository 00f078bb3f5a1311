"""One GPU has one name, however a worker names it."""

from __future__ import annotations

import pytest

from api.jobs.gpus import own_devices
from profiler.errors import InputError

FIRST, SECOND = "GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-22222222-aaaa-bbbb-cccc-000000000002"


@pytest.fixture
def driver(tmp_path):
    """What the NVIDIA driver tells of two GPUs, in its own layout."""

    def told(*models, uuids=(FIRST, SECOND)):
        for place, model, uuid in zip(("0000:1b:00.0", "0000:9a:00.0"), models, uuids, strict=False):
            (tmp_path / place).mkdir()
            (tmp_path / place / "information").write_text(
                f"Model: \t\t {model}\nIRQ:   \t\t 67\nGPU UUID: \t {uuid}\nVideo BIOS: \t ??.??.??.??.??\n"
                f"Bus Type: \t PCIe\nBus Location: \t {place}\nDevice Minor: \t 1\n"
            )
        return tmp_path

    return told


def held(visible, driver, **more):
    return own_devices({"CUDA_VISIBLE_DEVICES": visible} | more, host="h", driver=driver)


def test_numbers_and_uuids_are_one_name(driver):
    """By number, by UUID, by its beginning; without the variable all of them."""
    there = driver("NVIDIA H200", "NVIDIA H200")
    assert held("0", there) == held(FIRST, there) == held("GPU-1111", there) == {FIRST}
    assert held("1,GPU-11", there) == {FIRST, SECOND}
    assert own_devices({}, host="h", driver=there) == {FIRST, SECOND}


def test_a_number_among_gpus_of_several_kinds_needs_their_order(driver):
    """CUDA counts the fastest first then; one line that says what to do."""
    there = driver("NVIDIA H200", "NVIDIA L4")
    with pytest.raises(InputError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        held("1", there)
    assert held("1", there, CUDA_DEVICE_ORDER="PCI_BUS_ID") == {SECOND}
    assert held(SECOND, there) == {SECOND}


def test_what_the_driver_does_not_know_keeps_its_name(driver):
    """A number beyond, a part of a GPU, a beginning that two have."""
    there = driver("NVIDIA H200", "NVIDIA H200")
    assert held("7", there) == {"h gpu 7"}
    assert held("MIG-33333333-aaaa", there) == {"MIG-33333333-aaaa"}
    assert held("GPU-", there) == {"GPU-"}


@pytest.mark.parametrize("uuids", [(), ("GPU-????????-????-????-????-????????????",) * 2])
def test_without_the_drivers_word_a_gpu_is_its_host_and_number(driver, uuids):
    """No driver, or one that has not initialised its GPUs."""
    there = driver("A", "A", uuids=uuids)
    assert held("2, 3", there) == {"h gpu 2", "h gpu 3"}
    assert len(own_devices({}, host="h", driver=there)) >= 1
