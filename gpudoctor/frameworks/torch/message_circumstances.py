"""What a person tells around a message: whether it is about that message, and the fixes where it tells the cause, and
the message does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.finding import Fix, by_hand
from gpudoctor.frameworks.torch.smoke_faults import BUSY, CRASH, NO_CODE
from gpudoctor.machine import OVERRIDE, Gpu, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import WITHOUT_GPU, ask_for_gpus
from gpudoctor.situation.container_start import started_again

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern, ToldCircumstance

NO_GPU_GIVEN, NO_GPU_ASKED_FOR = "container-no-gpu", WITHOUT_GPU
CUDA_ON_AMD, INTEGRATED = "cuda-torch-on-amd", "amd-igpu-interferes"
PACKAGE_FOR_CUDA, NO_ATOMICS = "framework-other-vendor", "amd-pcie-atomics"
_HAS_CODE_FOR = re.compile(r"supported_types=\"?\[(?P<all>[^\]]*)")
"""ollama's list of the targets that its libraries have code for."""

FIND_THE_LIBRARY = by_hand(
    "Find the library that was called",
    "The last lines of the traceback name the package that was called: install a build of it for this GPU. "
    'Check with `python -c "import torch; print(torch.__file__, torch.__version__)"` that this torch is the '
    "one that the program imports.",
)
SEE_ROCMINFO = by_hand(
    "See whether ROCm finds the GPU",
    "Run rocminfo as the user of the program. If it lists no GPU: `sudo usermod -aG render,video $USER` and log in "
    "again; in a container give it /dev/kfd and /dev/dri and these groups. If it lists the GPU, unset "
    "HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES.",
)
_GIVE_GPUS = by_hand(
    "Give the container the GPUs",
    "On the host, run `sudo nvidia-ctk runtime configure --runtime=docker` (or containerd) and restart it. "
    "Docker: start the container with `--gpus all`. Podman: with `--device nvidia.com/gpu=all`. Kubernetes: "
    "give the pod `runtimeClassName: nvidia`, or make nvidia the default runtime of the node. AMD: "
    "`--device /dev/kfd --device /dev/dri`.",
)
_GIVE_AMD_GPUS = by_hand(
    "Give the container the GPUs",
    "Start the container with `--device /dev/kfd --device /dev/dri --group-add video --group-add render` "
    "(rootless Podman: `--group-add keep-groups`). If the host has no /dev/kfd either, load amdgpu there.",
)
_GIVE_UVM = by_hand(
    "Load nvidia_uvm",
    "On the host: `sudo nvidia-modprobe -c 0 -u`, and at each boot (the line nvidia-uvm in a file of "
    "/etc/modules-load.d). A container needs /dev/nvidia-uvm and /dev/nvidia-uvm-tools beside the other nodes, and "
    "they must be there before it starts (Docker: `--device`; LXC: entries for the mount and for the device cgroup).",
)
_BUILD_FOR_AMD = by_hand(
    "Install a build for AMD's GPUs",
    "For torch, take a ROCm build: `gpudoctor recommend --gpu NAME` names it and its index. A program that "
    "exists for CUDA only cannot use an AMD GPU: use the CPU there, or another program.",
)
_PACKAGE_FOR_ROCM = by_hand(
    "Install the build of the package for ROCm",
    "Its documentation, or AMD's fork below github.com/ROCm, names the build; it must fit the torch that is "
    "installed. If there is none, remove the package, and switch off in the program what uses it.",
)
_HIDE_INTEGRATED = by_hand(
    "Hide the integrated GPU",
    "Set HIP_VISIBLE_DEVICES to the number of the other GPU (0, or 1 where the integrated one comes first), "
    "or switch the integrated GPU off in the BIOS.",
)
_END_OTHERS = by_hand(
    "End the programs that hold the GPU's memory",
    "`nvidia-smi` (AMD: `rocm-smi --showpids`) lists them; then run the program again. If it is the only "
    "one, let it need less memory.",
)
_OPEN_MODULES = by_hand(
    "Install the open kernel modules of the driver",
    "These GPUs start with the open kernel modules alone. Ubuntu: nvidia-driver-580-open; Debian, RHEL and Arch: "
    "nvidia-open; NVIDIA's installer: `--kernel-module-type=open`. Then reboot. If `modinfo -F license nvidia` "
    "names MIT, they are installed: read `sudo dmesg | grep -i nvrm`.",
)
_RIGHTS_OF_AMD = by_hand(
    "Give the user the right to AMD's nodes",
    "`sudo usermod -aG render,video $USER`, then log in again. A container has groups of its own: start it with "
    "`--group-add $(stat -c %g /dev/kfd) --group-add $(stat -c %g /dev/dri/renderD128)`, rootless podman with "
    "`--group-add keep-groups`.",
)
_GIVEN = {
    "amd-device-permission": _RIGHTS_OF_AMD,
    BUSY: _END_OTHERS,
    NO_GPU_GIVEN: _GIVE_GPUS,
    "nvidia-uvm-missing": _GIVE_UVM,
    "blackwell-open-module": _OPEN_MODULES,
    CUDA_ON_AMD: _BUILD_FOR_AMD,
    PACKAGE_FOR_CUDA: _PACKAGE_FOR_ROCM,
    INTEGRATED: _HIDE_INTEGRATED,
}
_NO_GPU_FOUND = frozenset(("no-driver", "torch-cpu-only", "program-on-cpu", "container-no-gpu"))
"""Causes of messages that only say that no GPU was found."""
_SAME_AGAIN = "program-on-cpu"
"""That a program finds no GPU is what such a message says already: it is no cause of it."""


def tells_of(circumstance: ToldCircumstance, row: ErrorPattern, causes: tuple[str, ...]) -> bool:
    """Whether a circumstance is about this message: it names one of its causes, or why no GPU is found. That a
    program has libraries of its own tells what to install where code is missing, and nothing of other faults."""
    if not circumstance.of_torch:
        return row.slug in NO_CODE and row.of_torch
    if circumstance.slug in causes:
        return True
    if circumstance.slug == _SAME_AGAIN:
        return False
    open_ = row.slug == CRASH or row.slug in _NO_GPU_FOUND
    ranks = circumstance.severity == "error" and not circumstance.of_message
    return open_ and ranks and bool(_NO_GPU_FOUND.intersection(causes))


def beyond(row: ErrorPattern, circumstances: tuple[ToldCircumstance, ...]) -> list[ToldCircumstance]:
    """What a person tells that the message does not. One that names the same cause knows more of it, but not what the
    person tried."""
    return [one for one in circumstances if one.of_message or one.slug != row.slug]


def suggested(row: ErrorPattern, circumstances: tuple[ToldCircumstance, ...]) -> str:
    """That, in a sentence behind the meaning of the message."""
    told = beyond(row, circumstances)[:1]
    return "".join(f" Something else in the text suggests that {one.meaning}." for one in told)


def fix_for(cause: str, vendor: Vendor | None, container_command: str = "", job: str = "slurm") -> Fix | None:
    """The fix of a cause that the circumstances tell; `container_command` started the container, `job` is the batch
    system."""
    if cause == NO_GPU_ASKED_FOR:
        return ask_for_gpus(job)
    fix = _GIVEN.get(cause)
    if fix is not _GIVE_GPUS:
        return fix
    return started_again(container_command, vendor) or (_GIVE_AMD_GPUS if vendor == "amd" else fix)


def override_for_program(situation: Situation, gpus: tuple[Gpu, ...], text: str) -> tuple[Fix, ...]:
    """The value that makes an AMD GPU run as one of its generation, in the place where a program of its own reads it.
    `text` may list the targets that the program has code for."""
    gpu = gpus[0] if gpus else None
    arch = gpu.arch.value if gpu and gpu.vendor == "amd" else None
    policy = situation.matrix.amd.override(arch)
    if policy is None or not policy.within_generation:
        return ()
    named = situation.matrix.amd.gfx_of_override(policy.value)
    listed = _HAS_CODE_FOR.search(text)
    if named in (None, arch) or (listed and named not in listed["all"].split()):
        return ()
    setting = f"{OVERRIDE}={policy.value}"
    place = (
        f"A program that you start yourself: `export {setting}` before it. A container: `-e {setting}`. "
        f'ollama as a service: `sudo systemctl edit ollama`, under [Service] `Environment="{setting}"`, then '
        "`sudo systemctl restart ollama`; a variable in .bashrc does not reach it."
    )
    return (by_hand(f"Make the GPU run as {named} with {setting}", place),)
