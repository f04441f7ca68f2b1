"""The system's ROCm, for programs that bring none (llama.cpp, vLLM's images), and the firmware that a GPU runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from gpudoctor.machine import DeviceNode, Firmware, RocmInstall, absent, known, unknown
from tests.support.check_cases import below_torch, found, unanswered
from tests.support.hosts import Host
from tests.support.judging import finding, judged, remedies, severity, told
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_stack,
    with_system,
)

STRIX = amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True)
RYZEN = amd_gpu("AMD Radeon Graphics", "gfx1036", integrated=True)
BLAS_64 = ("gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201")


def with_rocm(machine, version, blas=None, path="/opt/rocm"):
    installed = known((RocmInstall(version=version, path=path, blas_gfx=blas),), "/opt")
    return change(machine, amd=change(machine.amd, rocm=installed))


# --- known issues ---


@pytest.mark.parametrize(
    ("version", "expected"), [("6.4.4", "warning"), ("7.1.0", "warning"), ("7.2.0", None), ("7.11.0", None)]
)
def test_without_torch_a_known_issue_is_about_the_systems_rocm(version, expected):
    machine = with_rocm(amd_machine(STRIX, torch=None), version)
    assert severity(machine, "rocm-runtime-bug") == expected
    if expected:
        assert [item.value for item in finding(machine, "rocm-runtime-bug").evidence if item.fact == "ROCm"] == [
            version
        ]


def test_beside_a_torch_its_own_rocm_counts_and_not_the_systems():
    assert severity(with_rocm(amd_machine(STRIX, torch=torch("2.11.0+rocm7.2")), "6.4.4"), "rocm-runtime-bug") is None


def test_of_several_installations_the_one_that_programs_find_counts():
    both = tuple(RocmInstall(version=v, path=f"/opt/rocm-{v}") for v in ("6.4.4", "7.2.0"))
    machine = with_stack(amd_machine(STRIX, torch=None), rocm=known(both, "/opt"))
    assert severity(machine, "rocm-runtime-bug") is None
    chosen = change(machine, variables={"ROCM_PATH": "/opt/rocm-6.4.4"})
    assert severity(chosen, "rocm-runtime-bug") == "warning"


def test_without_torch_the_kernel_counts_too():
    gpu = amd_gpu("AMD Radeon 780M", "gfx1103", integrated=True)
    for kernel, expected in (("6.12.6-arch1-1", "warning"), ("6.12.30-arch1-1", None), ("6.11.9-arch1-1", None)):
        machine = with_system(amd_machine(gpu, torch=None), kernel=known(kernel, "uname"))
        assert severity(machine, "known-issue") == expected


# --- rocBLAS ---


@pytest.mark.parametrize(
    ("name", "gfx", "rocm", "blas", "fix"),
    [
        ("AMD Radeon VII", "gfx906", "6.4.0", BLAS_64, "Install ROCm 6.3, whose rocBLAS has kernels for gfx906"),
        ("AMD Instinct MI300A", "gfx942", "7.2.0", ("gfx1200",), "Install the rocBLAS package for gfx942"),
        ("AMD Radeon RX 6700 XT", "gfx1031", "6.4.0", BLAS_64, "Let the GPU run as gfx1030"),
    ],
)
def test_a_system_rocblas_without_the_gpus_kernels_is_a_warning(name, gfx, rocm, blas, fix):
    machine = with_rocm(amd_machine(amd_gpu(name, gfx), torch=None), rocm, blas)
    warning = finding(machine, "rocblas-no-arch")
    assert (warning.severity, warning.framework, warning.fixes[0].title) == ("warning", None, fix)


def test_what_makes_the_systems_rocblas_fit_or_irrelevant():
    old = amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=None)
    for machine in (
        with_rocm(amd_machine(torch=None), "6.4.0", BLAS_64),
        with_rocm(old, "6.4.0"),
        with_rocm(old, "6.4.0", ("gfx10-3-generic",)),
        change(with_rocm(old, "6.4.0", BLAS_64), variables={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}),
        change(with_rocm(old, "6.4.0", BLAS_64), variables={"ROCBLAS_TENSILE_LIBPATH": "/own/library"}),
        with_rocm(amd_machine(torch=torch("2.9.1+rocm6.4")), "6.4.0", ("gfx1200",)),
    ):
        assert severity(machine, "rocblas-no-arch") is None


def test_the_graphics_of_a_processor_beside_a_gpu_are_silent():
    beside = change(nvidia_machine(nvidia_gpu(), RYZEN, torch=None), amd=amd_machine(RYZEN).amd)
    machine = with_rocm(beside, "6.4.0", BLAS_64)
    assert below_torch(machine) == [] and severity(machine, "rocblas-no-arch") is None
    assert severity(with_rocm(amd_machine(RYZEN, torch=None), "6.4.0", BLAS_64), "rocblas-no-arch") == "warning"


# --- the kernel driver ---


@pytest.mark.parametrize(("driver", "expected"), [("6.8.5", "warning"), ("31.40.1", None), ("in-tree", None)])
def test_the_systems_rocm_outside_the_window_of_the_kernel_driver(driver, expected):
    machine = with_stack(with_rocm(amd_machine(torch=None), "7.14.0"), module=known(driver, "/sys/module/amdgpu"))
    assert severity(machine, "rocm-version-mismatch") == expected


# --- firmware ---


@pytest.mark.parametrize(
    ("gfx", "loaded", "package", "expected"),
    [
        ("gfx1151", 0x83, unknown("rpm"), 1),
        ("gfx1150", 0x83, known("20260110-1", "dpkg"), 1),
        ("gfx1151", 0x80, known("20251125-1", "dpkg"), 0),
        ("gfx1151", None, known("20251125-1", "dpkg"), 1),
        ("gfx1100", 0x83, unknown("rpm"), 0),
    ],
)
def test_the_firmware_that_the_gpu_runs_decides_and_else_its_package(gfx, loaded, package, expected):
    running = (Firmware("mes", loaded),) if loaded else ()
    machine = amd_machine(amd_gpu("AMD Radeon", gfx, firmware=running), torch=None)
    assert len(found(with_stack(machine, firmware_package=package), "amd-firmware-regression")) == expected


def test_a_firmware_that_the_driver_states_leaves_no_question():
    gpu = amd_gpu("AMD Radeon 8060S", "gfx1151", firmware=(Firmware("mes", 0x80),))
    machine = with_stack(amd_machine(gpu), firmware_package=unknown("no database"))
    assert unanswered(machine, "amd-firmware-regression") == []


def test_firmware_and_kernel_files_are_read_from_the_host(tmp_path: Path) -> None:
    host = Host(tmp_path).amd_gpu("1586", 110501, "0000:01:00.0", node=1, render=128, revision="0xc1")
    for name, text in (("mes", "0x00000083"), ("smc", "0x00000000"), ("sdma", "Input/output error")):
        host.file(f"/sys/bus/pci/devices/0000:01:00.0/fw_version/{name}_fw_version", f"{text}\n")
    host.file("/opt/rocm/.info/version", "6.4.4-1\n")
    host.file("/opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat")
    machine = host.check()["machine"]
    assert machine["gpus"][0]["firmware"] == [{"name": "mes", "version": 0x83}]
    assert machine["amd"]["rocm"]["value"][0]["blas_gfx"] == ["gfx1100"]


# --- GPUs that people compute on, and others ---


@pytest.mark.parametrize(("gpu", "expected"), [(STRIX, "error"), (RYZEN, "note")])
def test_graphics_of_a_processor_without_a_driver_count_if_amd_supports_computing_on_them(gpu, expected):
    bare = change(gpu, driver=absent("driver"), kfd_node=None)
    machine = with_stack(amd_machine(bare, torch=None), module=absent("/sys"), modules_loaded=known((), "/proc"))
    machine = with_system(machine, kernel=known("6.18.8", "uname"))
    assert below_torch(machine) == [("no-driver", expected)]
    beside = change(machine, gpus=(nvidia_gpu(), bare), nvidia=nvidia_machine().nvidia)
    assert below_torch(beside) == [("no-driver", "note")]


def test_an_installed_driver_that_refuses_the_only_gpu_is_an_error_even_if_no_torch_supports_it():
    old = nvidia_gpu("NVIDIA GeForce GTX 760", "sm_30")
    alone = nvidia_machine(old, driver="535.183.01", flavour="proprietary", torch=None)
    assert below_torch(alone) == [("nvidia-driver-dropped-gpu", "error")]
    assert "470" in finding(alone, "nvidia-driver-dropped-gpu").fixes[0].title
    assert remedies(alone, "nvidia-driver-dropped-gpu") == ["Manual"]
    second = nvidia_gpu("NVIDIA GeForce GTX 760", "sm_30", index=1, driver=absent("driver"))
    beside = nvidia_machine(nvidia_gpu(), second, driver="535.183.01", flavour="proprietary", torch=None)
    assert below_torch(beside) == [("nvidia-driver-dropped-gpu", "note")]


def test_an_early_nightly_may_lack_what_its_release_has():
    def answers(version, gfx):
        judgement = judged(amd_machine(amd_gpu("AMD Radeon", gfx), torch=torch(version, origin="nightly")))
        slugs = [one.slug for one in judgement.findings if one.slug == "torch-rocm-no-arch-for-gpu"]
        return slugs, [one.id for one in judgement.not_judged if one.matters]

    assert answers("2.10.0.dev20250929+rocm7.0", "gfx1151") == ([], ["GPD404"])
    assert answers("2.10.0.dev20251120+rocm7.0", "gfx1151") == ([], [])
    assert answers("2.10.0.dev20250929+rocm7.0", "gfx1100") == ([], [])
    assert answers("2.10.0.dev20250929+rocm7.0", "gfx1031") == (["torch-rocm-no-arch-for-gpu"], [])


# --- a GPU that nothing can use ---

NODES = {
    "all": {},
    "no kfd": {"kfd": absent("/dev/kfd")},
    "no render node": {"render_nodes": absent("/dev/dri")},
    "kfd refused": {
        "kfd": known(DeviceNode(path="/dev/kfd", opened="EACCES", mode=0o660, uid=0, gid=992), "/dev/kfd")
    },
    "kfd cut off": {"kfd": known(DeviceNode(path="/dev/kfd", opened="EPERM"), "/dev/kfd")},
    "not in kfd": {"topology": known((), "/sys/class/kfd")},
}
GPUS = {
    "bound": {},
    "unbound": {"driver": absent("driver"), "kfd_node": None},
    "without kfd node": {"kfd_node": None},
    "reserved": {"driver": known("vfio-pci", "driver"), "kfd_node": None},
    "radeon": {"driver": known("radeon", "driver"), "kfd_node": None},
}
HIDDEN: dict[str, dict[str, str]] = {
    "shown": {},
    "hidden": {"ROCR_VISIBLE_DEVICES": ""},
    "wrong": {"ROCR_VISIBLE_DEVICES": "7"},
}


@pytest.mark.parametrize("container", [None, "docker", "kubernetes", "lxc"])
@pytest.mark.parametrize("patient", [None, torch("2.13.0+cpu")])
def test_where_gpus_are_present_and_none_is_usable_something_says_why(container, patient):
    for (nodes, stack), (state, parts), (name, gfx), variables in product(
        NODES.items(),
        GPUS.items(),
        (("AMD Radeon RX 7900 XTX", "gfx1100"), ("AMD Radeon Graphics", "gfx1036")),
        HIDDEN.values(),
    ):
        gpu = amd_gpu(name, gfx, integrated=gfx == "gfx1036", **parts)
        machine = amd_machine(gpu, torch=patient, container=container, variables=variables)
        _says_why(with_stack(machine, **stack), f"{container} {nodes} {state} {gfx} {variables}")


@pytest.mark.parametrize("container", [None, "docker", "kubernetes", "lxc"])
@pytest.mark.parametrize("patient", [None, torch("2.13.0+cpu")])
def test_the_same_for_nvidia(container, patient):
    for missing, driver, variables in product(
        ("", "/dev/nvidiactl", "/dev/nvidia0", "all"),
        (known("nvidia", "driver"), known("nouveau", "driver"), known("vfio-pci", "driver"), absent("driver")),
        ({}, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "7"}, {"NVIDIA_VISIBLE_DEVICES": "void"}),
    ):
        machine = nvidia_machine(nvidia_gpu(driver=driver), torch=patient, container=container, variables=variables)
        nodes = machine.nvidia.nodes.value or ()
        left = tuple(node for node in nodes if missing not in (node.path, "all"))
        _says_why(with_stack(machine, nodes=known(left, "/dev")), f"{container} {missing} {driver.value} {variables}")


def _says_why(machine, case):
    from gpudoctor.situation import Situation
    from tests.support.check_cases import matrix

    if Situation(machine, matrix()).usable:
        return
    reasons = [one for one in judged(machine).findings if one.layer in ("driver", "access")]
    assert reasons, case
    texts = [one.message for one in reasons if one.slug == "no-gpu"]
    assert len(texts) <= 1, (case, texts)
    assert not texts or len(reasons) == 1, (case, told(machine))
