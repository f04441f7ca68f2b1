"""Real fault reports, each laid out as a host folder and judged by `gpudoctor check --root`.

A report's structured facts become the machine: GPUs by name (their PCI ids come from the matrix), driver, torch,
Python, system, variables, packages. What the facts leave open is healthy, or `assumed` here with what the report's
text says. `python -m tests.test_shared_cases` prints which case is judged how, and which is not and why.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from gpudoctor.matrix.gpu_models import Identity
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from tests.support.codeobject_files import bundle, container, cuda_library, hip_library
from tests.support.environments import shared_library, write_conda, write_distribution, write_torch
from tests.support.hosts import Host, first_fix

CASES = Path(__file__).parents[2] / "shared" / "cases" / "cases.jsonl"
pytestmark = pytest.mark.skipif(not CASES.exists(), reason="the collection of real fault reports is not here")

Facts = dict[str, Any]
WSL = "/usr/lib/wsl/lib"


@cache
def cases() -> dict[str, dict[str, Any]]:
    lines = CASES.read_text().splitlines() if CASES.exists() else []
    return {case["id"]: case for case in map(json.loads, lines)}


@cache
def matrix() -> Matrix:
    return load_matrix()


# --- from facts to a host ---------------------------------------------------------------------------------

SYSTEMS = {
    "ubuntu": ("ubuntu", "debian"),
    "debian": ("debian", ""),
    "pop!_os": ("pop", "ubuntu debian"),
    "centos": ("centos", "rhel fedora"),
    "oracle": ("ol", "fedora"),
    "opensuse": ("opensuse-leap", "suse opensuse"),
    "arch": ("arch", ""),
    "gentoo": ("gentoo", ""),
    "solus": ("solus", ""),
}
SERVES_CUDA = {"9.1": "390.157", "11.0": "450.80.02", "11.3": "465.31", "11.6": "510.108.03", "12.8": "570.153.02"}
"""A driver of the branch that prints this CUDA version in nvidia-smi."""


def build(host: Host, facts: Facts) -> Host:
    """The machine that the facts describe; everything else is healthy."""
    _system(host, facts)
    names = facts.get("gpu") or []
    for number, name in enumerate([names] if isinstance(names, str) else names):
        _gpu(host, number, name, facts)
    if str(facts.get("container", "")).startswith(("docker", "podman")):
        host.docker()
    _environment(host, facts)
    host.environ(**facts.get("env", {}))
    if re.fullmatch(r"\d[\d.]*", rocm := str(facts.get("rocm", ""))):
        host.file("/opt/rocm/.info/version", f"{rocm}-1\n")
    return host


def _system(host: Host, facts: Facts) -> None:
    text, platform = str(facts.get("os", "Ubuntu 24.04")), str(facts.get("plat", ""))
    wsl = "WSL" in text + platform
    kernel = re.search(r"Linux-(\S+?)-(?:x86_64|aarch64)", platform)
    release = facts.get("kernel") or (kernel[1] if kernel else None)
    release = release or ("5.15.167.4-microsoft-standard-WSL2" if wsl else "6.8.0-60-generic")
    number = (re.search(r"\d+(\.\d+)?", text.partition("WSL")[0]) or ["24.04"])[0]
    host.ubuntu(number, kernel=release)
    named = (row for key, row in SYSTEMS.items() if re.match(key, text.lower()))
    id, like = next(named, SYSTEMS["ubuntu"] if "WSL" in text else ("other", ""))
    host.file("/etc/os-release", f'ID={id}\nID_LIKE="{like}"\nVERSION_ID="{number}"\nPRETTY_NAME="{text}"\n')
    if wsl:
        host.node("/dev/dxg").file("/etc/ld.so.conf.d/ld.wsl.conf", f"{WSL}\n").file(f"{WSL}/libdxcore.so")


def _gpu(host: Host, number: int, name: str, facts: Facts) -> None:
    spoken = re.sub(r"\s*[(\[].*", "", name)
    target = re.search(r"gfx[0-9a-f]+", name) or re.match(r"gfx[0-9a-f]+", facts.get("gfx", ""))
    known = matrix().gpus_by_name(spoken) or (matrix().gpus_by_name(target[0]) if target else ())
    assert known, name
    gpu = known[0]
    pci = gpu.pci_id or _pci_of(gpu)
    bdf = f"0000:{number + 1:02x}:00.0"
    if "microsoft" in host.json["uname"]["release"]:
        _gpu_of_windows(host, number, name, gpu.vendor, facts)
    elif gpu.vendor == "amd":
        figures = re.fullmatch(r"gfx(\d+)([0-9a-f])([0-9a-f])", gpu.arch)
        assert figures
        version = int(figures[1]) * 10000 + int(figures[2], 16) * 100 + int(figures[3], 16)
        host.amd_gpu(pci[5:], version, bdf, node=number + 1, render=128 + number)
    elif facts.get("driver", "") is None:
        host.nvidia_gpu(pci[5:], bdf, driver=None)
    else:
        host.nvidia_gpu(pci[5:], bdf, minor=number, pci_class="0x030200" if gpu.datacenter else "0x030000")
        if number == 0:
            version, flavour = _driver(gpu.arch, facts)
            host.nvidia_driver(version, flavour=flavour)


def _pci_of(gpu: Identity) -> str:
    """A PCI id with that chip or target, for GPUs that are named by these."""
    if gpu.vendor == "nvidia":
        named = [row for row in matrix().tables.nvidia_gpus if row.chip == gpu.chip]
        return f"10de:{next((row for row in named if str(gpu.chip) in row.name), named[0]).pci}"
    return next(f"1002:{row.pci}" for row in matrix().tables.amd_gpus if row.gfx == gpu.arch)


def _driver(arch: str, facts: Facts) -> tuple[str, str]:
    """Version and flavour of the kernel module: as stated, else one that serves the GPU."""
    capability = int(arch.removeprefix("sm_"))
    stated = re.match(r"[\d.]+", facts.get("driver") or "")
    version = stated[0] if stated else SERVES_CUDA.get(facts.get("driver_cuda", "")[:4].strip(), "580.95.05")
    if capability < 50 and not stated:
        version = "470.256.02"
    closed = "proprietary" in facts.get("driver", "") or capability < 75 or int(version.split(".")[0]) < 515
    return version, "proprietary" if closed else "open"


def _gpu_of_windows(host: Host, number: int, name: str, vendor: str, facts: Facts) -> None:
    if vendor == "nvidia" and number == 0:
        host.file(f"{WSL}/libcuda.so.1.1", shared_library(soname="libcuda.so.1"))
        host.link(f"{WSL}/libcuda.so.1", "libcuda.so.1.1").file(f"{WSL}/libnvidia-ml.so.1", shared_library())
        driver = facts.get("driver", "566.36")
        host.command(
            "nvidia-smi",
            f"| NVIDIA-SMI 560.35.02              Driver Version: {driver}         CUDA Version: 12.6     |\n"
            f"|   0  {name}        On  |   00000000:01:00.0  On |                  N/A |\n",
        )
    elif vendor == "amd":
        host.file("/opt/rocm/lib/libhsa-runtime64.so.1", shared_library(soname="libhsa-runtime64.so.1"))


def _environment(host: Host, facts: Facts) -> None:
    libs = [re.fullmatch(r"([\w-]+)==(\S+)", entry) for entry in facts.get("libs", ())]
    packages = {found[1]: found[2] for found in libs if found} | facts.get("packages", {})
    version = facts.get("torch") or packages.get("torch")
    found = re.match(r"3\.(\d+)", facts.get("py", "3.12"))
    python = f"3.{found[1]}" if found else "3.12"
    if version:
        local = version.partition("+")[2]
        cuda = re.match(r"\d+\.\d+", facts.get("cuda", ""))
        hip = re.match(r"rocm(\d+\.\d+)", local)
        archs = facts.get("arch_list", "").split()
        host.torch(
            version,
            cuda=cuda[0] if cuda and not local.startswith("rocm") else None,
            hip=f"{hip[1]}.43482" if hip else None,
            python=python,
            libraries={"libtorch_cuda.so": cuda_library(container(*archs), container(*archs))} if archs else None,
            **({"requires": facts["requires"]["torch"]} if "torch" in facts.get("requires", {}) else {}),
        )
    else:
        host.venv(python)
    for name, number in packages.items():
        requires = facts.get("requires", {}).get(name, ())
        if name != "torch":
            host.package(name, number, requires=requires)


# --- how each case is judged --------------------------------------------------------------------------------


class Story(NamedTuple):
    """What is added to a case's facts, and what is expected of the report."""

    assumed: Facts
    """Facts that the report leaves open or states in prose, in the form of its own."""
    told: Callable[[Host], object] | None
    """What the report's text shows of the machine beyond its facts."""
    answers: Callable[[Facts], object] | None
    """What the driver answers, where only that tells (level driver): written into the machine's snapshot."""
    slug: str
    """Slug of the first finding; "" for the case's own diagnosis."""
    severity: str
    fix: str
    """What the best way out of it holds; what solved the case, where that is the best."""
    why: str
    """Why another slug than the diagnosis is right."""


STORIES: dict[str, Story] = {}


def story(
    case: str,
    fix: str = "",
    *,
    told: Callable[[Host], object] | None = None,
    answers: Callable[[Facts], object] | None = None,
    slug: str = "",
    severity: str = "error",
    why: str = "",
    **assumed: Any,
) -> None:
    STORIES[case] = Story(assumed, told, answers, slug, severity, fix, why)


def hopper_board(manager: str | None) -> Callable[[Host], Host]:
    """NVSwitches beside the GPUs, and a fabric manager of that version that does not run."""

    def told(host: Host) -> Host:
        for number in range(4):
            host.pci(f"0000:{0xA0 + number:02x}:00.0", "10de", "22a3", pci_class="0x068000", driver="nvidia-nvswitch")
        host.file("/proc/1/comm", "systemd\n").path("/usr/bin").mkdir(parents=True, exist_ok=True)
        if manager:
            host.file("/usr/bin/nv-fabricmanager", shared_library())
            host.file("/var/log/fabricmanager.log", f"Fabric Manager version is : {manager}\n")
        return host

    return told


def log(*lines: str) -> Callable[[Host], Host]:
    return lambda host: host.file("/var/log/dmesg", "\n".join(lines) + "\n")


def upgraded(old: str) -> Callable[[Host], object]:
    """The module of an older driver is still loaded."""

    def told(host: Host) -> object:
        text = host.path("/proc/driver/nvidia/version").read_text()
        host.file("/proc/driver/nvidia/version", re.sub(r"  [\d.]+  ", f"  {old}  ", text))
        return host.file("/sys/module/nvidia/version", old + "\n")

    return told


def compat(version: str) -> Callable[[Host], object]:
    """cuda-compat of the image, first on the load path."""

    def told(host: Host) -> object:
        host.nvidia_libraries(version, "/usr/local/cuda/compat")
        return host.environ(LD_LIBRARY_PATH="/usr/local/cuda/compat")

    return told


def cuda(status: int, message: str) -> Callable[[Facts], object]:
    """What cuInit answers."""
    answer = {"status": status, "message": message, "library": "libcuda.so.1"}
    return lambda machine: machine["nvidia"].update(cuda={"value": answer, "state": "known", "source": "cuInit"})


def hsa(status: int) -> Callable[[Facts], object]:
    """What hsa_init answers."""
    answer = {"status": status, "message": "HSA_STATUS_ERROR_OUT_OF_RESOURCES", "library": "libhsa-runtime64.so.1"}
    return lambda machine: machine["amd"].update(hsa={"value": answer, "state": "known", "source": "hsa_init"})


def broken_memory(machine: Facts) -> None:
    gpu = machine["gpus"][0]
    gpu["nvml"] = {"index": 0, "name": gpu["name"], "bdf": gpu["bdf"], "ecc_uncorrectable": 2}


def resumed(host: Host) -> object:
    return host.file("/sys/power/suspend_stats/success", "3\n")


UNKNOWN_ERROR = cuda(999, "CUDA_ERROR_UNKNOWN")
NOT_READY = cuda(802, "CUDA_ERROR_SYSTEM_NOT_READY")
NOT_REACHED = "Unable to determine the device handle for GPU 0000:{:02X}:00.0: Unknown Error\n"


# --- torch and the GPU

story("pytorch-149845", "cu128", torch="2.6.0+cu124")
story("inference-3603", "cu128", torch="2.6.0+cu124")
story("ai-toolkit-530", "cu128", torch="2.6.0+cu126", os="Ubuntu")
story("framepack-702", "cu128", torch="2.6.0+cu126", os="Ubuntu")
story("comfyui-nvidia-docker-61", "cu126", torch="2.8.0+cu128")
story("pytorch-53164", "torch==1.13.0", torch="1.9.0.dev20210303+cu111", py="3.8")
story("unsloth-5876", "cu12", torch="2.10.0+cu130", driver_cuda="")
story("vllm-19185", "cu126", torch="2.7.0+cu128")
story("pytorch-145670", "rocm")
story("pytorch-132570", "rocm", torch="2.4.1+rocm6.1")
story("pytorch-882", "rocm", torch="1.13.1+rocm5.2", rocm="", py="3.10")
story("legacy-rocm-build-2061", "gfx1032", torch="2.0.0+rocm5.4.2", py="3.10")
story("comfyui-1712", "gfx1031")
story("open-oasis-27", "gfx1032", torch="2.5.1+rocm6.2")
story("comfyui-653", "rocm", torch="2.0.1+cu118", py="3.10")
story("comfyui-5122", "rocm", torch="2.4.1+cu121", gpu=["AMD Radeon RX 7900 XTX"])
story("deep-packet-4", "cu117", torch="1.13.1+cpu", py="3.8")
story("pytorch-123835", "cu1")
story("pytorch-44303", "driver")
story("legacy-rocm-build-2354", "rocm", torch="1.13.1+cpu")
story(
    "rocblas-1299",
    torch="2.0.0+rocm5.4.2",
    gpu=["Radeon RX 6700 XT"],
    slug="torch-rocm-no-arch-for-gpu",
    why="every GPU that this torch's rocBLAS lacks is missing in torch itself",
)
story(
    "legacy-rocm-build-4440",
    severity="note",
    torch="2.6.0+rocm6.2.4",
    env={"HSA_OVERRIDE_GFX_VERSION": "11.0.0", "TORCH_BLAS_PREFER_HIPBLASLT": "1"},
)
story("therock-3392", gpu=["AMD Radeon Graphics (gfx1036)", "Radeon RX 9070 XT"], os="Ubuntu", torch="2.9.1+rocm6.4")
story("therock-5543", os="Ubuntu", torch="2.9.1+rocm6.4")
story("legacy-rocm-build-1881", severity="warning", torch="1.13.1+rocm5.2", py="3.10")
story("legacy-rocm-build-5238", "unset", torch="2.7.1+rocm6.3")

# --- the driver

story("yuan-2.0-65", "cu118", torch="2.1.2+cu121", gpu=["NVIDIA A100-SXM4-80GB"], container="docker")
story("fooocus-1313", "driver", torch="2.1.1+cu121", py="3.10")
story("lhotse-793", gpu=["GeForce GTX 1080"])
story("pytorch-37320")
story("pytorch-30071")
story("pytorch-28321")
story("nvidia-container-toolkit-394", "reboot", told=upgraded("535.161.07"), container="", driver="550.54.14")
story("pytorch-45109", told=upgraded("440.100"))
story("easydiffusion-379", torch="1.12.1+cu116", driver="515.76", told=upgraded("470.141.03"))
story("ollama-5573", gpu=["NVIDIA GeForce RTX 3060"], driver="555.42.06", told=upgraded("550.90.07"))
story(
    "pytorch-49081b1",
    "reboot",
    driver="455.45.01",
    told=upgraded("450.80.02"),
    slug="driver-lib-mismatch",
    why="that the new module is installed is not reported; where its file shows it, the slug is the diagnosis",
)
story("torchpod-43", torch="1.9.0+cu111", told=compat("465.19.01"))
story(
    "textgen-4407",
    torch="2.1.0+cu121",
    gpu=["NVIDIA GeForce RTX 3060"],
    driver="525.125.06",
    told=compat("530.30.02"),
)
story(
    "horde-worker-regen-349",
    torch="2.5.1+cu124",
    gpu=["NVIDIA GeForce RTX 3090"],
    driver="535.183.01",
    told=compat("550.54.15"),
)
story("packages-5575", "open", driver="570.144 (proprietary)")
story("start-technologies-3693", "open", told=log("NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)"))
story("pytorch-74733", gpu=["Tesla V100-PCIE-16GB"], driver=None)
story(
    "dstack-2348",
    "550.54.15",
    gpu=["NVIDIA H100 80GB HBM3"] * 8,
    driver="550.54.15",
    container="",
    told=hopper_board("535.183.01"),
)
story("aws-deep-learning-ami-ubuntu-dcv-desktop-33", gpu=["NVIDIA H200"] * 8, told=hopper_board(None))
story("pytorch-81549", gpu=["NVIDIA A100-SXM4-80GB"] * 8, torch="1.10.1+cu113", told=hopper_board(None))
story("huggingface_hub-4134", "host", container="docker", answers=NOT_READY, torch="2.9.1+cu128")
story("ultralytics-7716", gpu=["NVIDIA GeForce RTX 4070"], answers=UNKNOWN_ERROR, told=resumed)
story("jaxsim-50", gpu=["NVIDIA GeForce RTX 3070"], answers=UNKNOWN_ERROR, told=resumed)
story(
    "open-gpu-kernel-modules-862",
    "Above 4G",
    told=log(
        "[    5.1] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)",
        "[    5.2] NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0",
    ),
)
story(
    "open-gpu-kernel-modules-789",
    told=log(
        "[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
        "[  903.610907] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x65:1792)",
        "[ 2052.745833] NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)",
    ),
)
story("open-gpu-kernel-modules-387", told=lambda host: host.command("nvidia-smi", NOT_REACHED.format(1), rc=255))
story(
    "returnn-1486",
    gpu=["NVIDIA GeForce GTX 1080 Ti"],
    told=lambda host: host.command("nvidia-smi", NOT_REACHED.format(1), rc=255),
)
story("vllm-5222", gpu=["NVIDIA A100-SXM4-80GB"], answers=broken_memory)
story("jade-hpc-gpu.github.io-194", gpu=["Tesla V100-SXM2-32GB"], answers=broken_memory)

# --- access


def without_gpu(host: Host) -> object:
    host.pci("0000:01:00.0", "10de", "2684", driver="nvidia")
    return host.file("/sys/module/nvidia/version", "580.95.05\n")


def refused(*paths: str, by: str = "EACCES", gid: int = 992) -> Callable[[Host], object]:
    def told(host: Host) -> object:
        host.json["user"]["gids"] = [1000]
        for path in paths:
            host.node(path, by, mode="0660", gid=gid)
        return host

    return told


def no_kfd(host: Host) -> object:
    host.node("/dev/kfd", "ENOENT").path("/dev/kfd").unlink()
    for place in sorted(host.path("/sys/class/kfd").rglob("*"), reverse=True):
        place.rmdir() if place.is_dir() else place.unlink()
    return host


def unbound(host: Host) -> object:
    """amdgpu is not loaded."""
    no_kfd(host)
    host.file("/proc/modules").path("/sys/bus/pci/devices/0000:01:00.0/driver").unlink()
    for number in ("128",):
        host.node(f"/dev/dri/renderD{number}", "ENOENT").path(f"/dev/dri/renderD{number}").unlink()
    host.path("/sys/module/amdgpu/refcnt").unlink()
    host.path("/sys/module/amdgpu").rmdir()
    uevent = host.path("/sys/bus/pci/devices/0000:01:00.0/uevent")
    uevent.write_text(uevent.read_text().replace("DRIVER=amdgpu\n", ""))
    return host


def skipped(line: str) -> Callable[[Host], object]:
    """KFD left the GPU out."""

    def told(host: Host) -> object:
        for file in ("properties", "gpu_id", "name"):
            host.remove(f"/sys/class/kfd/kfd/topology/nodes/1/{file}")
        host.path("/sys/class/kfd/kfd/topology/nodes/1").rmdir()
        return host.file("/var/log/dmesg", line + "\n")

    return told


def built_for(kernel: str) -> Callable[[Host], object]:
    """amdgpu-dkms is built for that kernel only; the running one has no amdgpu of its own loaded."""

    def told(host: Host) -> object:
        release = host.json["uname"]["release"]
        host.file(f"/var/lib/dkms/amdgpu/3.7-21/{kernel}/x86_64/module/amdgpu.ko")
        host.file("/var/lib/dkms/amdgpu/3.7-21/source/dkms.conf", 'PACKAGE_NAME="amdgpu"\n')
        host.file(f"/lib/modules/{release}/modules.dep").file(f"/lib/modules/{kernel}/updates/dkms/amdgpu.ko")
        return host

    return told


story("dreammat-14", "--gpus", told=without_gpu, torch="2.3.0+cu121")
story(
    "pytorch-49081",
    gpu=["NVIDIA GeForce RTX 3090"],
    container="podman",
    torch="2.1.2+cu121",
    told=lambda host: (host.remove("/dev/nvidia-uvm"), host.json["nodes"].pop("/dev/nvidia-uvm")),
)
story("legacy-rocm-build-2838", "render", told=refused("/dev/kfd", "/dev/dri/renderD128"), torch="1.13.0+rocm5.2")
story(
    "ollama-6736",
    "render",
    gpu=["Radeon RX 6800"],
    torch="2.4.1+rocm6.1",
    told=refused("/dev/kfd", "/dev/dri/renderD128"),
)
story("voicestudio-1274", "group-add", torch="2.9.1+rocm6.4", told=refused("/dev/kfd", "/dev/dri/renderD128"))
story("operating-system-3608", gpu=["Radeon RX 6800"], os="Linux", torch="2.4.1+rocm6.1", told=no_kfd)
story("legacy-rocm-build-1415", gpu=["Radeon VII"], torch="1.13.1+rocm5.2", py="3.10", told=no_kfd)
story(
    "legacy-rocm-build-192",
    told=skipped("[    9.331640] kfd kfd: skipped device 1002:67df, PCI rejects atomics"),
    gpu=["Radeon RX 580"],
)
story("legacy-rocm-build-939", told=skipped("[   13.155802] kfd kfd: skipped device 1002:699f, PCI rejects atomics"))
story(
    "legacy-rocm-build-1211",
    gpu=["Radeon VII"],
    kernel="5.4.0-7642-generic",
    slug="amd-device-permission",
    why="the kernel's own amdgpu serves the GPU; the files show that /dev/kfd is refused",
    told=lambda host: (refused("/dev/kfd", by="EPERM")(host), built_for("5.4.0-7634-generic")(host)),
)
story(
    "legacy-rocm-build-738",
    gpu=["Radeon RX Vega 64"],
    rocm="",
    told=lambda host: (
        unbound(host),
        built_for("4.15.0-20-generic")(host),
        log(
            "[    2.700394] amdgpu: Unknown symbol amd_iommu_bind_pasid (err 0)",
            "[    2.700832] amdgpu: Unknown symbol amd_iommu_set_invalidate_ctx_cb (err 0)",
        )(host),
    ),
)
story("legacy-rocm-build-2901", kernel="5.15.0-91-generic", told=no_kfd, torch="2.3.1+rocm6.0")
story(
    "pytorch-130181",
    severity="note",
    gpu=["NVIDIA A100-SXM4-80GB"],
    answers=lambda machine: machine["gpus"][0].update(
        nvml={"index": 0, "mig": True, "mig_devices": [{"profile": "3g.40gb"}, {"profile": "3g.40gb"}]}
    ),
)
story("time-series-library-10", "CUDA_VISIBLE_DEVICES", os="Ubuntu", torch="1.12.1+cu113", py="3.10")
story(
    "witt-34",
    "CUDA_VISIBLE_DEVICES",
    gpu=["NVIDIA GeForce RTX 3090"],
    torch="2.5.1+cu124",
    env={"CUDA_VISIBLE_DEVICES": "1"},
)
story("wsl-9254", os="WSL2", py="3.9")
story("vllm-8255", answers=cuda(2, "out of memory"))
story(
    "wsl-5663",
    severity="note",
    gpu=["NVIDIA GeForce RTX 3080"],
    torch="2.0.0+cu118",
    told=lambda host: (
        host.remove(f"{WSL}/libcuda.so.1"),
        host.file(f"{WSL}/libcuda.so.1", shared_library()),
        host.file(f"{WSL}/libcuda.so", shared_library()),
    ),
)
story("legacy-rocm-build-3561", torch="2.4.1+rocm6.1", answers=hsa(4104))
story("legacy-rocm-build-3402", torch="2.4.1+rocm6.1", answers=hsa(4104))
story("librocdxg-34", "HSA_ENABLE_DXG_DETECTION", torch="2.11.0+rocm7.2")

# --- libraries and packages


def shadowed(folder: str, name: str, real: str) -> Callable[[Host], object]:
    """LD_LIBRARY_PATH names a folder with another copy of a library."""

    def told(host: Host) -> object:
        host.file(f"{folder}/{real}", shared_library(soname=name)).link(f"{folder}/{name}", real)
        return host.environ(LD_LIBRARY_PATH=folder)

    return told


def older_copy(host: Host) -> object:
    host.file("/srv/old/torch/version.py", "__version__ = '2.6.0'\ncuda = '12.6'\nhip = None\n")
    return host.file("/srv/old/torch/__init__.py").environ(PYTHONPATH="/srv/old")


def old_libstdcxx(host: Host) -> object:
    """A conda environment with a libstdc++ of GCC 11, and a Triton that needs a newer one."""
    host.json["environ"] = {"CONDA_PREFIX": "/opt/conda/envs/x"}
    prefix = host.path("/opt/conda/envs/x")
    site = write_conda(prefix, "3.9")
    linked = {"libtorch.so": shared_library(needed=("libtorch_cpu.so",), rpath="$ORIGIN:$ORIGIN/../../../..")}
    write_torch(site, "2.0.0+cu118", "11.8", python="3.9", libraries=linked)
    (prefix / "lib/libstdc++.so.6").write_bytes(shared_library(defines=("GLIBCXX_3.4", "GLIBCXX_3.4.29")))
    triton = shared_library(needed=("libstdc++.so.6",), needs={"libstdc++.so.6": ["GLIBCXX_3.4.30"]})
    write_distribution(site, "triton", "2.0.0", files={"triton/_C/libtriton.so": triton})
    return host


RTX_3090 = {"gpu": ["NVIDIA GeForce RTX 3090"], "driver": "580.95.05"}
JITLINK = "libnvJitLink.so.12"
story(
    "pytorch-152783",
    "LD_LIBRARY_PATH",
    **RTX_3090,
    torch="2.7.0+cu128",
    requires={"torch": ["nvidia-nvjitlink-cu12==12.8.61"]},
    packages={"nvidia-nvjitlink-cu12": "12.8.61"},
    told=shadowed("/usr/local/cuda-12.4/lib64", JITLINK, f"{JITLINK}.4.127"),
)
story(
    "ragflow-4466",
    "LD_LIBRARY_PATH",
    **RTX_3090,
    torch="2.5.1+cu124",
    requires={"torch": ["nvidia-nvjitlink-cu12==12.4.127"]},
    packages={"nvidia-nvjitlink-cu12": "12.4.127"},
    told=shadowed("/usr/local/cuda-12.1/lib64", JITLINK, f"{JITLINK}.1.105"),
)
story(
    "pytorch-111469",
    "LD_LIBRARY_PATH",
    **RTX_3090,
    torch="2.1.0+cu121",
    requires={"torch": ["nvidia-cusparse-cu12==12.1.0.106"]},
    packages={"nvidia-nvjitlink-cu12": "12.3.52"},
    told=shadowed("/usr/local/cuda-12.0/lib64", JITLINK, f"{JITLINK}.0.140"),
)
story(
    "pytorch-119932",
    "LD_LIBRARY_PATH",
    **RTX_3090,
    severity="warning",
    torch="2.2.0+cu121",
    requires={"torch": ["nvidia-nccl-cu12==2.19.3"]},
    told=shadowed("/usr/local/nccl/lib", "libnccl.so.2", "libnccl.so.2.16.2"),
)
story(
    "returnn-1802",
    "nvidia-nccl-cu11",
    **RTX_3090,
    severity="warning",
    torch="2.8.0+cu128",
    requires={"torch": ["nvidia-nccl-cu12==2.27.3"]},
)
story(
    "audiocraft-186",
    "LD_LIBRARY_PATH",
    **RTX_3090,
    py="3.10",
    requires={"torch": ["nvidia-cudnn-cu11==8.7.0.84"]},  # compiled against (8, 7, 0), says the report
    told=shadowed("/usr/lib/cudnn", "libcudnn.so.8", "libcudnn.so.8.6.0"),
)
story(
    "kohya_ss-1096",
    "LD_LIBRARY_PATH",
    **RTX_3090,
    py="3.10",
    requires={"torch": ["nvidia-cudnn-cu11==8.7.0.84"]},  # compiled against (8, 7, 0), says the report
    told=shadowed("/usr/lib/cudnn", "libcudnn.so.8", "libcudnn.so.8.2.4"),
)
story("pytorch-132179", "numpy<2", **RTX_3090, py="3.10", cuda="11.7", packages={"numpy": "2.0.1"})
story("openfederatedlearning-999", "numpy<2", packages={"numpy": "2.0.0"})
story("vision-8985", "torchvision", **RTX_3090, torch="2.7.0+cu128")
story(
    "vision-9174",
    slug="torch-shadowed",
    gpu=["NVIDIA GeForce RTX 4090"],
    torch="2.8.0",
    cuda="12.8",
    told=older_copy,
    packages={"torchvision": "0.23.0"},
    why="two copies of torch: the older one is imported; with one copy of 2.8 the torchvision is right",
)
story(
    "comfyui-2747",
    "torchvision",
    **RTX_3090,
    os="Ubuntu",
    torch="2.2.0+cu121",
    packages={"torchvision": "0.17.0+cpu"},
)
story("diffusers-9109", "torchvision", **RTX_3090, torch="2.4.0+cu121", packages={"torchvision": "0.18.1+cu121"})
story("autocut-106", "torchaudio", **RTX_3090, torch="2.0.1+cu118", py="3.10")
story("flash-attention-931", "flash-attn", **RTX_3090, cuda="12.1", requires={"flash-attn": ["torch"]})
story("flash-attention-940", "flash-attn", **RTX_3090, cuda="12.1", py="3.11", packages={"flash-attn": "2.5.7"})
story(
    "invokeai-6590",
    "xformers",
    os="Ubuntu",
    packages={"xformers": "0.0.23.post1"},
    requires={"xformers": ["torch==2.1.2"]},
)
story(
    "vllm-13608",
    "vllm",
    **RTX_3090,
    torch="2.5.1+cu124",
    packages={"vllm": "0.8.2"},
    requires={"vllm": ["torch==2.6.0"]},
)
story(
    "vllm-3528",
    "vllm",
    **RTX_3090,
    torch="2.2.2+cu121",
    packages={"vllm": "0.4.0"},
    requires={"vllm": ["torch==2.1.2"]},
)
story(
    "gpustack-4372",
    gpu=["DGX Spark GB10"],
    os="Ubuntu 24.04 (aarch64)",
    torch="2.9.1+cu128",
    packages={"triton": "3.5.1"},
)
story(
    "sglang-1117",
    "python3.10-dev",
    severity="warning",
    gpu=["NVIDIA GeForce RTX 4090"],
    torch="2.4.0+cu121",
    py="3.10",
    packages={"triton": "3.0.0"},
    told=lambda host: host.remove("/usr/include/python3.10/Python.h"),
)
story(
    "pytorch-129351",
    "python3.10-dev",
    severity="warning",
    **RTX_3090,
    torch="2.3.1+cu121",
    packages={"triton": "2.3.1"},
    told=lambda host: host.remove("/usr/include/python3.10/Python.h"),
)
story("pytorch-192259", severity="warning", gpu=["AMD Radeon RX 7900 XTX"])
story("pytorch-132004", severity="warning", gpu=["AMD Radeon RX 7900 XTX"], torch="2.4.0+rocm6.1")
story(
    "miopen-1996",
    torch="1.13.1+rocm5.2",
    py="3.10",
    env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"},
    slug="hsa-override-wrong",
    why="the override goes across generations, which is an error; a missing database of MIOpen is a note",
)
story("onnx-web-293", severity="note", gpu=["Radeon RX 6800"], torch="1.13.1+rocm5.2", py="3.10")
story(
    "legacy-rocm-build-2781",
    severity="warning",
    gpu=["gfx90c"],
    torch="2.3.1+rocm6.0",
    env={"HSA_OVERRIDE_GFX_VERSION": "9.0.0"},
)
story(
    "legacy-rocm-build-5616",
    severity="warning",
    gpu=["Radeon 8060S"],
    torch="2.10.0+rocm7.1",
    told=lambda host: host.file(
        "/var/lib/dpkg/status",
        "Package: linux-firmware\nStatus: install ok installed\nVersion: 20251125-0ubuntu1\n\n",
    ),
)
story("triton-1543", "libstdcxx", told=old_libstdcxx)

# --- healthy

NO_ERROR = [
    "pytorch-40682", "pytorch-175855", "pytorch-93823", "pytorch-148551", "pytorch-95644",
    "pytorch-140471", "pytorch-172225", "vllm-9293", "xformers-1265", "vllm-10147",
]  # fmt: skip
for healthy in NO_ERROR:
    story(healthy, severity="")
story("pytorch-113440", severity="", gpu=[])
story("pytorch-93288", severity="", gpu=["Tesla V100-SXM2-16GB"])
story(
    "pytorch-627",
    severity="",
    told=lambda host: host.torch(
        "1.6.0a0+93432cf", hip="3.3.20126", libraries={"libtorch_hip.so": hip_library(bundle("gfx803"))}
    ),
    torch=None,
)

NOT_APPLICABLE = {
    **dict.fromkeys(("tensile-1936", "onnxruntime-19616"), "ONNX Runtime"),
    **dict.fromkeys(("gcbfplus-1", "jax-feedstock-149", "jax-17553"), "JAX"),
    **dict.fromkeys(("tensorflow-60646", "tensorflow-110", "ai-lab-30"), "TensorFlow"),
    "llamacpp-rocm-96": "llama.cpp",
    "bitsandbytes-778": "libcudart is missing; the report tells neither version nor files",
    "xgboost-11242": "XGBoost; the report names no GPU",
    "legacy-rocm-build-5643": "a harmless message of AMD's own build, whose lists are not published",
    "bitsandbytes-723": "a fault of bitsandbytes on Windows",
    "microwakeword-trainer-applesilicon-16": "macOS",
    "pytorch-scripts-13": "torch 0.3.1 on Windows",
    "pytorch-99983": "a ROCm build of which the report does not say why it sees no GPU",
}


def host_of(case: str, root: Path) -> Host:
    """The host of a case."""
    told = STORIES[case].told
    facts = {**cases()[case]["facts"], **STORIES[case].assumed}
    arm = "aarch64" in f"{facts.get('os')} {facts.get('plat')}"
    host = build(Host(root, arch="aarch64" if arm else "x86_64"), facts)
    if told is not None:
        told(host)
    return host


def judged(case: str, root: Path) -> Facts:
    """The JSON report of a case."""
    answers = STORIES[case].answers
    host = host_of(case, root / "host")
    if answers is None:
        return host.check()
    report = host.check()
    answers(report["machine"])
    snapshot = root / "machine.json"
    snapshot.write_text(json.dumps({"schema": 1, "gpudoctor": report["gpudoctor"], "machine": report["machine"]}))
    result = CliRunner().invoke(
        gpudoctor, ["check", "--from", str(snapshot), "--format", "json"], standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    read: Facts = json.loads(result.stdout)
    return read


def expected(case: str) -> str:
    """The slug that the report must hold; "healthy" for no error at all."""
    return STORIES[case].slug or str(cases()[case]["diagnosis"])


def outcome(case: str, report: Facts) -> str:
    """What is wrong with a report; "" where it is right."""
    story, wanted = STORIES[case], expected(case)
    findings = [(f["slug"], f["severity"]) for f in report["findings"]]
    errors = [slug for slug, severity in findings if severity == "error"]
    if wanted == "healthy":
        return f"a false alarm: {errors}" if errors else ""
    if (wanted, story.severity) not in findings:
        return f"{wanted} is not among {findings}"
    if (story.severity == "error" and errors[0] != wanted) or (story.severity != "error" and errors):
        return f"{wanted} is not what comes first: {findings}"
    position = findings.index((wanted, story.severity))
    fix = first_fix({"findings": report["findings"][position:]}) if report["findings"][position]["fixes"] else ""
    if story.severity == "error" and not fix:
        return "an error without a way out"
    return "" if story.fix.lower() in fix.lower() else f"the fix is another: {fix}"


@pytest.mark.parametrize("case", STORIES)
def test_a_real_report_is_judged_rightly(case: str, tmp_path: Path) -> None:
    assert outcome(case, judged(case, tmp_path)) == ""


def test_every_case_is_judged_or_told_why_not() -> None:
    assert sorted(STORIES.keys() | NOT_APPLICABLE.keys()) == sorted(cases())
    assert not STORIES.keys() & NOT_APPLICABLE.keys()


def test_most_diagnoses_are_taken_as_they_are() -> None:
    others = [case for case, story in STORIES.items() if story.slug and not story.why]
    assert not others
    assert sum(not story.slug for story in STORIES.values()) >= 110


def table() -> None:
    """Case, diagnosis, how it is judged and what was found, one a line."""
    for case, facts in cases().items():
        if case in NOT_APPLICABLE:
            print(f"{case}\t{facts['diagnosis']}\tnot applicable: {NOT_APPLICABLE[case]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            report = judged(case, Path(folder))
        told = " ".join(f"{f['severity']}:{f['slug']}" for f in report["findings"])
        level = "driver" if STORIES[case].answers else "static"
        wrong = outcome(case, report)
        print(f"{case}\t{facts['diagnosis']}\t{level}\t{wrong or 'right'}\t{told}\t{STORIES[case].why}")


if __name__ == "__main__":
    table()
