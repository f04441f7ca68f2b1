"""Everything between an AMD GPU and the HIP runtime."""

from __future__ import annotations

from typing import Literal

from gpudoctor.machine.facts import Fact, Record, unknown
from gpudoctor.machine.system import BlockedModule, DeviceNode, DkmsModule, InstalledModule

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
"""The variable that makes an AMD GPU run code for another target; with a number behind it, one GPU of several."""


class KfdNode(Record, frozen=True):
    """A node of the KFD topology. CPUs are nodes too; `gfx` is None for them."""

    node: int
    gfx: str | None = None
    """From gfx_target_version, which HSA_OVERRIDE_GFX_VERSION cannot change: "gfx1031"."""
    bdf: str | None = None
    pci_id: str | None = None
    render_minor: int | None = None
    memory: int | None = None
    simd_count: int = 0
    unique_id: str = ""
    xgmi_links: int = 0
    """How many xGMI links lead to other nodes."""
    readable: bool = True
    """False if the node's properties may not be read (a container's cgroup hides it)."""


class HsaAgent(Record, frozen=True):
    """One agent of the HSA runtime: `isa` lists what it accepts ("gfx1100", "gfx11-generic")."""

    name: str = ""
    kind: Literal["cpu", "gpu", "other"] = "gpu"
    isa: tuple[str, ...] = ()
    bdf: str | None = None
    product: str = ""
    """Marketing name; often only "AMD Radeon Graphics"."""
    pci_id: str | None = None
    """ "1002:73df"; unlike `isa` it does not follow HSA_OVERRIDE_GFX_VERSION."""
    memory: int | None = None
    """Size of its largest memory pool in bytes, as rocminfo prints it."""


class HsaApi(Record, frozen=True):
    """The result of hsa_init; 0 is success."""

    status: int
    message: str = ""
    library: str = ""
    agents: tuple[HsaAgent, ...] = ()

    @property
    def lists_gpu(self) -> bool:
        return any(agent.kind == "gpu" for agent in self.agents)


class SmiGpu(Record, frozen=True):
    """One GPU in the output of rocm-smi or amd-smi; what the output leaves out is "" or None."""

    product: str = ""
    pci_id: str | None = None
    revision: str | None = None
    bdf: str | None = None
    gfx: str | None = None
    memory: int | None = None
    """Bytes."""


class RocmInstall(Record, frozen=True):
    """A ROCm of the system (not one inside a wheel)."""

    version: str
    path: str
    blas_gfx: tuple[str, ...] | None = None
    """gfx targets that its rocBLAS has kernels for; None: no rocBLAS was found, or no AMD GPU is here."""


class AmdStack(Record, frozen=True):
    """Everything between an AMD GPU and the HIP runtime."""

    module: Fact[str] = unknown("not probed")
    """Version of the loaded amdgpu module; "in-tree" if it states none."""
    modules_loaded: Fact[tuple[str, ...]] = unknown("not probed")
    """amdgpu, radeon, amdkcl, amdttm: the loaded ones."""
    modules_installed: Fact[tuple[InstalledModule, ...]] = unknown("not probed")
    dkms: Fact[tuple[DkmsModule, ...]] = unknown("not probed")
    blocked: Fact[tuple[BlockedModule, ...]] = unknown("not probed")
    kfd: Fact[DeviceNode] = unknown("not probed")
    render_nodes: Fact[tuple[DeviceNode, ...]] = unknown("not probed")
    topology: Fact[tuple[KfdNode, ...]] = unknown("not probed")
    rocm: Fact[tuple[RocmInstall, ...]] = unknown("not probed")
    firmware_package: Fact[str] = unknown("not probed")
    """Version of the linux-firmware package."""
    hsa: Fact[HsaApi] = unknown("not probed")
    smi: Fact[tuple[SmiGpu, ...]] = unknown("not probed")
    """What rocm-smi or amd-smi printed; only recordings have it."""
