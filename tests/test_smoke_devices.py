"""Which GPU stands behind torch's "cuda:0": by address, UUID, name or place; not at all where it cannot be told."""

from __future__ import annotations

import msgspec
import pytest

from gpudoctor.machine import Machine, MigDevice, NvmlDevice, Smoke, SmokeDevice
from gpudoctor.render.json import machine_data
from gpudoctor.situation.smoke_devices import gpus_behind
from tests.support.machines import amd_gpu, amd_machine, change, nvidia_gpu, nvidia_machine

FAST = nvidia_gpu("NVIDIA GeForce RTX 4090", "sm_89", index=1)
SLOW = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61", index=0)
MIXED = nvidia_machine(SLOW, FAST)


def device(place: int, **parts: str) -> SmokeDevice:
    return SmokeDevice(name=f"cuda:{place}", **parts)  # type: ignore[arg-type]


def behind(machine, *devices):
    return {name: gpu.name for name, gpu in gpus_behind(machine, machine.gpus[0].vendor, devices).items()}


@pytest.mark.parametrize("bdf", ["0000:02:00.0", "00000000:02:00.0", "02:00.0", "0000:02:00"])
def test_by_its_address_however_wide_it_is_written(bdf):
    assert behind(MIXED, device(0, bdf=bdf)) == {"cuda:0": FAST.name}


def test_by_uuid_with_and_without_its_prefix_and_for_a_slice():
    nvml = NvmlDevice(index=0, mig=True, mig_devices=(MigDevice(uuid="MIG-5"),))
    machine = nvidia_machine(nvidia_gpu(bdf=None, uuid="GPU-ab12"), nvidia_gpu("NVIDIA A100", bdf=None, nvml=nvml))
    assert behind(machine, device(0, uuid="ab12")) == {"cuda:0": "NVIDIA GeForce RTX 4090"}
    for uuid in ("MIG-5", "GPU-5"):  # torch does not tell slices from GPUs
        assert behind(machine, device(0, uuid=uuid)) == {"cuda:0": "NVIDIA A100"}


@pytest.mark.parametrize("told", ["MIG-5c89852c-d268", "GPU-5c89852c-d268"])
def test_a_slice_is_the_same_in_a_public_snapshot(told):
    nvml = NvmlDevice(index=0, mig=True, mig_devices=(MigDevice(uuid="MIG-5c89852c-d268"),))
    gpus = nvidia_gpu(bdf=None, uuid="GPU-ab12ab12"), nvidia_gpu("NVIDIA A100", bdf=None, nvml=nvml)
    machine = change(nvidia_machine(*gpus), smoke=Smoke(level="quick", devices=(device(0, uuid=told),)))
    public = msgspec.convert(machine_data(machine, private=False), Machine)
    assert "5c89852c" not in str(public)
    assert behind(public, *public.smoke.devices) == {"cuda:0": "NVIDIA A100"}


def test_unlike_nvidia_gpus_are_told_by_name_and_not_by_place():
    """CUDA counts the fastest first."""
    named = device(0, product=FAST.name), device(1, product=SLOW.name)
    assert behind(MIXED, *named) == {"cuda:0": FAST.name, "cuda:1": SLOW.name}
    assert behind(MIXED, device(0), device(1)) == {}


def test_amd_gpus_go_by_place_within_what_the_variables_leave():
    gpus = amd_gpu(index=0, bdf=None), amd_gpu("AMD Radeon RX 6800", "gfx1030", index=1, bdf=None)
    turned = amd_machine(*gpus, variables={"HIP_VISIBLE_DEVICES": "1,0"})
    assert behind(turned, device(0), device(1)) == {"cuda:0": gpus[1].name, "cuda:1": gpus[0].name}
    one = amd_machine(*gpus, variables={"ROCR_VISIBLE_DEVICES": "1"})
    assert behind(one, device(0)) == {"cuda:0": gpus[1].name}


def test_counts_that_differ_and_addresses_of_no_gpu_here_tell_nothing():
    assert behind(MIXED, device(0)) == {}
    assert behind(nvidia_machine(), device(0, bdf="0000:99:00.0")) == {}


def test_the_cpu_is_no_gpu():
    assert behind(nvidia_machine(), SmokeDevice(name="cpu")) == {}
