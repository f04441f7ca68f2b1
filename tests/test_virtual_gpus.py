"""GPUs that a hypervisor lends: whole (pass-through), or in parts (NVIDIA vGPU)."""

from __future__ import annotations

import pytest

from gpudoctor.finding import LoadModule
from gpudoctor.machine import KernelLog, LoadPath, NvidiaApi, NvmlDevice, absent, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.names import vgpu_series
from gpudoctor.probes.kernel_log import _faults
from gpudoctor.probes.log_lines import this_boot
from gpudoctor.situation import Situation
from gpudoctor.situation.virtual_gpu import is_vgpu, refused_in_guest
from tests.support.check_cases import below_torch, first, found, log
from tests.support.judging import judged
from tests.support.machines import change, nvidia_gpu, nvidia_machine, with_stack, with_system

GUEST = known("kvm", "/sys/class/dmi/id")
REFUSED = (
    "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:26b9) installed in this system is not supported by the NVIDIA "
    "570.86.15 driver release. Please see 'Appendix A - Supported NVIDIA GPU Products' in this release's README"
)


@pytest.mark.parametrize(
    ("name", "series", "arch"),
    [
        ("GRID A100-10C", "C", "sm_80"),
        ("GRID A100D-1-10C", "C", "sm_80"),
        ("NVIDIA A100-1-5CME", "C", "sm_80"),
        ("NVIDIA H100XM-80C", "C", "sm_90"),
        ("NVIDIA A40-48Q", "Q", "sm_86"),
        ("GRID T4-4C", "C", "sm_75"),
        ("GRID T4-2B4", "B", "sm_75"),
        ("NVIDIA L40S-24C", "C", "sm_89"),
        ("GRID V100DX-32Q", "Q", "sm_70"),
        ("NVIDIA RTX6000-Ada-48Q", "Q", "sm_89"),
        ("NVIDIA A16-2A", "A", "sm_86"),
    ],
)
def test_the_name_of_a_vgpu_tells_the_series_and_the_chip(name: str, series: str, arch: str) -> None:
    assert vgpu_series(name) == series
    assert {gpu.arch for gpu in load_matrix().gpus.gpus_by_name(name)} == {arch}


def test_no_whole_gpu_is_taken_for_a_vgpu() -> None:
    tables = load_matrix().tables
    assert [gpu.name for gpu in (*tables.nvidia_gpus, *tables.nvidia_socs) if vgpu_series(gpu.name)] == []


def test_the_mode_that_nvml_tells_decides_what_is_a_vgpu() -> None:
    part, whole = (NvmlDevice(index=0, virtualization=mode) for mode in ("vgpu", "pass-through"))
    assert is_vgpu(nvidia_gpu("NVIDIA A40", "sm_86", nvml=part))
    assert not is_vgpu(nvidia_gpu("NVIDIA A40", "sm_86", nvml=whole))
    assert not is_vgpu(nvidia_gpu("NVIDIA A40", "sm_86"))


@pytest.mark.parametrize("name", ["NVIDIA A40-2B", "NVIDIA A16-2A", "GRID T4-2B4"])
def test_a_vgpu_for_graphics_alone_does_not_support_cuda(name: str) -> None:
    machine = nvidia_machine(nvidia_gpu(name, "sm_86"))
    assert below_torch(machine) == [("vgpu-without-cuda", "error")]
    beside = nvidia_machine(nvidia_gpu(name, "sm_86"), nvidia_gpu(index=1))
    assert below_torch(beside) == [("vgpu-without-cuda", "note")]
    starts = with_stack(machine, cuda=known(NvidiaApi(status=0), "libcuda"))
    assert below_torch(starts) == []


@pytest.mark.parametrize("name", ["NVIDIA A40-48Q", "GRID A100-10C", "NVIDIA A40"])
def test_a_vgpu_that_computes_and_a_gpu_that_is_passed_through_are_silent(name: str) -> None:
    mode = "vgpu" if vgpu_series(name) else "pass-through"
    state = NvmlDevice(index=0, virtualization=mode, licensed=True)  # type: ignore[arg-type]
    machine = nvidia_machine(nvidia_gpu(name, "sm_86", nvml=state))
    assert below_torch(with_system(machine, virtual_machine=GUEST)) == []


def test_a_vgpu_without_a_licence_is_a_warning() -> None:
    state = NvmlDevice(index=0, virtualization="vgpu", licensed=False)
    assert below_torch(nvidia_machine(nvidia_gpu("NVIDIA A40-48C", "sm_86", nvml=state))) == [
        ("vgpu-unlicensed", "warning")
    ]
    whole = change(state, virtualization="pass-through")
    assert below_torch(nvidia_machine(nvidia_gpu("NVIDIA A40", "sm_86", nvml=whole))) == []


def without_module(*lines: str, virtual: bool = True, chip: str = "AD102"):
    gpu = nvidia_gpu("NVIDIA L40S", "sm_89", chip=chip, driver=absent("/sys/bus/pci"))
    machine = change(nvidia_machine(gpu, **log(*lines)), load_path=LoadPath())
    bare = with_stack(machine, module=absent("/proc"), userland=absent("/usr/lib"), modules_loaded=known((), "/proc"))
    return with_system(bare, virtual_machine=GUEST if virtual else absent("/sys/class/dmi"))


def test_a_driver_that_refuses_a_chip_it_supports_in_a_virtual_machine_met_a_vgpu() -> None:
    machine = without_module(REFUSED)
    assert below_torch(machine) == [("vgpu-guest-driver", "error")]
    assert "guest driver" in first(machine).fixes[0].title
    proposed = [remedy for finding in judged(machine).findings for fix in finding.fixes for remedy in fix.remedies]
    assert not any(isinstance(remedy, LoadModule) for remedy in proposed)


def test_the_drivers_refusal_is_read_as_dmesg_prints_it() -> None:
    text = (
        "[130852.530546] NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:1b38)\n"
        "                NVRM: installed in this system is not supported by the\n"
        "                NVRM: NVIDIA 535.104.05 driver release.\n"
        "[130852.532087] nvidia: probe of 0000:02:00.0 failed with error -1\n"
    )
    tables = load_matrix().tables
    (fault,) = [f for f in _faults(this_boot(text), tables.log_patterns) if f.kind == "nvidia-unsupported"]
    assert fault.bdf == "0000:02:00.0"
    gpu = nvidia_gpu("NVIDIA Tesla P40", "sm_61", bdf="0000:02:00.0")
    machine = with_system(nvidia_machine(gpu, kernel_log=known(KernelLog((fault,)), "dmesg")), virtual_machine=GUEST)
    assert refused_in_guest(Situation(machine, load_matrix()), gpu)


def test_that_line_means_another_thing_outside_a_guest_or_of_a_driver_older_than_the_chip() -> None:
    assert below_torch(without_module(REFUSED, virtual=False))[0][0] == "no-driver"
    old = REFUSED.replace("570.86.15", "470.57.02")
    assert "vgpu-guest-driver" not in dict(below_torch(without_module(old)))


def test_a_vgpu_host_has_no_cuda_and_needs_no_library_of_the_ordinary_driver() -> None:
    machine = nvidia_machine(nvidia_gpu("NVIDIA A40", "sm_86"))
    path = change(machine.load_path, found=machine.load_path.found[1:])
    host = with_stack(
        change(machine, load_path=path), modules_loaded=known(("nvidia", "nvidia_vgpu_vfio"), "/proc/modules")
    )
    assert below_torch(host) == [("vgpu-host-driver", "error")]
    assert below_torch(change(machine, load_path=path)) == [("no-driver", "error")]
    merged = with_stack(machine, modules_loaded=known(("nvidia", "nvidia_vgpu_vfio"), "/proc/modules"))
    assert below_torch(merged) == []
    assert found(change(host, environment=nvidia_machine(torch=None).environment), "vgpu-host-driver") == []
