"""One GPU of the machine."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.machine.board import Board
from gpudoctor.machine.facts import Fact, Record, Vendor, unknown
from gpudoctor.machine.nvidia import NvmlDevice

_RESERVING = ("vfio-pci", "nvgrace-gpu-vfio-pci", "pci-stub", "pciback", "xen-pciback", "uio_pci_generic", "igb_uio")
"""Kernel drivers that hold a GPU for a virtual machine."""


VISIBILITY = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables by which runtimes choose among the GPUs."""


class Firmware(Record, frozen=True):
    """A firmware that a GPU runs: `name` "mes", "mec", "sdma", "smc"; `version` 0x83."""

    name: str
    version: int


class Gpu(Record, frozen=True):
    """One GPU, built from the bus, the kernel driver and the driver's own interfaces."""

    vendor: Vendor
    name: str
    """As the driver prints it, else as the matrix names it, else the PCI id."""
    arch: Fact[str] = unknown("not identified")
    """ "sm_120" or "gfx1031"."""
    bdf: str | None = None
    pci_id: str | None = None
    """"10de:2b85", lower case."""
    revision: str | None = None
    chip: str | None = None
    family: str | None = None
    """Blackwell, Ampere ...; RDNA2, CDNA3 ... as the matrix names it."""
    integrated: bool = False
    """Part of a processor (APU, SoC)."""
    datacenter: bool = False
    """A data-centre or workstation-server product in the sense of CUDA forward compatibility."""
    driver: Fact[str] = unknown("not probed")
    """Kernel driver bound to it: nvidia, nouveau, vfio-pci, amdgpu ...; absent: none."""
    index: int | None = None
    """Its place in the runtime's own order before any visibility variable, if known."""
    nodes: tuple[str, ...] = ()
    """Paths of its device nodes (/dev/nvidia0, /dev/dri/renderD128)."""
    memory: Fact[int] = unknown("not probed")
    firmware: tuple[Firmware, ...] = ()
    """What an AMD GPU runs, as amdgpu states it."""
    unified_memory: bool = False
    boot_vga: bool = False
    suspended: bool = False
    off_bus: bool = False
    """It is on the bus, but its configuration space reads all ones: it does not answer now."""
    kfd_node: int | None = None
    uuid: str = ""
    nvml: NvmlDevice | None = None
    amd_board: Board = Board()
    """What amdgpu states; NVIDIA's driver states it in `nvml`."""
    source: str = ""
    ordinal: int = 0
    """Which one it is of several that no address, UUID or index tells apart: the Machine counts them."""

    @property
    def reserved(self) -> bool:
        """Whether it is held for a virtual machine: a choice, never a problem."""
        return self.driver.value in _RESERVING

    @property
    def asked(self) -> NvmlDevice:
        """What NVML answered about it; where it was not asked, a record that says nothing."""
        return self.nvml or _UNASKED

    @property
    def board(self) -> Board:
        """Its firmware, links and power, whichever driver states them."""
        return self.nvml.board if self.nvml else self.amd_board

    def firmware_version(self, name: str) -> int | None:
        """Version of a firmware that the GPU runs; None if unknown."""
        return next((one.version for one in self.firmware if one.name == name), None)

    @property
    def key(self) -> str:
        """What distinguishes it from the other GPUs of its machine, whatever else was read of it."""
        return f"{self._name} ({self.ordinal})" if self.ordinal else self._name

    @property
    def _name(self) -> str:
        number = self.index if self.kfd_node is None else self.kfd_node
        return self.bdf or self.uuid or f"{self.vendor} {'' if number is None else number}".strip()


_UNASKED = NvmlDevice(index=0)


def archs_of(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """The architectures of some GPUs, as far as they are known, each once."""
    return tuple(dict.fromkeys(gpu.arch.value for gpu in gpus if gpu.arch.value))
