"""WSL2: the vendor of the GPUs behind /dev/dxg, and which of them ROCm supports there."""

from __future__ import annotations

import re

from gpudoctor.finding import by_hand
from gpudoctor.machine import Gpu, Vendor
from gpudoctor.situation import Situation

UPDATE_WINDOWS = by_hand(
    "Update the Windows driver and WSL",
    "In Windows: install the current NVIDIA driver, then `wsl --update` and `wsl --shutdown`; the system "
    "must be WSL 2 (`wsl -l -v`). Do not install a Linux driver inside WSL.",
)
"""The fix where the driver of Windows does not answer."""

NO_AMDGPU_HERE = by_hand(
    "Check that ROCm for WSL supports this system",
    "WSL has no amdgpu module and no /dev/kfd: ROCm reaches the GPU through Windows' driver. AMD's "
    "compatibility matrix for WSL names the GPUs, the distributions and the drivers of Windows; with another "
    "GPU, use Linux without WSL.",
)
"""The fix where ROCm finds no GPU inside WSL."""

OUTSIDE_WSL = by_hand(
    "Run on native Linux or Windows",
    "Use native Linux or PyTorch for Windows with this GPU. Inside WSL, use Ubuntu 22.04 or 24.04 with a GPU "
    "and a release from AMD's WSL list.",
    elsewhere=True,
)
"""The fix where ROCm inside WSL does not support the GPU."""

BRIDGE = "librocdxg.so"
"""The library through which ROCm from 7.2 on reaches the driver of Windows."""

DXG_VARIABLE = "HSA_ENABLE_DXG_DETECTION"

WHEEL_RUNTIME = "libhsa-runtime64.so"
"""AMD's guide to torch in WSL deletes it from torch/lib."""


def behind_windows(situation: Situation) -> frozenset[Vendor]:
    """The vendors whose GPUs this WSL system may use, as far as anything shows it: GPUs that a driver or runtime
    lists, the libcuda that Windows' NVIDIA driver puts into /usr/lib/wsl/lib, an installed ROCm or its librocdxg."""
    machine = situation.machine
    vendors: set[Vendor] = {gpu.vendor for gpu in machine.gpus}
    libraries = (*machine.load_path.found, *machine.load_path.beside)
    if any(library.kind == "wsl" and library.name.startswith("libcuda.so") for library in libraries):
        vendors.add("nvidia")
    if machine.amd.rocm.value or machine.load_path.first(BRIDGE):
        vendors.add("amd")
    return frozenset(vendors)


def of_another_vendor(situation: Situation) -> Vendor | None:
    """The vendor whose GPUs Windows offers, if torch is built for the other vendor and nothing shows a GPU of that
    one. None if torch counts a GPU."""
    trial = situation.torch_trial
    if not situation.in_wsl or dxg_opens(situation) is False or (trial and trial.device_count):
        return None
    offered = behind_windows(situation)
    return next(iter(offered)) if offered and situation.built_for and situation.built_for not in offered else None


def dxg_opens(situation: Situation) -> bool | None:
    """Whether /dev/dxg is present; None if nobody could look."""
    nodes = situation.machine.nvidia.nodes
    if nodes.value is not None:
        return any(node.path == "/dev/dxg" and node.opened != "ENOENT" for node in nodes.value)
    return False if nodes.absent else None


def looks_behind_dxg(situation: Situation) -> bool | None:
    """Whether torch's ROCm looks for a GPU behind /dev/dxg; None if the matrix does not know that release."""
    row = situation.matrix.amd.wsl_rocm(situation.torch.rocm) if situation.torch and situation.torch.rocm else None
    if row is None:
        return None
    value = situation.variable(DXG_VARIABLE)
    return value == "1" if row.dxg_variable else value != "0"


def never_in_wsl(situation: Situation, gpu: Gpu) -> bool:
    """Whether this is WSL, and no ROCm release supports an AMD GPU there. False where the runtime or torch counts a
    GPU all the same."""
    machine, arch = situation.machine, gpu.arch.value
    if not situation.in_wsl or gpu.vendor != "amd" or arch is None:
        return False
    hsa, trial = machine.amd.hsa.value, situation.torch_trial
    counted = (hsa and hsa.lists_gpu) or (trial and trial.device_count)
    return not counted and not situation.matrix.amd.supported_in_wsl(arch)


def refused_in_wsl(situation: Situation, rocm: str, gpu: Gpu) -> bool:
    """Whether AMD's documents leave a GPU out for that ROCm release inside WSL."""
    row = situation.matrix.amd.wsl_rocm(rocm)
    if never_in_wsl(situation, gpu):
        return True
    if row is None or gpu.arch.value is None:
        return False
    left_out = any(_is_product(name, gpu.name) for name in row.excluded_names)
    return left_out or bool(row.gfx and gpu.arch.value not in row.gfx)


def _is_product(listed: str, name: str) -> bool:
    """Whether a GPU's name ends in a listed product name ("RX 7700", not "RX 7700 XT")."""
    return re.search(rf"(^|\s){re.escape(listed)}$", name, re.IGNORECASE) is not None


def against_build_in_wsl(situation: Situation, rocm: str, gpus: tuple[Gpu, ...]) -> str:
    """Why a build of torch for that ROCm finds no GPU inside WSL; "" if it does, or this is no WSL."""
    if not situation.in_wsl:
        return ""
    if situation.matrix.amd.wsl_runtime(rocm) != "wheel":
        return "the ROCm runtime in it finds no GPU inside WSL (from ROCm 7.2 on it does)"
    refused = [gpu for gpu in gpus if refused_in_wsl(situation, rocm, gpu)]
    return f"ROCm {rocm} does not support {refused[0].name} inside WSL" if refused else ""


def needed_in_wsl(situation: Situation, rocm: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that a build for that ROCm needs inside WSL, and in words what must be installed beside it."""
    if not situation.in_wsl:
        return {}, ()
    row = situation.matrix.amd.wsl_rocm(rocm)
    unset = row is not None and row.dxg_variable and situation.variable(DXG_VARIABLE) != "1"
    there = situation.machine.load_path.first(BRIDGE) or (row and row.librocdxg)
    bridge = (
        "inside WSL it also needs librocdxg (github.com/ROCm/librocdxg/releases) and a current AMD driver of Windows"
    )
    return {DXG_VARIABLE: "1"} if unset else {}, () if there else (bridge,)
