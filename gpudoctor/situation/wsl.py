"""WSL2: the vendor of the GPUs behind /dev/dxg."""

from __future__ import annotations

from gpudoctor.finding import Fix, Manual
from gpudoctor.machine import Vendor
from gpudoctor.situation import Situation

UPDATE_WINDOWS = Fix(
    "Update the Windows driver and WSL",
    (
        Manual(
            "In Windows: install the current NVIDIA driver, then `wsl --update` and `wsl --shutdown`; the system "
            "must be WSL 2 (`wsl -l -v`). Do not install a Linux driver inside WSL."
        ),
    ),
)
"""The fix where the driver of Windows does not answer."""

NO_AMDGPU_HERE = Fix(
    "Check that ROCm for WSL supports this system",
    (
        Manual(
            "WSL has no amdgpu module and no /dev/kfd: ROCm reaches the GPU through Windows' driver. AMD's "
            "compatibility matrix for WSL names the GPUs, the distributions and the drivers of Windows; with another "
            "GPU, use Linux without WSL."
        ),
    ),
)
"""The fix where ROCm finds no GPU inside WSL."""

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
    if machine.amd.rocm.value or machine.load_path.first("librocdxg.so"):
        vendors.add("amd")
    return frozenset(vendors)


def of_another_vendor(situation: Situation) -> Vendor | None:
    """The vendor whose GPUs Windows offers, if torch is built for the other vendor and nothing shows a GPU of that
    one. None if torch counts a GPU."""
    trial = situation.torch.trial.value if situation.torch else None
    if not situation.machine.system.wsl.known or dxg_opens(situation) is False or (trial and trial.device_count):
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
    row = situation.matrix.wsl_rocm(situation.torch.rocm) if situation.torch and situation.torch.rocm else None
    if row is None:
        return None
    value = situation.variable("HSA_ENABLE_DXG_DETECTION")
    return value == "1" if row.dxg_variable else value != "0"
