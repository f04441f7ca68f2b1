"""What goes wrong with GPUs in containers: each case with what `gpudoctor preflight` must say of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from tests.support.containers import Node
from tests.support.environments import shared_library
from tests.support.hosts import VENV
from tests.support.stubbed_driver import CUDA, HSA, NVML

RENDER = 993
"""Number of the group that owns the AMD nodes: no name in the image stands for it."""

LIB = "/usr/lib/x86_64-linux-gnu"


class Case(Struct, frozen=True):
    """`slug` is the first finding, "" where the command must start; each of `words` must be in the refusal."""

    name: str
    node: Callable[[Path], Node]
    slug: str = ""
    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    environ: dict[str, str] = {}
    gpu: bool = True

    @property
    def code(self) -> int:
        return 121 if self.slug else 0


def nvidia(
    root: Path, *, gpu: str = "2684", driver: str = "580.95.05", torch: str = "2.9.1+cu128", **host: object
) -> Node:
    node = Node(root)
    node.ubuntu().nvidia_gpu(gpu).nvidia_driver(driver, **host)  # type: ignore[arg-type]
    node.torch(torch, python="3.11")
    return node


def amd(root: Path) -> Node:
    node = Node(root)
    node.ubuntu().amd_gpu("744c", 110000).torch("2.9.1+rocm6.4", python="3.11")
    node.node("/dev/kfd", mode="0660", gid=RENDER).node("/dev/dri/renderD128", mode="0660", gid=RENDER)
    return node


def without(make: Callable[[Path], Node], *paths: str) -> Callable[[Path], Node]:
    """The node without these device nodes in the container."""

    def made(root: Path) -> Node:
        node = make(root)
        for path in paths:
            node.json["nodes"].pop(path)
        return node

    return made


def no_control(root: Path) -> Node:
    """A node that hands out a GPU and forgets what all GPUs need."""
    return without(nvidia, "/dev/nvidiactl")(root)


def refusing(make: Callable[[Path], Node], *paths: str) -> Callable[[Path], Node]:
    return lambda root: make(root).cgroup_refuses(*paths)


def of_root(root: Path) -> Node:
    node = nvidia(root)
    for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"):
        node.node(path, mode="0600")
    return node


def of_a_group(root: Path) -> Node:
    node = nvidia(root)
    for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"):
        node.node(path, mode="0660", gid=44)
    return node


def no_host_driver(root: Path) -> Node:
    node = Node(root)
    node.ubuntu().nvidia_gpu("2684", driver=None).torch("2.9.1+cu128", python="3.11")
    return node


def nouveau(root: Path) -> Node:
    node = Node(root)
    node.ubuntu().nvidia_gpu("2684", driver="nouveau").module("nouveau")
    node.torch("2.9.1+cu128", python="3.11")
    return node


def no_amd_driver(root: Path) -> Node:
    node = Node(root)
    node.ubuntu().amd_gpu("744c", 110000, driver=None, kfd=False).torch("2.9.1+rocm6.4", python="3.11")
    return node


def baked(root: Path) -> Node:
    """The image has the libraries of an older driver where the host's would be mounted."""
    node = nvidia(root, libraries=None)
    for stem in ("libcuda", "libnvidia-ml"):
        node.in_image(f"{LIB}/{stem}.so.535.129.03", shared_library(soname=f"{stem}.so.1"))
        node.link(f"/image{LIB}/{stem}.so.1", f"{stem}.so.535.129.03")
    return node


def compat(root: Path, gpu: str, driver: str, version: str, torch: str) -> Node:
    node = nvidia(root, gpu=gpu, driver=driver, torch=torch)
    node.in_image(f"/usr/local/cuda/compat/libcuda.so.{version}", shared_library(soname="libcuda.so.1"))
    node.link("/image/usr/local/cuda/compat/libcuda.so.1", f"libcuda.so.{version}")
    return node


_OPENS_NODES = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static int opens(const char *path) { int f = open(path, O_RDWR); if (f >= 0) close(f); return f >= 0; }
__attribute__((constructor)) static void look(void) {
  if (!opens("/dev/nvidiactl")) { setenv("STUB_NVML", "999", 1); setenv("STUB_CUDA", "100", 1); }
  else if (!opens("/dev/nvidia0")) { setenv("STUB_GPUS", "0", 1); setenv("STUB_CUDA", "100", 1); }
  else if (!opens("/dev/nvidia-uvm")) setenv("STUB_CUDA", "999", 1);
}
"""


def answering(root: Path, **host: object) -> Node:
    """A node whose driver libraries answer as variables STUB_NVML and STUB_CUDA tell them: an H100.
    Like the real ones they do not start without their device nodes."""
    node = Node(root)
    node.ubuntu().nvidia_gpu("2330", "0000:ac:00.0").nvidia_driver("580.95.05", **host)  # type: ignore[arg-type]
    node.torch("2.9.1+cu128", python="3.11")
    for name, code in (("libnvidia-ml", NVML), ("libcuda", CUDA)):
        source = node.path(f"/{name}.c")
        source.write_text(code + _OPENS_NODES)
        out = str(node.path(f"{LIB}/{name}.so.580.95.05"))
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}.so.1", "-o", out, str(source)], check=True
        )
    return node


_OPENS_KFD = r"""
#include <fcntl.h>
static int opens(const char *path) { int f = open(path, O_RDWR); if (f >= 0) close(f); return f >= 0; }
__attribute__((constructor)) static void look(void) {
  if (!opens("/dev/kfd") || !opens("/dev/dri/renderD128")) setenv("STUB_HSA", "0x1008", 1);
}
"""


def amd_answering(root: Path) -> Node:
    """A node whose torch brings a ROCm runtime that answers as STUB_HSA tells it: an RX 7900 XTX."""
    node = amd(root)
    source = node.path("/hsa.c")
    source.write_text(HSA.replace("0xA00F) *(uint32_t *)v = 1", "0xA00F) *(uint32_t *)v = 0") + _OPENS_KFD)
    out = node.path(f"{VENV}/lib/python3.11/site-packages/torch/lib/libhsa-runtime64.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", str(out), str(source)], check=True)
    return node


COMPAT = {"LD_LIBRARY_PATH": "/usr/local/cuda/compat"}
NVIDIA_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
ORDINARY_USER = ("--user", "1234:5678")
NO_TOKEN = ("podman run --device nvidia.com/gpu=all", "devices: [nvidia.com/gpu=all]", "limits: {nvidia.com/gpu: 1}")

CASES = (
    # --- healthy ---
    Case("NVIDIA: a GPU, as the toolkit gives it", nvidia),
    Case("NVIDIA: another user, no name for it", nvidia, options=ORDINARY_USER),
    Case("NVIDIA: CDI and operators say void", nvidia, environ={"NVIDIA_VISIBLE_DEVICES": "void"}),
    Case("NVIDIA: VISIBLE_DEVICES=none, and a GPU is there", nvidia, environ={"NVIDIA_VISIBLE_DEVICES": "none"}),
    Case("AMD: a GPU", amd),
    Case("AMD: another user with the group's number", amd, options=(*ORDINARY_USER, "--group-add", str(RENDER))),
    Case(
        "NVIDIA: compat library on a data-centre GPU",
        lambda root: compat(root, "2330", "535.129.03", "570.86.15", "2.9.1+cu128"),
        environ=COMPAT,
    ),
    # --- the host ---
    Case("the host has no driver", no_host_driver, "no-driver", ("On the host", "driver"), gpu=False),
    Case("the host's GPU is held by nouveau", nouveau, "nouveau-conflict", ("host",), gpu=False),
    Case("AMD: the host has no driver", no_amd_driver, "no-driver", ("host", "amdgpu"), gpu=False),
    Case(
        "the toolkit is missing: a GPU was asked for by name", nvidia, "container-toolkit-missing",
        ("nvidia-container-toolkit", "nvidia-ctk runtime configure"),
        environ={"NVIDIA_VISIBLE_DEVICES": "0"}, gpu=False,
    ),
    # --- how it was started ---
    Case("NVIDIA: started without --gpus", nvidia, "container-no-gpu", NO_TOKEN, gpu=False),
    Case(
        "NVIDIA: the same, NVIDIA_VISIBLE_DEVICES=all from the image", nvidia, "container-no-gpu", NO_TOKEN,
        environ={"NVIDIA_VISIBLE_DEVICES": "all"}, gpu=False,
    ),
    Case(
        "NVIDIA: the same, NVIDIA_VISIBLE_DEVICES=void", nvidia, "container-no-gpu", NO_TOKEN,
        environ={"NVIDIA_VISIBLE_DEVICES": "void"}, gpu=False,
    ),
    Case(
        "NVIDIA: nodes without the driver's libraries", lambda root: nvidia(root).without_libraries(),
        "container-no-gpu", ("libcuda",),
    ),
    Case("NVIDIA: /dev/nvidia0 without /dev/nvidiactl", no_control, "container-no-gpu", NO_TOKEN),
    Case(
        "NVIDIA: the same, and no libraries", lambda root: no_control(root).without_libraries(),
        "container-no-gpu", NO_TOKEN,
    ),
    Case("NVIDIA: no uvm node", without(nvidia, "/dev/nvidia-uvm"), "nvidia-uvm-missing", ("nvidia-modprobe",)),
    Case(
        "AMD: started without --device", amd, "container-no-gpu",
        ("--device /dev/kfd --device /dev/dri", "devices:", "amd.com/gpu"), gpu=False,
    ),
    Case(
        "AMD: /dev/kfd without /dev/dri", without(amd, "/dev/dri/renderD128"), "container-no-gpu",
        ("--device /dev/dri", f"--group-add {RENDER}", "amd.com/gpu"),
    ),
    Case(
        "AMD: /dev/dri without /dev/kfd", without(amd, "/dev/kfd"), "container-no-gpu",
        ("--device /dev/kfd", f"--group-add {RENDER}", "amd.com/gpu"),
    ),
    # --- rights ---
    Case(
        "NVIDIA: nodes of root alone", of_root, "gpu-device-permission",
        ("On the host", "NVreg_DeviceFileMode=0666"), options=ORDINARY_USER,
    ),
    Case(
        "NVIDIA: nodes of a group", of_a_group, "gpu-device-permission",
        ("--group-add 44", "supplementalGroups: [44]"), options=ORDINARY_USER,
    ),
    Case(
        "AMD: not in the nodes' group", amd, "amd-device-permission",
        (f"--group-add {RENDER}", f"[{RENDER}]", f"supplementalGroups: [{RENDER}]"), options=ORDINARY_USER,
    ),
    Case(
        "AMD: in the wrong group", amd, "amd-device-permission",
        (f"--group-add {RENDER}", f"supplementalGroups: [{RENDER}]"),
        options=(*ORDINARY_USER, "--group-add", "video"),
    ),
    # --- the device cgroup ---
    Case(
        "NVIDIA: the cgroup was revoked", refusing(nvidia, *NVIDIA_NODES), "container-cgroup-revoked",
        ("create it again", "more flags, does not help", "podman rm -f", "kubectl delete pod"),
    ),
    Case("NVIDIA: the cgroup refuses nvidiactl", refusing(nvidia, "/dev/nvidiactl"), "container-cgroup-revoked"),
    Case("NVIDIA: the cgroup refuses the only GPU", refusing(nvidia, "/dev/nvidia0"), "container-cgroup-revoked"),
    Case("NVIDIA: the cgroup refuses uvm", refusing(nvidia, "/dev/nvidia-uvm"), "container-cgroup-revoked"),
    Case("AMD: the cgroup refuses kfd", refusing(amd, "/dev/kfd"), "container-cgroup-revoked", ("Recreate",)),
    Case("AMD: the cgroup refuses the render node", refusing(amd, "/dev/dri/renderD128"), "container-cgroup-revoked"),
    # --- libraries against the host ---
    Case("libcuda baked into the image", baked, "container-libcuda-baked-in", ("Build the image without",)),
    Case(
        "compat library on a GPU that cannot use it",
        lambda root: compat(root, "2684", "535.129.03", "570.86.15", "2.9.1+cu128"), "cuda-compat-on-geforce",
        ("compat",), environ=COMPAT,
    ),
    Case(
        "host driver older than this image's CUDA",
        lambda root: nvidia(root, driver="535.129.03", torch="2.9.1+cu130"),
        "driver-too-old", ("580",),
    ),
    # --- jobs ---
    Case(
        "a Slurm job that was given no GPU", nvidia, "job-without-gpu", ("--gres=gpu:1",),
        environ={"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": ""}, gpu=False,
    ),
    Case(
        "a Slurm CPU task on purpose hides its GPUs; gpu>=1 was asked for", nvidia, "requirement-not-met", (),
        environ={"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": ""},
    ),
)  # fmt: skip
