"""What the text of a report shows of its machine beyond the facts: files, logs, what the driver answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.support.codeobject_files import bundle, hip_library
from tests.support.environments import shared_library, write_conda, write_distribution, write_torch
from tests.support.hosts import Host

Facts = dict[str, Any]
WSL = "/usr/lib/wsl/lib"


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


def resumed(host: Host) -> object:
    return host.file("/sys/power/suspend_stats/success", "3\n")


NOT_REACHED = "Unable to determine the device handle for GPU 0000:{:02X}:00.0: Unknown Error\n"


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


JITLINK = "libnvJitLink.so.12"

# --- answers


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


UNKNOWN_ERROR = cuda(999, "CUDA_ERROR_UNKNOWN")
NOT_READY = cuda(802, "CUDA_ERROR_SYSTEM_NOT_READY")
SHOWN: dict[str, Callable[[Host], object]] = {
    "nvidia-container-toolkit-394": upgraded("535.161.07"),
    "pytorch-45109": upgraded("440.100"),
    "easydiffusion-379": upgraded("470.141.03"),
    "ollama-5573": upgraded("550.90.07"),
    "pytorch-49081b1": upgraded("450.80.02"),
    "torchpod-43": compat("465.19.01"),
    "textgen-4407": compat("530.30.02"),
    "horde-worker-regen-349": compat("550.54.15"),
    "start-technologies-3693": log("NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)"),
    "dstack-2348": hopper_board("535.183.01"),
    "aws-deep-learning-ami-ubuntu-dcv-desktop-33": hopper_board(None),
    "pytorch-81549": hopper_board(None),
    "ultralytics-7716": resumed,
    "jaxsim-50": resumed,
    "open-gpu-kernel-modules-862": log(
        "[    5.1] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)",
        "[    5.2] NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0",
    ),
    "open-gpu-kernel-modules-789": log(
        "[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
        "[  903.610907] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x65:1792)",
        "[ 2052.745833] NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)",
    ),
    "open-gpu-kernel-modules-387": lambda host: host.command("nvidia-smi", NOT_REACHED.format(1), rc=255),
    "returnn-1486": lambda host: host.command("nvidia-smi", NOT_REACHED.format(1), rc=255),
    "dreammat-14": without_gpu,
    "pytorch-49081": lambda host: (host.remove("/dev/nvidia-uvm"), host.json["nodes"].pop("/dev/nvidia-uvm")),
    "legacy-rocm-build-2838": refused("/dev/kfd", "/dev/dri/renderD128"),
    "ollama-6736": refused("/dev/kfd", "/dev/dri/renderD128"),
    "voicestudio-1274": refused("/dev/kfd", "/dev/dri/renderD128"),
    "operating-system-3608": no_kfd,
    "legacy-rocm-build-1415": no_kfd,
    "legacy-rocm-build-192": skipped("[    9.331640] kfd kfd: skipped device 1002:67df, PCI rejects atomics"),
    "legacy-rocm-build-939": skipped("[   13.155802] kfd kfd: skipped device 1002:699f, PCI rejects atomics"),
    "legacy-rocm-build-1211": lambda host: (
        refused("/dev/kfd", by="EPERM")(host),
        built_for("5.4.0-7634-generic")(host),
    ),
    "legacy-rocm-build-738": lambda host: (
        unbound(host),
        built_for("4.15.0-20-generic")(host),
        log(
            "[    2.700394] amdgpu: Unknown symbol amd_iommu_bind_pasid (err 0)",
            "[    2.700832] amdgpu: Unknown symbol amd_iommu_set_invalidate_ctx_cb (err 0)",
        )(host),
    ),
    "legacy-rocm-build-2901": no_kfd,
    "wsl-5663": lambda host: (
        host.remove(f"{WSL}/libcuda.so.1"),
        host.file(f"{WSL}/libcuda.so.1", shared_library()),
        host.file(f"{WSL}/libcuda.so", shared_library()),
    ),
    "pytorch-152783": shadowed("/usr/local/cuda-12.4/lib64", JITLINK, f"{JITLINK}.4.127"),
    "ragflow-4466": shadowed("/usr/local/cuda-12.1/lib64", JITLINK, f"{JITLINK}.1.105"),
    "pytorch-111469": shadowed("/usr/local/cuda-12.0/lib64", JITLINK, f"{JITLINK}.0.140"),
    "pytorch-119932": shadowed("/usr/local/nccl/lib", "libnccl.so.2", "libnccl.so.2.16.2"),
    "audiocraft-186": shadowed("/usr/lib/cudnn", "libcudnn.so.8", "libcudnn.so.8.6.0"),
    "kohya_ss-1096": shadowed("/usr/lib/cudnn", "libcudnn.so.8", "libcudnn.so.8.2.4"),
    "vision-9174": older_copy,
    "sglang-1117": lambda host: host.remove("/usr/include/python3.10/Python.h"),
    "pytorch-129351": lambda host: host.remove("/usr/include/python3.10/Python.h"),
    "legacy-rocm-build-5616": lambda host: host.file(
        "/var/lib/dpkg/status",
        "Package: linux-firmware\nStatus: install ok installed\nVersion: 20251125-0ubuntu1\n\n",
    ),
    "triton-1543": old_libstdcxx,
    "pytorch-627": lambda host: host.torch(
        "1.6.0a0+93432cf", hip="3.3.20126", libraries={"libtorch_hip.so": hip_library(bundle("gfx803"))}
    ),
}

ANSWERS: dict[str, Callable[[Facts], object]] = {
    "huggingface_hub-4134": NOT_READY,
    "ultralytics-7716": UNKNOWN_ERROR,
    "jaxsim-50": UNKNOWN_ERROR,
    "vllm-5222": broken_memory,
    "jade-hpc-gpu.github.io-194": broken_memory,
    "pytorch-130181": lambda machine: machine["gpus"][0].update(
        nvml={"index": 0, "mig": True, "mig_devices": [{"profile": "3g.40gb"}, {"profile": "3g.40gb"}]}
    ),
    "vllm-8255": cuda(2, "out of memory"),
    "legacy-rocm-build-3561": hsa(4104),
    "legacy-rocm-build-3402": hsa(4104),
}
