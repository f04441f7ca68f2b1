"""The machine as one frozen record: what was read, where it was read, and what could not be read.

Nothing here judges. Versions are texts as printed; memory is in bytes; paths are those of the examined machine (with
`--root`, they are given without that root).
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

T = TypeVar("T")

Vendor = Literal["nvidia", "amd"]
FactState = Literal["known", "absent", "denied", "unknown"]


class Record(Struct, frozen=True, omit_defaults=True):
    """Base of all parts of the Machine: frozen, compared by value, written without defaults."""


class Fact(Record, Generic[T], frozen=True):
    """One value, or the reason why there is none; `source` is the file or command it was read from.

    `absent`: the thing is known not to exist. `denied`: it exists and may not be read. `unknown`: nothing is known
    (no such tree in a recording, a time limit, garbage).
    """

    value: T | None = None
    state: FactState = "unknown"
    source: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if self.value is None and self.state == "known":
            raise ValueError("a fact that is known has a value")

    @property
    def known(self) -> bool:
        return self.state == "known"

    @property
    def absent(self) -> bool:
        return self.state == "absent"

    @property
    def undecided(self) -> bool:
        """Neither a value nor a known absence."""
        return self.state in ("denied", "unknown")


def known(value: T, source: str) -> Fact[T]:
    """A fact that was read from `source`."""
    return Fact(value=value, state="known", source=source)


def absent(source: str, why: str = "") -> Fact[Any]:
    """Something that does not exist, as `source` shows."""
    return Fact(state="absent", source=source, why=why)


def denied(source: str, why: str = "permission denied") -> Fact[Any]:
    """Something that exists and may not be read."""
    return Fact(state="denied", source=source, why=why)


def unknown(why: str, source: str = "") -> Fact[Any]:
    """Something that could not be found out, and why."""
    return Fact(state="unknown", source=source, why=why)


# --- the system ----------------------------------------------------------------------------------


class Os(Record, frozen=True):
    """Distribution, from os-release: `id` "ubuntu", `version` "24.04", `like` ("debian",)."""

    id: str = ""
    version: str = ""
    like: tuple[str, ...] = ()
    name: str = ""


class Jetson(Record, frozen=True):
    """A Tegra board: the model in its device tree, and an L4T release such as "36.4.3"."""

    model: str = ""
    l4t: str = ""
    compatible: str = ""
    """The content of /proc/device-tree/compatible, entries separated by spaces."""


class BatchJob(Record, frozen=True):
    """The batch job of this process: `kind` slurm, ray, lsf, pbs ...; the number of granted `gpus`, if known."""

    kind: str
    gpus: int | None = None
    source: str = ""


class User(Record, frozen=True):
    """Effective numeric identity; `groups` are the names for these numbers in /etc/group."""

    uid: int = -1
    gids: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    source: str = ""


class System(Record, frozen=True):
    """Kernel, distribution, processor, and where this runs (WSL2, virtual machine, container, job)."""

    kernel: Fact[str] = unknown("not probed")
    """Release as `uname -r` prints it."""
    kernel_build: Fact[str] = unknown("not probed")
    arch: Fact[str] = unknown("not probed")
    """`uname -m`: x86_64 or aarch64."""
    os: Fact[Os] = unknown("not probed")
    libc: Fact[str] = unknown("not probed")
    """C library that programs load: "glibc 2.31", or "musl"."""
    cpu_flags: Fact[tuple[str, ...]] = unknown("not probed")
    memory: Fact[int] = unknown("not probed")
    shm: Fact[int] = unknown("not probed")
    """Size of /dev/shm."""
    secure_boot: Fact[bool] = unknown("not probed")
    lockdown: Fact[str] = unknown("not probed")
    """Mode of the kernel's lockdown: "none", "integrity" or "confidentiality"; absent if the kernel has none."""
    kernel_options: Fact[tuple[str, ...]] = unknown("not probed")
    """Options of the kernel command line that affect GPUs, modules or the IOMMU."""
    wsl: Fact[str] = unknown("not probed")
    """The WSL kernel release; absent elsewhere."""
    jetson: Fact[Jetson] = unknown("not probed")
    virtual_machine: Fact[str] = unknown("not probed")
    container: Fact[str] = unknown("not probed")
    """docker, podman, kubernetes, lxc, apptainer ...; absent on bare metal."""
    job: Fact[BatchJob] = unknown("not probed")
    user: User = User()
    suspends: Fact[int] = unknown("not probed")
    """How often the system was suspended and resumed since boot."""
    groups: dict[str, int] = field(default_factory=dict)
    """Numbers of the groups that own GPU nodes on this system (render, video), from /etc/group."""

    @property
    def platform(self) -> str:
        """ "linux-x86_64" or "linux-aarch64", as torch wheels name it."""
        return f"linux-{self.arch.value or 'x86_64'}"


# --- nodes, modules, libraries -------------------------------------------------------------------

Opening = Literal["ok", "EACCES", "EPERM", "ENOENT", "ENXIO", "EIO", "EBUSY", "ENODEV", "EINVAL", "other", "untried"]


class DeviceNode(Record, frozen=True):
    """A node below /dev: `opened` is the result of really opening it for reading and writing."""

    path: str
    opened: Opening = "untried"
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


class InstalledModule(Record, frozen=True):
    """A kernel module file below /lib/modules: its kernel, version and flavour."""

    name: str
    kernel: str
    path: str
    version: str | None = None
    flavour: Literal["open", "proprietary"] | None = None


class DkmsModule(Record, frozen=True):
    """A DKMS tree: `status` is added, built or installed for `kernel`."""

    name: str
    version: str
    kernel: str
    status: Literal["added", "built", "installed", "broken"]
    source: str


class BlockedModule(Record, frozen=True):
    """A rule that keeps a module from loading: a modprobe.d line, the kernel command line, prime-select."""

    module: str
    rule: str
    source: str
    chosen: bool = False
    """True if a person chose it with a switch made for that (prime-select, envycontrol)."""


LibraryKind = Literal["driver", "compat", "stub", "wsl", "jetson", "wheel", "toolkit", "image"]


class Library(Record, frozen=True):
    """A shared library that the loader could find: `version` from its real file name or its ELF data."""

    name: str
    path: str
    version: str | None = None
    kind: LibraryKind = "driver"
    via: str = ""
    """What puts it on the path: LD_LIBRARY_PATH, LD_PRELOAD, ld.so.cache, default, RPATH."""
    mounted: bool | None = None
    """In a container: whether it is a mount from the host (None: unknown)."""
    wins: bool | None = None
    """Whether the loader takes this one and not the wheel's; a DT_RPATH of the asking library takes precedence over
    LD_LIBRARY_PATH (None: unknown, or nothing of the wheel's competes)."""


class LoadPath(Record, frozen=True):
    """Libraries as the dynamic loader would find them, first one first, by name (`libcuda.so.1`)."""

    found: tuple[Library, ...] = ()
    searched: tuple[str, ...] = ()
    """The searched folders, in order; a name not found in them is known to be absent only if this is not empty."""
    complete: Fact[bool] = unknown("not probed")
    """Known true if every folder of the load path could be read."""
    beside: tuple[Library, ...] = ()
    """If no libcuda.so.1 is on the path: those in the usual folders of drivers."""
    whole: bool = False
    """The system's own libraries were found there: a library that is not found is missing, in a recording too."""

    def first(self, name: str) -> Library | None:
        """The library that the loader would load for `name`."""
        return next((library for library in self.found if library.name == name), None)


# --- NVIDIA --------------------------------------------------------------------------------------


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
    modules_installed: Fact[tuple[InstalledModule, ...]] = unknown("not probed")
    dkms: Fact[tuple[DkmsModule, ...]] = unknown("not probed")
    blocked: Fact[tuple[BlockedModule, ...]] = unknown("not probed")
    userland: Fact[str] = unknown("not probed")
    """Version of the driver's own user-space libraries (not cuda-compat, not stubs)."""
    nodes: Fact[tuple[DeviceNode, ...]] = unknown("not probed")
    """/dev/nvidia*, /dev/nvidia-caps/*, /dev/dxg, /dev/nvhost-*."""
    proc_gpus: Fact[tuple[str, ...]] = unknown("not probed")
    """PCI addresses that /proc/driver/nvidia/gpus lists: the GPUs bound to the module."""
    proc_details: tuple[ProcGpu, ...] = ()
    """The same GPUs, with the content of their `information` files."""
    firmware: Fact[tuple[str, ...]] = unknown("not probed")
    """Files of /lib/firmware/nvidia/VERSION, for the version of the loaded module."""
    fabric: Fabric = Fabric()
    toolkit: Fact[str] = unknown("not probed")
    """nvidia-container-toolkit on this host (version or path)."""
    ptxas: Fact[str] = unknown("not probed")
    """CUDA release of the ptxas below /usr/local/cuda."""
    cdi: Fact[tuple[CdiSpec, ...]] = unknown("not probed")
    """Those that count: of one kind, the ones in /var/run/cdi before the ones in /etc/cdi."""
    nvml: Fact[NvidiaApi] = unknown("not probed")
    cuda: Fact[NvidiaApi] = unknown("not probed")
    smi: Fact[NvidiaApi] = unknown("not probed")

    @property
    def answered(self) -> tuple[Fact[NvidiaApi], ...]:
        """The driver-level interfaces that gave an answer, most trusted first."""
        return tuple(api for api in (self.nvml, self.cuda, self.smi) if api.known)


# --- AMD -----------------------------------------------------------------------------------------


class KfdNode(Record, frozen=True):
    """A node of the KFD topology. CPUs are nodes too; `gfx` is None for them."""

    node: int
    gfx: str | None = None
    """From gfx_target_version, which HSA_OVERRIDE_GFX_VERSION cannot change: "gfx1031"."""
    name: str = ""
    bdf: str | None = None
    pci_id: str | None = None
    render_minor: int | None = None
    memory: int | None = None
    cpu_cores: int = 0
    simd_count: int = 0
    firmware: int | None = None
    unique_id: str = ""
    io_links: tuple[str, ...] = ()
    """Kinds of links to other nodes: pcie, xgmi."""
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


# --- GPUs ---------------------------------------------------------------------------------------


_RESERVING = ("vfio-pci", "nvgrace-gpu-vfio-pci", "pci-stub", "pciback", "xen-pciback", "uio_pci_generic", "igb_uio")
"""Kernel drivers that hold a GPU for a virtual machine."""


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
    source: str = ""
    ordinal: int = 0
    """Which one it is of several that no address, UUID or index tells apart: the Machine counts them."""

    @property
    def reserved(self) -> bool:
        """Whether it is held for a virtual machine: a choice, never a problem."""
        return self.driver.value in _RESERVING

    def firmware_version(self, name: str) -> int | None:
        """Version of a firmware that the GPU runs; None if unknown."""
        return next((one.version for one in self.firmware if one.name == name), None)

    @property
    def key(self) -> str:
        """What tells it from the other GPUs of its machine, whatever else was read of it."""
        return f"{self._name} ({self.ordinal})" if self.ordinal else self._name

    @property
    def _name(self) -> str:
        number = self.index if self.kfd_node is None else self.kfd_node
        return self.bdf or self.uuid or f"{self.vendor} {'' if number is None else number}".strip()


# --- the examined Python environment ---------------------------------------------------------------


class DamagedFile(Record, frozen=True):
    path: str
    problem: Literal["missing", "truncated", "changed"]


class Distribution(Record, frozen=True):
    """An installed distribution; `name` is normalised (PEP 503)."""

    name: str
    version: str
    path: str = ""
    """Its .dist-info or .egg-info folder."""
    installer: str = ""
    requires: tuple[str, ...] = ()
    """Requires-Dist lines; read only for distributions that matter to a check."""
    direct_url: str = ""
    """Where it was installed from, if not from an index; without secrets."""
    runtimes: tuple[str, ...] = ()
    """For bitsandbytes, which brings a library for each: "cuda121", "rocm64"."""
    damaged: tuple[DamagedFile, ...] = ()
    """Modules and libraries that its RECORD names and that are missing or empty; read only for what torch and other
    GPU packages require."""
    emptied: bool = False
    """Nothing of its modules and libraries is left."""
    variant: tuple[str, ...] = ()
    """Properties of the wheel variant that was installed: "nvidia :: cuda_version_lower_bound :: 12.8"."""
    lacks: tuple[str, ...] = ()
    """Of METADATA and RECORD, what its .dist-info lacks. Without RECORD pip cannot uninstall it."""


class TorchCopy(Record, frozen=True):
    """A copy of torch that `import torch` could find, in the order of sys.path: Python imports the first one. Traces
    that cannot be imported come after all copies."""

    path: str
    version: str | None
    via: str
    """Copies: PYTHONPATH, site, user site, system site (a venv's base), .pth, editable.
    Traces: left-over dist-info (of another version than the files beside it), dist-info without files,
    conda record (conda installed another version), interrupted uninstall (~orch), left-over files."""


class CodeArchs(Record, frozen=True):
    """The GPU code in torch's own libraries."""

    sass: tuple[str, ...] = ()
    """In at least half of the containers: "sm_80", "sm_90a"."""
    ptx: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    """Only a few kernels: in fewer than half of the containers, of any kind."""
    linalg: tuple[str, ...] = ()
    """SASS in libtorch_cuda_linalg, however few of its containers have it."""
    linalg_ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    blas_gfx: tuple[str, ...] | None = None
    """gfx targets that the bundled rocBLAS has kernels for; None: no rocBLAS was found."""
    blaslt_gfx: tuple[str, ...] | None = None
    """The same for hipBLASLt."""
    device_packages: tuple[str, ...] = ()
    """A multi-arch host wheel has no code itself: the device distributions found beside it."""


FileProblem = Literal[
    "", "missing", "changed", "unreadable", "noexec", "other-python", "other-processor", "not-installed"
]


EMPTY = "empty"
"""`SuspectFile.detail` of a changed file in which nothing is left."""


class SuspectFile(Record, frozen=True):
    """A file that a failed import names, or that is certain to make it fail."""

    path: str
    """Empty for a package that is not installed."""
    owner: str = ""
    """The distribution whose RECORD lists it; empty: none does."""
    version: str = ""
    problem: FileProblem = ""
    """`missing` and `changed`: against RECORD. `not-installed`: `owner` is required, and is not there."""
    detail: str = ""
    """What it was made for ("Python 3.11", "aarch64"); the specifier of what is not installed (">=4.10")."""
    standard: bool = False
    """Part of the interpreter's standard library."""


class ProcessLimits(Record, frozen=True):
    """What the examined process may use; None: no limit, or unknown."""

    address_space: int | None = None
    """RLIMIT_AS (`ulimit -v`), in bytes."""
    processes: int | None = None
    """RLIMIT_NPROC (`ulimit -u`), or the control group's pids.max: processes and threads."""
    memory: int | None = None
    """The control group's, in bytes."""
    memory_kills: int | None = None
    """How many processes the kernel killed in the control group because memory ran out."""


NOT_STARTED = "the interpreter itself did not start"
"""The start of `ImportTrial.error` if it is not torch that failed."""


class ImportTrial(Record, frozen=True):
    """What `import torch` did in a child of the examined interpreter."""

    ok: bool
    error: str = ""
    """Last line of the error, or the child's last output."""
    signal: str = ""
    """SIGABRT, SIGILL ... if a signal ended the child."""
    version: str = ""
    cuda: str = ""
    hip: str = ""
    arch_list: tuple[str, ...] = ()
    device_count: int | None = None
    seconds: float = 0.0
    hung: bool = False
    """It gave no answer within its time limit."""
    root: str = ""
    """Last line of the first error, if others followed from it."""
    files: tuple[str, ...] = ()
    """Files that the error names, then those of its traceback, innermost first."""
    loading: str = ""
    """The library that was being loaded when the process was lost."""
    suspects: tuple[SuspectFile, ...] = ()
    """Files that the failure points at, what is wrong with one first."""
    limits: ProcessLimits = ProcessLimits()
    """Read if the import failed; `memory_kills` counts those during the import."""


TorchOrigin = Literal[
    "pypi",
    "download.pytorch.org",
    "nightly",
    "conda-forge",
    "conda",
    "ngc",
    "jetson",
    "amd",
    "distribution",
    "source",
    "unknown",
]


class Torch(Record, frozen=True):
    """The torch that `import torch` would load, from its own files."""

    version: str
    """As torch/version.py says, with the local part: "2.9.1+rocm6.4"."""
    build: str | None = None
    """cu128, rocm6.4, cpu, xpu ...; None if the files do not tell."""
    cuda: str | None = None
    """CUDA it was built with, "12.8"."""
    hip: str | None = None
    """HIP/ROCm it was built with, "6.4.43482"; `rocm` is its release number."""
    rocm: str | None = None
    origin: TorchOrigin = "unknown"
    path: str = ""
    """Its folder; "" for a torch that is only named, by a description."""
    copies: tuple[TorchCopy, ...] = ()
    damaged: tuple[DamagedFile, ...] = ()
    archs: Fact[CodeArchs] = unknown("not read")
    needs_glibcxx: Fact[str] = unknown("not read")
    """Highest GLIBCXX_x.y.z that its libraries ask for."""
    needs_glibc: Fact[str] = unknown("not read")
    """Highest GLIBC_x.y that its libraries ask for."""
    needs_libraries: tuple[str, ...] = ()
    """Names that torch's libraries ask for and that are in no folder the loader would search."""
    unloadable: tuple[SuspectFile, ...] = ()
    """Files of torch that this interpreter cannot load, and those that should have `needs_libraries`."""
    has_cuda_libraries: bool | None = None
    """Whether libtorch_cuda / libtorch_hip is in torch/lib (None: folder not readable)."""
    own_hsa_runtime: bool | None = None
    """Whether a libhsa-runtime64 is in torch/lib, as in ROCm wheels (None: folder not readable)."""
    trial: Fact[ImportTrial] = unknown("not started at this level")
    source: str = ""


class MissingSymbols(Record, frozen=True):
    """Symbols that one library needs of another, and that the one which the loader takes does not have."""

    library: str
    """ "libnvJitLink.so.12"."""
    path: str
    """The one that the loader takes."""
    needed_by: str
    symbols: tuple[str, ...]
    """A few of them."""
    late: bool = False
    """Needed only by what is loaded after the import."""


EnvironmentKind = Literal["venv", "conda", "system", "user", "unknown"]


class MissingLibrary(Record, frozen=True):
    """A library that another one names and that the loader does not find."""

    name: str
    """ "libcudart.so.12"."""
    instead: str = ""
    """Path of one with another major release, if the environment has such: ".../libcudart.so.13"."""


class Extension(Record, frozen=True):
    """A library of an installed package that computes on GPUs: its code, and what it needs to be loaded."""

    package: str
    version: str
    path: str
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    loose: bool = False
    """No library, but a folder of kernels that a program loads by their names (.cubin, .co, .hsaco)."""
    needs: tuple[str, ...] = ()
    """Libraries of CUDA and ROCm that it names (DT_NEEDED)."""
    opens: tuple[str, ...] = ()
    """Those that it opens itself when it needs them, as far as their whole names are in it."""
    missing: tuple[MissingLibrary, ...] = ()
    """Those of `needs` and `opens`, and of torch's GPU libraries, that are nowhere to be found."""
    of_torch: bool = False
    """It names libraries of torch: a process has imported torch before it is loaded."""
    undefined: tuple[str, ...] = ()
    """A few symbols of torch that it needs and that the installed torch does not define."""


class TorchAsked(Record, frozen=True):
    """A line of a project that asks for torch: the next installation from it restores that torch."""

    file: str
    """Name of the file in the project's folder: "pyproject.toml", "requirements.txt"."""
    requirement: str
    """As written: "torch==2.6.0"."""
    group: str = ""
    """Dependency group of a pyproject.toml."""
    extra: str = ""
    """Optional dependencies of a pyproject.toml."""
    hashed: bool = False
    """The file pins wheels by their hashes."""


WORKING_FOLDER = "working folder"
"""`ShadowingModule.via`: only programs that are started there import it."""


class ShadowingModule(Record, frozen=True):
    """A module or package that Python imports in place of one that torch needs."""

    name: str
    """Top-level name: "queue", "typing_extensions"."""
    path: str
    via: str
    """PYTHONPATH, user site, .pth, working folder."""
    hides: str
    """The file or folder of that name further on."""
    standard: bool = False
    """What is hidden belongs to the standard library."""
    at_import: bool = True
    """`import torch` itself loads it."""


class Frameworks(Record, frozen=True):
    """The frameworks of an environment, each as its own files describe it."""

    torch: Fact[Torch] = unknown("not read")


class PythonEnvironment(Record, frozen=True):
    """The examined environment, from its files; its interpreter is never started at level static."""

    prefix: str = ""
    kind: EnvironmentKind = "unknown"
    python: Fact[str] = unknown("not found")
    """"3.12"; "3.13t" for a free-threaded one."""
    interpreter: str = ""
    site_packages: tuple[str, ...] = ()
    distributions: Fact[tuple[Distribution, ...]] = unknown("not read")
    not_installed: tuple[str, ...] = ()
    """What torch and other GPU packages require, and what has certainly neither a record nor a module."""
    frameworks: Frameworks = Frameworks()
    torch_remains: tuple[TorchCopy, ...] = ()
    """What an interrupted install or uninstall left of a torch that cannot be imported."""
    externally_managed: bool = False
    has_pip: bool = False
    uv_managed: bool = False
    """Made by uv (pyvenv.cfg says so)."""
    project: str = ""
    """Folder of a project with uv.lock or poetry.lock that owns this environment."""
    lock: Literal["uv.lock", "poetry.lock", "pixi.lock", ""] = ""
    torch_asked: tuple[TorchAsked, ...] = ()
    """Lines of the project's own files that ask for torch."""
    conda_tool: Literal["conda", "mamba", "micromamba"] = "conda"
    """The tool that last changed a conda prefix, as its history says."""
    python_headers: Fact[bool] = unknown("not probed")
    """Whether that interpreter's Python.h exists."""
    libstdcxx: Fact[str] = unknown("not probed")
    """Highest GLIBCXX_x.y.z of the libstdc++ that this environment's processes load."""
    libstdcxx_path: str = ""
    extensions: tuple[Extension, ...] = ()
    """Libraries of any package beside torch (flash-attn, vllm, onnxruntime-gpu ...) that compute on GPUs."""
    shadows: tuple[ShadowingModule, ...] = ()
    """Modules that stand before those that torch imports on its way."""
    libraries: LoadPath = LoadPath()
    """CUDA/ROCm libraries that LD_LIBRARY_PATH or LD_PRELOAD puts before the wheel's own
    (libcudnn, libnvJitLink, libcublas, libnccl, librccl, libamdhip64 ...)."""
    missing_symbols: tuple[MissingSymbols, ...] = ()
    """Read only where a library comes from elsewhere, an nvidia-* wheel is not the one that torch pins, or amdsmi is
    installed."""
    triton_owner: str = ""
    """Of several installed Tritons the one whose files are in the folder triton/; empty if the files do not tell."""
    source: str = ""

    @property
    def torch(self) -> Fact[Torch]:
        """The torch that `import torch` would load there."""
        return self.frameworks.torch

    def with_torch(self, torch: Fact[Torch]) -> PythonEnvironment:
        """The same environment with this torch. What extensions lack beside another one is unknown then."""
        frameworks, extensions = replace(self.frameworks, torch=torch), self.extensions
        before, after = self.torch.value, torch.value
        if extensions and (before.version if before else "") != (after.version if after else ""):
            extensions = tuple(
                replace(one, missing=(), undefined=()) if one.of_torch else one for one in self.extensions
            )
        return replace(self, frameworks=frameworks, extensions=extensions)

    def distribution(self, name: str) -> Distribution | None:
        """The installed distribution of that normalised name, if the listing is known to have it."""
        return next((d for d in self.distributions.value or () if d.name == name), None)


# --- log -----------------------------------------------------------------------------------------


class LogFault(Record, frozen=True):
    """A line of the kernel log that one of the matrix's patterns matches: `kind` is the pattern's id."""

    kind: str
    line: str
    bdf: str | None = None
    xid: int | None = None
    seconds: float | None = None
    """Since boot, if the line says so."""


class KernelLog(Record, frozen=True):
    """Faults in the kernel log of this boot, oldest first."""

    faults: tuple[LogFault, ...] = ()
    source: str = ""


# --- smoke kernels ---------------------------------------------------------------------------------

SmokeStatus = Literal["pass", "wrong", "error", "crash", "timeout", "skipped"]


LISTING = "devices"
"""Name of the result for a torch that could not list its devices."""


class SmokeDevice(Record, frozen=True):
    """A device as torch names it ("cuda:0" on CUDA and ROCm alike, "cpu")."""

    name: str
    product: str = ""
    arch: str = ""
    """ "sm_90" or "gfx1030": as the runtime tells it, so an override of the gfx name shows here."""
    bdf: str | None = None
    uuid: str = ""
    memory: int | None = None
    free: int | None = None
    """Bytes that were free before the kernels ran."""


class SmokeKernel(Record, frozen=True):
    """The result of one smoke kernel on one device with one dtype."""

    name: str
    device: str
    dtype: str = ""
    status: SmokeStatus = "pass"
    ms: float | None = None
    error: float | None = None
    """Largest deviation from the float64 reference, in the measure that `tolerance` bounds."""
    tolerance: float | None = None
    detail: str = ""
    """One sentence for a person: what was wrong, why it was skipped."""
    message: str = ""
    """The error as raised, or the last output of a process that died."""
    signal: str = ""
    """SIGSEGV ... if a signal ended the process."""
    measures: dict[str, float] = field(default_factory=dict)
    """Measured rates: gb_per_s, tflops."""


class Smoke(Record, frozen=True):
    """Smoke kernels that ran in the examined interpreter, in order."""

    level: Literal["quick", "standard", "full"]
    devices: tuple[SmokeDevice, ...] = ()
    kernels: tuple[SmokeKernel, ...] = ()
    why: str = ""
    """Why nothing, or not everything, ran."""
    asked: bool = True
    """Whether a person asked for the level (otherwise it was the default)."""
    gpu_asked: bool = False
    """Whether a person named a GPU ("cuda:0", "cuda") to compute on."""


# --- the whole -----------------------------------------------------------------------------------

Level = Literal["static", "driver", "quick", "standard", "full"]
SubjectKind = Literal["machine", "root", "snapshot", "whatif", "text"]
FORMAT = 2
"""Of a written Machine. It rises with a change that an older gpudoctor would misread; `intake.snapshot` reads all."""


class Machine(Record, frozen=True):
    """Everything known about one machine and one Python environment on it."""

    format: int = field(default_factory=lambda: FORMAT)  # a plain default would not be written
    system: System = System()
    gpus: tuple[Gpu, ...] = ()
    buses: Fact[bool] = unknown("not probed")
    """Known if the PCI bus (or what replaces it: KFD, WSL, Jetson) could be listed."""
    nvidia: NvidiaStack = NvidiaStack()
    amd: AmdStack = AmdStack()
    load_path: LoadPath = LoadPath()
    """Driver libraries: libcuda.so.1, libnvidia-ml.so.1, libhsa-runtime64.so.1 ..."""
    environment: Fact[PythonEnvironment] = unknown("not probed")
    variables: dict[str, str] = field(default_factory=dict)
    """Relevant environment variables of the examined process."""
    kernel_log: Fact[KernelLog] = unknown("not probed")
    smoke: Smoke | None = None
    """The results of the smoke kernels, if they ran."""
    errors: tuple[str, ...] = ()
    """Error messages that a person saw there, as they were printed."""
    level: Level = "static"
    """How deep it was probed."""
    assumed: tuple[str, ...] = ()
    """For a described machine: facts that nobody described and that are assumed to be healthy."""

    def __post_init__(self) -> None:
        names = [gpu._name for gpu in self.gpus]
        if len(set(names)) < len(names) or any(gpu.ordinal for gpu in self.gpus):
            counted = (names[:place].count(name) for place, name in enumerate(names))
            gpus = tuple(replace(gpu, ordinal=ordinal) for gpu, ordinal in zip(self.gpus, counted, strict=True))
            force_setattr(self, "gpus", gpus)

    @property
    def torch(self) -> Torch | None:
        """The torch of the examined environment, if one is known to be there."""
        return self.environment.value.torch.value if self.environment.value else None

    def installed(self, name: str) -> Distribution | None:
        """The installed distribution of that normalised name, if one is known."""
        environment = self.environment.value
        return environment.distribution(name) if environment else None

    def of_vendor(self, vendor: Vendor) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.vendor == vendor)
