"""Everything between an NVIDIA GPU and the CUDA runtime."""

from __future__ import annotations

from typing import Literal

from gpudoctor.machine.board import Board
from gpudoctor.machine.facts import Fact, Record, unknown
from gpudoctor.machine.system import BlockedModule, DeviceNode, DkmsModule, InstalledModule


class NvidiaModule(Record, frozen=True):
    """The loaded NVIDIA kernel module."""

    version: str
    flavour: Literal["open", "proprietary"] | None = None


class MigDevice(Record, frozen=True):
    """One MIG slice: `profile` such as "1g.10gb"; the UUID is private."""

    profile: str = ""
    memory: int | None = None
    uuid: str = ""


FabricState = Literal["not-supported", "not-started", "in-progress", "completed"]
Virtualization = Literal["none", "pass-through", "vgpu", "host-vgpu", "host-vsga"]


class NvmlDevice(Record, frozen=True):
    """One GPU as NVML (or, failing that, nvidia-smi) describes it."""

    index: int
    name: str = ""
    bdf: str = ""
    uuid: str = ""
    capability: str | None = None
    """"8.9"."""
    memory: int | None = None
    memory_used: int | None = None
    compute_mode: Literal["default", "exclusive", "prohibited"] | None = None
    processes: int | None = None
    mig: bool | None = None
    """Whether MIG mode is on now."""
    mig_pending: bool | None = None
    """Whether MIG mode will be on after the GPU's next reset; None: not told."""
    mig_devices: tuple[MigDevice, ...] = ()
    ecc_uncorrectable: int | None = None
    """Uncorrectable errors since the driver was loaded (volatile)."""
    ecc_uncorrectable_ever: int | None = None
    remap_failed: bool | None = None
    remap_pending: bool | None = None
    pci_id: str | None = None
    """ "10de:2b85"; under WSL2 the only source of it."""
    fabric: FabricState | None = None
    """Whether the GPU has registered with an NVLink fabric; None: not asked, or unknown to the driver."""
    virtualization: Virtualization | None = None
    """NVML's virtualisation mode: "vgpu" is a part that a hypervisor lends, "host-vgpu" a GPU that is lent."""
    licensed: bool | None = None
    """Whether a vGPU has its software licence; None: not asked, or it needs none."""
    peers: tuple[int, ...] | None = None
    """Indices of the GPUs whose memory it can reach directly; only libcuda tells."""
    dma_buf: bool | None = None
    """Whether its memory can be given to an RDMA device as a dma-buf; only libcuda tells."""
    board: Board = Board()
    lost: bool = False
    """The driver lists it, but it does not answer (GPU is lost)."""
    why: str = ""


class NvidiaApi(Record, frozen=True):
    """The result of initialising NVML or libcuda: `status` 0 is success. `devices` is None if that interface was not
    asked for them."""

    status: int
    message: str = ""
    library: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    """Highest CUDA that this driver supports, "13.0"."""
    devices: tuple[NvmlDevice, ...] | None = None


class ProcGpu(Record, frozen=True):
    """A GPU as /proc/driver/nvidia/gpus describes it: `minor` is the number N of /dev/nvidiaN."""

    bdf: str
    model: str = ""
    minor: int | None = None
    uuid: str = ""
    """"GPU-..."; empty until a program has used the GPU since boot."""
    excluded: bool = False


class Fabric(Record, frozen=True):
    """NVSwitch machines: switches found, fabric manager installed (version) and running."""

    switches: Fact[int] = unknown("not probed")
    manager_version: Fact[str] = unknown("not probed")
    manager_running: Fact[bool] = unknown("not probed")
    umad: Fact[bool] = unknown("not probed")
    """Whether ib_umad is loaded: the way to the switches of Blackwell boards."""


class CdiSpec(Record, frozen=True):
    """A CDI specification of NVIDIA's GPUs: what a container engine puts into containers that ask for one."""

    path: str
    kind: str = "nvidia.com/gpu"
    versions: tuple[str, ...] = ()
    """Driver versions of the libcuda and libnvidia-ml that it names."""
    missing: tuple[str, ...] = ()
    """Files of the host that it names and that are not there."""


class NvidiaStack(Record, frozen=True):
    """Everything between an NVIDIA GPU and the CUDA runtime."""

    module: Fact[NvidiaModule] = unknown("not probed")
    modules_loaded: Fact[tuple[str, ...]] = unknown("not probed")
    """nvidia, nvidia_uvm, nvidia_modeset, nvidia_vgpu_vfio, nouveau, nova_core, nvgpu: the loaded ones."""
    gpudirect_modules: Fact[tuple[str, ...]] = unknown("not probed")
    """nvidia_peermem, nv_peer_mem, gdrdrv: the loaded ones of those that give RDMA devices GPU memory."""
    modules_installed: Fact[tuple[InstalledModule, ...]] = unknown("not probed")
    dkms: Fact[tuple[DkmsModule, ...]] = unknown("not probed")
    blocked: Fact[tuple[BlockedModule, ...]] = unknown("not probed")
    userland: Fact[str] = unknown("not probed")
    """Version of the driver's own user-space libraries (not cuda-compat, not stubs)."""
    nodes: Fact[tuple[DeviceNode, ...]] = unknown("not probed")
    """/dev/nvidia*, /dev/nvidia-caps/*, /dev/dxg, /dev/nvhost-*."""
    modprobe: Fact[bool] = unknown("not probed")
    """Whether nvidia-modprobe is there, with its rights: it loads modules and makes nodes for ordinary users."""
    proc_gpus: Fact[tuple[str, ...]] = unknown("not probed")
    """PCI addresses that /proc/driver/nvidia/gpus lists: the GPUs bound to the module."""
    proc_details: tuple[ProcGpu, ...] = ()
    """The same GPUs, with the content of their `information` files."""
    firmware: Fact[tuple[str, ...]] = unknown("not probed")
    """Files of /lib/firmware/nvidia/VERSION, for the version of the loaded module."""
    fabric: Fabric = Fabric()
    run_file: Fact[str] = unknown("not probed")
    """The uninstaller of a driver that NVIDIA's own installer (the .run file) put here."""
    toolkit: Fact[str] = unknown("not probed")
    """nvidia-container-toolkit on this host (version or path)."""
    ptxas: Fact[str] = unknown("not probed")
    """CUDA release of the ptxas below /usr/local/cuda."""
    cdi: Fact[tuple[CdiSpec, ...]] = unknown("not probed")
    """The specifications that count: for one kind, /var/run/cdi takes precedence over /etc/cdi."""
    nvml: Fact[NvidiaApi] = unknown("not probed")
    cuda: Fact[NvidiaApi] = unknown("not probed")
    smi: Fact[NvidiaApi] = unknown("not probed")

    @property
    def answered(self) -> tuple[Fact[NvidiaApi], ...]:
        """The driver-level interfaces that gave an answer, most trusted first."""
        return tuple(api for api in (self.nvml, self.cuda, self.smi) if api.known)
