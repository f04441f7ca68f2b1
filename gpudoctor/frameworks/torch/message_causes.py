"""Which GPUs a message is about, and in which order its causes come in the place where it was printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.frameworks.torch.gpu_coverage import fits
from gpudoctor.frameworks.torch.message_circumstances import (
    CUDA_ON_AMD,
    INTEGRATED,
    NO_ATOMICS,
    NO_GPU_ASKED_FOR,
    NO_GPU_GIVEN,
    PACKAGE_FOR_CUDA,
)
from gpudoctor.frameworks.torch.refuted_causes import is_refuted
from gpudoctor.frameworks.torch.smoke_faults import BUSY, CRASH, NO_CODE
from gpudoctor.machine import OVERRIDE, VISIBILITY, Gpu, Vendor
from gpudoctor.matrix.versions import major_of, minor
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import without_request
from gpudoctor.situation.busy_gpus import why_busy
from gpudoctor.situation.device_nodes import nvidia_nodes
from gpudoctor.situation.no_kernel_driver import all_need_atomics
from gpudoctor.situation.nvidia_driver import cudas_too_new
from gpudoctor.situation.seen_errors import vendor_of_messages
from gpudoctor.situation.working_gpus import without_any_build

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern, GfxTarget

_OF_VENDORS = {
    "nvidia": (
        "nvidia-", "gpu-device-", "mig-", "container-toolkit-", "driver-too-old", "driver-lib-", "fabric-",
        "libcuda-",
    ),
    "amd": ("amd-", "rocm-", "torch-rocm-", "hsa-", "rocblas-", "hipblaslt-", "miopen-"),
}  # fmt: skip
"""Beginnings of slugs that are about the GPUs of one vendor only."""
CPU_BUILD, HIDDEN, NO_RIGHTS = "torch-cpu-only", "cuda-visible-devices", "amd-device-permission"
_NO_DRIVER, _NO_KFD, _OLD_DRIVER = "no-driver", "amd-kfd-missing", "driver-too-old"
CHOOSING_GPUS = (*VISIBILITY, "NVIDIA_VISIBLE_DEVICES")
_NO_TOOLKIT = "container-toolkit-missing"
_UVM, _NO_UVM = "nvidia-uvm-after-suspend", "nvidia-uvm-missing"
_OF_WSL = ("wsl-driver", "rocm-wsl-unsupported", "rocm-wsl-dxg-env")
_WITHOUT_OPEN_MODULES = "blackwell-open-module"
_OF_A_MODULE = (
    "nvidia-dkms-kernel-mismatch", "secure-boot-module-rejected", "nouveau-conflict", "module-blacklisted",
    "driver-installed-no-reboot", "nvidia-driver-dropped-gpu", "open-module-unsupported-gpu", "blackwell-open-module",
)  # fmt: skip
"""Messages of a kernel module, which WSL does not have."""
_NO_KFD_NODE = ("amd-kfd-missing", "amd-dkms-kernel-mismatch", "amd-kernel-or-runtime-too-old", "no-driver", "no-gpu")
"""Causes that the same text refutes, if its rocminfo lists a GPU; perhaps another user ran that."""
_DEVICE = re.compile(r"current device: (?P<index>\d{1,2}), in function ggml_")
_GFX = re.compile(r"\bgfx[0-9a-f]{3,4}\b")
_OF_CUDA = re.compile(
    r"lib(?:c10|torch)_cuda\b|\bnvcc\b|\bCUDA_HOME\b|\bCUDACXX\b|CMAKE_CUDA_|torch\.version\.cuda\b"
)
"""What a package that is built for CUDA asks for, and torch itself does not."""
_HELPS_CUDA = ("cuda-toolkit-", "cuda-torch-", "framework-cuda-libs-", "extension-abi")
"""Causes that are out of the question where the package is for the other vendor's GPUs."""
_OLDEST_CUDA = 11
"""Of the builds of torch and other frameworks that are still in use."""
_OLDEST_ROCM = (6, 0)
"""Of the builds of torch that are still in use: what AMD supported by then has code in each of them."""


def gpus_of(situation: Situation, row: ErrorPattern) -> tuple[Gpu, ...]:
    """The GPUs that a message is about. Of several, if code is missing, it is those that torch has none for."""
    vendor = vendor_of_messages(situation)
    gpus = situation.usable_of(vendor) if vendor and row.about == "gpu" else ()
    lacking = {fit.gpu for fit in fits(situation) if not fit.served} if row.slug in NO_CODE and len(gpus) > 1 else ()
    return _failed(situation, gpus) or tuple(gpu for gpu in gpus if gpu in lacking) or _named(situation, gpus) or gpus


def _named(situation: Situation, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Those of several GPUs that a line with a message names; () if none of its lines does."""
    told = " ".join(situation.machine.errors) if situation.machine.pasted and len(gpus) > 1 else ""
    return tuple(gpu for gpu in gpus if re.search(rf"(?i)(?<!\w){re.escape(gpu.name)}(?! ?(?:ti|super)|\w)", told))


def _failed(situation: Situation, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The one of several GPUs on which a message says that it failed, by the number that the program gives it."""
    found = _DEVICE.search(" ".join(situation.machine.errors)) if len(gpus) > 1 else None
    if found is None or any(situation.variable(name) for name in CHOOSING_GPUS):
        return ()
    return tuple(gpu for gpu in gpus if str(gpu.index) == found["index"])


def by_place(
    situation: Situation, row: ErrorPattern, causes: tuple[str, ...], vendor: Vendor | None, text: str
) -> tuple[str, ...]:
    """The causes of a message that names none, or no driver. First come those of the place where it was printed, and
    an override that is set there; last come those that rocminfo refutes, those of WSL outside WSL, and AMD's where
    the message says CUDA and nothing tells the vendor."""
    in_wsl, pasted, first = situation.in_wsl, situation.machine.text, list[str]()
    first += (NO_GPU_GIVEN,) * bool(pasted.container_command)
    apart = _OF_VENDORS["nvidia" if vendor == "amd" else "amd"] if vendor else ()
    of_cuda = vendor == "amd" and CUDA_ON_AMD in causes and row.slug != CPU_BUILD  # only programs for CUDA print it
    causes = tuple(slug for slug in causes if not slug.startswith(apart) and not (of_cuda and slug == _NO_DRIVER))
    if vendor == "amd" and ((of_cuda and situation.built_for == "amd") or _OF_CUDA.search(text)):
        causes = (PACKAGE_FOR_CUDA, *(slug for slug in causes if not slug.startswith(_HELPS_CUDA)))
        first.append(PACKAGE_FOR_CUDA)
    first += (CUDA_ON_AMD,) * of_cuda + _of_integrated(situation, row)
    if row.slug not in NO_CODE:  # such a message tells the library that lacks it
        first += ("torch-rocm-no-arch-for-gpu",) * without_any_build(situation)
    first += (HIDDEN,) * _names_another_gpu(situation)
    first += (NO_RIGHTS,) * (row.slug == CPU_BUILD and situation.built_for == "amd")
    first += (BUSY,) * any(map(why_busy, gpus_of(situation, row)))
    first += (NO_GPU_ASKED_FOR,) * without_request(situation)
    first += (_NO_UVM,) * (_UVM in row.causes and _lacks_uvm(situation))
    first += (_WITHOUT_OPEN_MODULES,) * (row.slug != _NO_DRIVER and _may_lack_open_modules(situation))
    if row.slug not in (CRASH, _NO_DRIVER, _NO_KFD):
        first += ("wsl-driver",) * (in_wsl and row.slug not in _OF_WSL)
        if row.slug == _NO_TOOLKIT and is_refuted(situation, _NO_TOOLKIT):  # Docker Desktop has it, and no driver
            causes = ("wsl-driver", *causes)
        return tuple(sorted(causes, key=lambda slug: slug not in first))
    if in_wsl and "amd" in (vendor, row.vendor):  # no container there has /dev/kfd
        first += ("rocm-wsl-unsupported", "rocm-wsl-dxg-env")
    if pasted.gpus_given:  # what else keeps them from the program is not its container
        causes = tuple(slug for slug in causes if slug != NO_GPU_GIVEN)
        first += (NO_RIGHTS,) * (vendor == "amd")
    elif situation.in_container:
        first += (NO_GPU_GIVEN, _NO_TOOLKIT, _NO_UVM, NO_RIGHTS)
    if in_wsl:
        first.append("wsl-driver")
        causes = tuple(slug for slug in causes if slug not in _OF_A_MODULE)
    if situation.variable(OVERRIDE):
        first.append("hsa-override-wrong")
    if any(major_of(cuda) <= _OLDEST_CUDA for cuda, _ in cudas_too_new(situation)):
        first.append(_OLD_DRIVER)
    if _NO_KFD in causes and not situation.in_container and all_need_atomics(situation):
        first.append(NO_ATOMICS)
    order = {slug: place for place, slug in enumerate(first)}
    hsa = situation.machine.amd.hsa.value
    last = (() if in_wsl else _OF_WSL) + (_NO_KFD_NODE if hsa and hsa.lists_gpu else ())
    if situation.machine.pasted and vendor == "amd" and not any(situation.variable(name) for name in CHOOSING_GPUS):
        last += (HIDDEN,)  # HIP ignores empty ones: only one that somebody set hides the GPU
    in_docker = situation.machine.system.container.value == "docker"
    if pasted.gpus_given and in_docker and HIDDEN in causes:
        last += (_NO_KFD,)  # Docker refuses a node that is missing
    unlikely = _OF_VENDORS["amd"] if vendor is None and "CUDA" in text else ()
    return tuple(
        sorted(causes, key=lambda slug: (order.get(slug, len(first)), slug in last or slug.startswith(unlikely)))
    )


def _of_integrated(situation: Situation, row: ErrorPattern) -> tuple[str, ...]:
    """The cause where the messages name the target of an integrated GPU, and the discrete one has another, which they
    need not name beside a GPU for the screen; or name none, and of the two GPUs every build has code for the discrete
    one alone."""
    named = _GFX.search(" ".join(situation.machine.errors))
    gpus, target_of = situation.machine.of_vendor("amd"), situation.matrix.gpus.target
    discrete = {gpu.arch.value or "" for gpu in gpus if not gpu.integrated}
    for_display = [target is not None and target.for_display for target in map(target_of, _archs(gpus))]
    if row.slug in NO_CODE and INTEGRATED in row.also and for_display and all(for_display):
        return (INTEGRATED,)
    if not discrete or INTEGRATED not in row.also or (named and named[0] in discrete):
        return ()
    if failed := _failed(situation, gpus):
        return (INTEGRATED,) if failed[0].integrated else ()
    beside = {named[0]} if named else {gpu.arch.value or "" for gpu in gpus if gpu.integrated}
    others = [target for gfx in beside if (target := target_of(gfx)) and target.kind == "apu"]
    if named is None and not all((target := target_of(gfx)) and _is_in_every_build(target) for gfx in discrete):
        return ()
    return (INTEGRATED,) if others and (named or not any(other.official_from for other in others)) else ()


def _archs(gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    return tuple(gpu.arch.value or "" for gpu in gpus)


def _names_another_gpu(situation: Situation) -> bool:
    """Whether a visibility variable names only GPUs after the first, and the machine has no second one."""
    if len(situation.machine.gpus) > 1:
        return False
    values = (situation.variable(name) for name in CHOOSING_GPUS)
    numbers = [value.split(",") for value in values if value and re.fullmatch(r"\d{1,3}(?:,\d{1,3})*", value)]
    return any("0" not in listed for listed in numbers)


def _may_lack_open_modules(situation: Situation) -> bool:
    """Whether all GPUs need the open kernel modules, and nobody said that these are installed: most drivers that
    people install by hand are not."""
    gpus, flavour = situation.machine.of_vendor("nvidia"), situation.matrix.nvidia.module_flavour
    needed = bool(gpus) and all(flavour(gpu.arch.value, gpu.name) == "required" for gpu in gpus)
    return needed and situation.machine.assumes("open kernel module")


def _lacks_uvm(situation: Situation) -> bool:
    """Whether the node of nvidia_uvm is not there, beside others of NVIDIA."""
    nodes = nvidia_nodes(situation)
    return nodes is not None and "/dev/nvidiactl" in nodes and "/dev/nvidia-uvm" not in nodes


def _is_in_every_build(target: GfxTarget) -> bool:
    return target.official_from is not None and minor(target.official_from) <= _OLDEST_ROCM
