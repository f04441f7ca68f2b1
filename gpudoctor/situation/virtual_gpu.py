"""Parts of GPUs that a hypervisor lends (NVIDIA vGPU): which GPUs are such, and what their type allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.matrix.names import vgpu_series
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.kernel_log import lines_of, refusing_driver

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import VgpuSeries

_LENT = ("host-vgpu", "host-vsga")
_HOST_MODULE = "nvidia_vgpu_vfio"
UNSUPPORTED = "nvidia-unsupported"
"""The kind of the line in which a driver says that it does not support a GPU."""


def is_vgpu(gpu: Gpu) -> bool:
    """Whether a GPU is a part that a hypervisor lends: NVML says so, else its name ends in the type of a vGPU
    ("NVIDIA A10-24Q")."""
    mode = gpu.asked.virtualization
    return mode == "vgpu" if mode else vgpu_series(gpu.name) is not None


def series_of(situation: Situation, gpu: Gpu) -> VgpuSeries | None:
    """What the matrix knows of a vGPU's series."""
    series = vgpu_series(gpu.name) if is_vgpu(gpu) else None
    return next((row for row in situation.matrix.tables.vgpu_series if row.series == series), None)


def hosts_vgpus(situation: Situation) -> bool:
    """Whether the driver is that of a vGPU host, which has no CUDA."""
    modes = [gpu.nvml.virtualization for gpu in situation.machine.of_vendor("nvidia") if gpu.nvml]
    loaded = situation.machine.nvidia.modules_loaded.value or ()
    return any(mode in _LENT for mode in modes) or _HOST_MODULE in loaded


def refused_in_guest(situation: Situation, gpu: Gpu) -> tuple[LogFault, ...]:
    """Lines of a driver that says that it does not support the GPU, though it lists it: in a virtual machine the GPU
    is a vGPU, and needs the guest driver. Where nothing tells whether this is one, GPUs of data centres may be."""
    virtual = situation.machine.system.virtual_machine
    lent = virtual.known or is_vgpu(gpu) or (virtual.undecided and gpu.datacenter)
    if not lent or situation.in_wsl or not gpu.arch.value:
        return ()
    return tuple(line for line in lines_of(situation, gpu, (UNSUPPORTED,)) if _made_for(situation, gpu, line))


def _made_for(situation: Situation, gpu: Gpu, line: LogFault) -> bool:
    """Whether the driver that a line names drives this GPU if it is whole."""
    named, nvidia = refusing_driver(line.line), situation.matrix.nvidia
    first, last = nvidia.first_driver(gpu.arch.value, gpu.chip), nvidia.last_branch(gpu.arch.value)
    if named is None or nvidia.first_listing(gpu.pci_id, named):
        return False
    driver = figures(named)
    return (first is None or driver >= figures(first)) and (last is None or driver[:1] <= figures(last)[:1])


def guest_driver(branch: str = "") -> Fix:
    """The fix that gives a vGPU its driver. The host's branch decides; only its administrator knows it."""
    which = f"of branch {branch} " if branch else ""
    text = (
        f"Ask the hypervisor's administrator for the vGPU guest driver {which}(from NVIDIA's vGPU software). The "
        "drivers on NVIDIA's site, in its CUDA repository and in distributions refuse a vGPU. The guest driver must "
        "be of the branch of the host's vGPU manager, or of the branch before it (of two long-term branches, the "
        "one before): never newer."
    )
    return by_hand(f"Install the vGPU guest driver {branch}".rstrip(), text, "reboot")


def more_address_space() -> Fix:
    """For a GPU that is passed through to a virtual machine, whose firmware setup has no such switches."""
    text = (
        "Let the virtual machine start with UEFI (OVMF) and the machine type q35, and give it an address space above "
        "4 GiB that is larger than the GPU's memory. QEMU: `-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=262144`; "
        "VMware: pciPassthru.use64bitMMIO = TRUE and pciPassthru.64bitMMIOSizeGB. If that does not help, switch on "
        '"Above 4G Decoding" in the firmware setup of the host.'
    )
    return by_hand("Give the virtual machine more address space for the GPU", text, "reboot")
