"""The machine as one frozen record: what was read, where it was read, and what could not be.

Nothing here judges. Versions are texts as printed; memory is in bytes; paths are those of the
examined machine (below `--root` they are given without that root).
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct, field

T = TypeVar("T")

Vendor = Literal["nvidia", "amd"]
FactState = Literal["known", "absent", "denied", "unknown"]


class Record(Struct, frozen=True, omit_defaults=True):
    """What all parts of the Machine are: frozen, compared by value, written without defaults."""


class Fact(Record, Generic[T], frozen=True):
    """One value, or the reason why there is none; `source` is the file or command it was read from.

    `absent` means that the thing is known not to be there; `denied` that it is there and may not be
    read; `unknown` that nothing can be said (no such tree in a recording, a time limit, garbage).
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
    """Something that `source` shows not to be there."""
    return Fact(state="absent", source=source, why=why)


def denied(source: str, why: str = "permission denied") -> Fact[Any]:
    """Something that is there and may not be read."""
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
    """A Tegra board: model as the device tree names it, L4T release such as "36.4.3"."""

    model: str = ""
    l4t: str = ""
    compatible: str = ""
    """What /proc/device-tree/compatible says, entries separated by spaces."""


class BatchJob(Record, frozen=True):
    """The batch job this process runs in: `kind` slurm, ray, lsf, pbs ...; `gpus` granted, if it says so."""

    kind: str
    gpus: int | None = None
    source: str = ""


class User(Record, frozen=True):
    """Effective numeric identity; `groups` are the names that /etc/group gives the numbers."""

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
    kernel_options: Fact[tuple[str, ...]] = unknown("not probed")
    """Options of the kernel command line that touch GPUs, modules or the IOMMU."""
    wsl: Fact[str] = unknown("not probed")
    """The WSL kernel release; absent elsewhere."""
    jetson: Fact[Jetson] = unknown("not probed")
    virtual_machine: Fact[str] = unknown("not probed")
    container: Fact[str] = unknown("not probed")
    """docker, podman, kubernetes, lxc, apptainer ...; absent on bare metal."""
    job: Fact[BatchJob] = unknown("not probed")
    user: User = User()
    suspends: Fact[int] = unknown("not probed")
    """How often this boot was suspended and resumed."""
    groups: dict[str, int] = field(default_factory=dict)
    """Numbers of the groups that own GPU nodes on this system (render, video), from /etc/group."""


# --- nodes, modules, libraries -------------------------------------------------------------------

Opening = Literal["ok", "EACCES", "EPERM", "ENOENT", "ENXIO", "EIO", "EBUSY", "ENODEV", "EINVAL", "other", "untried"]


class DeviceNode(Record, frozen=True):
    """A node below /dev: `opened` is what a real open for reading and writing answered."""

    path: str
    opened: Opening = "untried"
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


class InstalledModule(Record, frozen=True):
    """A kernel module file below /lib/modules: for which kernel, which version and flavour."""

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
    """True where a person chose it with a switch made for that (prime-select, envycontrol)."""


LibraryKind = Literal["driver", "compat", "stub", "wsl", "jetson", "wheel", "toolkit", "image"]


class Library(Record, frozen=True):
    """A shared library that the loader could find: `version` from its real file name or its ELF data."""

    name: str
    path: str
    version: str | None = None
    kind: LibraryKind = "driver"
    via: str = ""
    """What puts it there: LD_LIBRARY_PATH, LD_PRELOAD, ld.so.cache, default, RPATH."""
    mounted: bool | None = None
    """In a container: whether it is a mount from the host (None: not known)."""
    wins: bool | None = None
    """Whether loading gives this one and not the wheel's: a DT_RPATH of the library that asks goes before
    LD_LIBRARY_PATH (None: not known, or nothing of the wheel's competes)."""


class LoadPath(Record, frozen=True):
    """Libraries as the dynamic loader would meet them, first one first, by name (`libcuda.so.1`)."""

    found: tuple[Library, ...] = ()
    searched: tuple[str, ...] = ()
    """The folders looked into, in order; a name not found in them is known to be absent
    only if this is not empty."""
    complete: Fact[bool] = unknown("not probed")
    """Known true where every folder of the load path could be read."""
    beside: tuple[Library, ...] = ()
    """Where no libcuda.so.1 is on the path: those that lie where drivers put them all the same."""
    whole: bool = False
    """The system's own libraries were seen there: what is not found is missing, in a recording too."""

    def first(self, name: str) -> Library | None:
        """The library that loading `name` would give."""
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
    """ "10de:2b85"; under WSL2 the only place that tells it."""
    fabric: FabricState | None = None
    """Whether the GPU has registered with an NVLink fabric; None: not asked, or not known to the driver."""
    peers: tuple[int, ...] | None = None
    """Indices of the GPUs whose memory it can reach directly; only libcuda tells."""
    lost: bool = False
    """The driver lists it and it does not answer (GPU is lost)."""
    why: str = ""


class NvidiaApi(Record, frozen=True):
    """What initialising NVML or libcuda answered: `status` 0 is success; `devices` is None where that
    interface was not asked for them."""

    status: int
    message: str = ""
    library: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    """Highest CUDA that this driver serves, "13.0"."""
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
    """NVSwitch machines: switches seen, fabric manager installed (version) and running."""

    switches: Fact[int] = unknown("not probed")
    manager_version: Fact[str] = unknown("not probed")
    manager_running: Fact[bool] = unknown("not probed")


class NvidiaStack(Record, frozen=True):
    """Everything between an NVIDIA GPU and the CUDA runtime."""

    module: Fact[NvidiaModule] = unknown("not probed")
    modules_loaded: Fact[tuple[str, ...]] = unknown("not probed")
    """nvidia, nvidia_uvm, nvidia_modeset, nouveau, nova_core, nvgpu: those that are loaded."""
    modules_installed: Fact[tuple[InstalledModule, ...]] = unknown("not probed")
    dkms: Fact[tuple[DkmsModule, ...]] = unknown("not probed")
    blocked: Fact[tuple[BlockedModule, ...]] = unknown("not probed")
    userland: Fact[str] = unknown("not probed")
    """Version of the driver's own user-space libraries (not cuda-compat, not stubs)."""
    nodes: Fact[tuple[DeviceNode, ...]] = unknown("not probed")
    """/dev/nvidia*, /dev/nvidia-caps/*, /dev/dxg, /dev/nvhost-*."""
    proc_gpus: Fact[tuple[str, ...]] = unknown("not probed")
    """PCI addresses that /proc/driver/nvidia/gpus lists: those that the module has taken."""
    proc_details: tuple[ProcGpu, ...] = ()
    """The same GPUs, with what their `information` files say."""
    firmware: Fact[tuple[str, ...]] = unknown("not probed")
    """Files of /lib/firmware/nvidia/VERSION, for the version of the loaded module."""
    fabric: Fabric = Fabric()
    toolkit: Fact[str] = unknown("not probed")
    """nvidia-container-toolkit on this host (version or path)."""
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
    """False where the node's properties may not be read (a container's cgroup hides it)."""


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


class HsaApi(Record, frozen=True):
    """What hsa_init answered; 0 is success."""

    status: int
    message: str = ""
    library: str = ""
    agents: tuple[HsaAgent, ...] = ()


class RocmInstall(Record, frozen=True):
    """A ROCm of the system (not one inside a wheel)."""

    version: str
    path: str


class AmdStack(Record, frozen=True):
    """Everything between an AMD GPU and the HIP runtime."""

    module: Fact[str] = unknown("not probed")
    """Version of the loaded amdgpu module; "in-tree" where it states none."""
    modules_loaded: Fact[tuple[str, ...]] = unknown("not probed")
    """amdgpu, radeon, amdkcl, amdttm: those that are loaded."""
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


# --- GPUs ---------------------------------------------------------------------------------------


class Gpu(Record, frozen=True):
    """One GPU, put together from the bus, the kernel driver and the driver's own interfaces."""

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
    """Its place in the runtime's own order before any visibility variable, where that is known."""
    nodes: tuple[str, ...] = ()
    """Paths of the device nodes that stand for it (/dev/nvidia0, /dev/dri/renderD128)."""
    memory: Fact[int] = unknown("not probed")
    unified_memory: bool = False
    boot_vga: bool = False
    suspended: bool = False
    off_bus: bool = False
    """Listed on the bus, and its configuration space reads all ones: it does not answer now."""
    kfd_node: int | None = None
    uuid: str = ""
    nvml: NvmlDevice | None = None
    source: str = ""


# --- the examined Python environment ---------------------------------------------------------------


class Distribution(Record, frozen=True):
    """An installed distribution; `name` is normalised (PEP 503)."""

    name: str
    version: str
    path: str = ""
    """Its .dist-info or .egg-info folder."""
    installer: str = ""
    requires: tuple[str, ...] = ()
    """Requires-Dist lines; read only for distributions that take part in a judgement."""
    direct_url: str = ""
    """Where it was installed from, if not from an index; secrets in it are left out."""
    runtimes: tuple[str, ...] = ()
    """Of bitsandbytes, which brings a library for each: "cuda121", "rocm64"."""


class TorchCopy(Record, frozen=True):
    """A copy of torch that `import torch` could meet, in the order of sys.path: the first one is imported.

    Traces that nothing is imported from come after all copies.
    """

    path: str
    version: str | None
    via: str
    """Copies: PYTHONPATH, site, user site, system site (a venv's base), .pth, editable.
    Traces: left-over dist-info (of another version than the files beside it), dist-info without files,
    conda record (conda installed another version), interrupted uninstall (~orch), left-over files."""


class DamagedFile(Record, frozen=True):
    path: str
    problem: Literal["missing", "truncated", "changed"]


class CodeArchs(Record, frozen=True):
    """The GPU code that was read out of torch's own libraries."""

    sass: tuple[str, ...] = ()
    """Carried by at least half of the containers: "sm_80", "sm_90a"."""
    ptx: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    """A few kernels only: what fewer than half of the containers carry, of any kind."""
    linalg: tuple[str, ...] = ()
    """SASS that libtorch_cuda_linalg carries, however few of its containers do."""
    linalg_ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    blas_gfx: tuple[str, ...] | None = None
    """gfx targets that the bundled rocBLAS has kernels for; None: no rocBLAS was found."""
    blaslt_gfx: tuple[str, ...] | None = None
    """The same of hipBLASLt."""
    device_packages: tuple[str, ...] = ()
    """A multi-arch host wheel carries no code itself: the device distributions found beside it."""


NOT_STARTED = "the interpreter itself did not start"
"""How `ImportTrial.error` begins where it is not torch that failed."""


class ImportTrial(Record, frozen=True):
    """What `import torch` did in a child of the examined interpreter."""

    ok: bool
    error: str = ""
    """Last line of the error, or what the child printed last."""
    signal: str = ""
    """SIGABRT, SIGILL ... where the child died of one."""
    version: str = ""
    cuda: str = ""
    hip: str = ""
    arch_list: tuple[str, ...] = ()
    device_count: int | None = None
    seconds: float = 0.0


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
    """cu128, rocm6.4, cpu, xpu ...; None where the files do not tell."""
    cuda: str | None = None
    """CUDA it was built with, "12.8"."""
    hip: str | None = None
    """HIP/ROCm it was built with, "6.4.43482"; `rocm` is its release number."""
    rocm: str | None = None
    origin: TorchOrigin = "unknown"
    path: str = ""
    copies: tuple[TorchCopy, ...] = ()
    damaged: tuple[DamagedFile, ...] = ()
    archs: Fact[CodeArchs] = unknown("not read")
    needs_glibcxx: Fact[str] = unknown("not read")
    """Highest GLIBCXX_x.y.z that its libraries ask for."""
    needs_glibc: Fact[str] = unknown("not read")
    """Highest GLIBC_x.y that its libraries ask for."""
    needs_libraries: tuple[str, ...] = ()
    """Names that torch's libraries ask for and that are in no folder the loader would search."""
    has_cuda_libraries: bool | None = None
    """Whether libtorch_cuda / libtorch_hip lies in torch/lib (None: folder not readable)."""
    own_hsa_runtime: bool | None = None
    """Whether a libhsa-runtime64 lies in torch/lib, as in ROCm wheels (None: folder not readable)."""
    trial: Fact[ImportTrial] = unknown("not started at this level")
    source: str = ""


EnvironmentKind = Literal["venv", "conda", "system", "user", "unknown"]


class ExtensionCode(Record, frozen=True):
    """The GPU code of the library that an installed package computes with."""

    package: str
    version: str
    path: str
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()


class TorchAsked(Record, frozen=True):
    """A line of a project that asks for torch: the next installation from it brings that torch back."""

    file: str
    """Name of the file in the project's folder: "pyproject.toml", "requirements.txt"."""
    requirement: str
    """As it is written: "torch==2.6.0"."""
    group: str = ""
    """Dependency group of a pyproject.toml."""
    extra: str = ""
    """Optional dependencies of a pyproject.toml."""
    hashed: bool = False
    """The file pins wheels by their hashes."""


class PythonEnvironment(Record, frozen=True):
    """The examined environment, from its files; its interpreter is never started at level static."""

    prefix: str = ""
    kind: EnvironmentKind = "unknown"
    python: Fact[str] = unknown("not found")
    """"3.12"; "3.13t" for a free-threaded one."""
    interpreter: str = ""
    site_packages: tuple[str, ...] = ()
    distributions: Fact[tuple[Distribution, ...]] = unknown("not read")
    torch: Fact[Torch] = unknown("not read")
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
    """Whether Python.h of that interpreter is there."""
    libstdcxx: Fact[str] = unknown("not probed")
    """Highest GLIBCXX_x.y.z of the libstdc++ that this environment's processes load."""
    libstdcxx_path: str = ""
    extensions: tuple[ExtensionCode, ...] = ()
    """Of the packages that the matrix names (flash-attn, vllm ...), where they are installed and could be read."""
    libraries: LoadPath = LoadPath()
    """CUDA/ROCm libraries that LD_LIBRARY_PATH or LD_PRELOAD put in the way of the wheel's own
    (libcudnn, libnvJitLink, libcublas, libnccl, librccl, libamdhip64 ...)."""
    source: str = ""

    def distribution(self, name: str) -> Distribution | None:
        """The installed distribution of that normalised name, if the listing is known to have it."""
        return next((d for d in self.distributions.value or () if d.name == name), None)


# --- log -----------------------------------------------------------------------------------------


class LogFault(Record, frozen=True):
    """A line of the kernel log that the matrix's patterns know: `kind` is the pattern's id."""

    kind: str
    line: str
    bdf: str | None = None
    xid: int | None = None
    seconds: float | None = None
    """Since boot, where the line says so."""


class KernelLog(Record, frozen=True):
    """Faults in the kernel log of this boot, oldest first."""

    faults: tuple[LogFault, ...] = ()
    source: str = ""


# --- smoke kernels ---------------------------------------------------------------------------------

SmokeStatus = Literal["pass", "wrong", "error", "crash", "timeout", "skipped"]


LISTING = "devices"
"""Name of the result that tells that torch could not list its devices."""


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
    """What one smoke kernel did on one device with one dtype."""

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
    """The error as raised, or the last words of a process that died."""
    signal: str = ""
    """SIGSEGV ... where the process died of one."""
    measures: dict[str, float] = field(default_factory=dict)
    """Figures that it measured: gb_per_s, tflops."""


class Smoke(Record, frozen=True):
    """Smoke kernels that were run in the examined interpreter, in their order."""

    level: Literal["quick", "standard", "full"]
    devices: tuple[SmokeDevice, ...] = ()
    kernels: tuple[SmokeKernel, ...] = ()
    why: str = ""
    """Why nothing, or not all, was run."""
    asked: bool = True
    """Whether a person asked for the level (else it was the default)."""
    gpu_asked: bool = False
    """Whether a person named a GPU ("cuda:0", "cuda") to compute on."""


# --- the whole -----------------------------------------------------------------------------------

Level = Literal["static", "driver", "quick", "standard", "full"]
SubjectKind = Literal["machine", "root", "snapshot", "whatif", "text"]
FORMAT = 2
"""Of a written Machine. It rises with a change that an older gpudoctor would misread; `intake.snapshot` reads all."""


class Machine(Record, frozen=True):
    """All that is known of one machine and one Python environment on it."""

    format: int = field(default_factory=lambda: FORMAT)  # a plain default would not be written
    system: System = System()
    gpus: tuple[Gpu, ...] = ()
    buses: Fact[bool] = unknown("not probed")
    """Known where the PCI bus (or what stands for it: KFD, WSL, Jetson) could be listed."""
    nvidia: NvidiaStack = NvidiaStack()
    amd: AmdStack = AmdStack()
    load_path: LoadPath = LoadPath()
    """Driver libraries: libcuda.so.1, libnvidia-ml.so.1, libhsa-runtime64.so.1 ..."""
    environment: Fact[PythonEnvironment] = unknown("not probed")
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables that matter here, of the examined process."""
    kernel_log: Fact[KernelLog] = unknown("not probed")
    smoke: Smoke | None = None
    """What the smoke kernels did, where they were run."""
    level: Level = "static"
    """How deep it was probed."""
    assumed: tuple[str, ...] = ()
    """Described machines: what nobody described and was taken as healthy."""

    @property
    def torch(self) -> Torch | None:
        """The torch of the examined environment, if one is known to be there."""
        return self.environment.value.torch.value if self.environment.value else None

    def of_vendor(self, vendor: Vendor) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.vendor == vendor)
