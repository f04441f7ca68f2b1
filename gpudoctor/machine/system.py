"""The system: kernel, distribution, processor, where it runs; device nodes, kernel modules, libraries, kernel log."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from gpudoctor.machine.facts import Fact, Record, unknown


class Os(Record, frozen=True):
    """Distribution, from os-release: `id` "ubuntu", `version` "24.04", `like` ("debian",)."""

    id: str = ""
    version: str = ""
    like: tuple[str, ...] = ()
    name: str = ""
    codename: str = ""
    """Of the Ubuntu or Debian release that it is based on, else its own: "noble"."""
    image: str = ""
    """What replaces its root as a whole, so that packages are not installed one by one: rpm-ostree ..."""


JETSON_DRIVER = "NVIDIA driver of Jetson Linux"
"""What is assumed of a described Jetson: its driver comes with Jetson Linux, in numbers of its own."""


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
    nameless: bool = False
    """No account has this number, and no variable gives a name: `docker run --user 1234`."""
    source: str = ""
    in_namespace: bool = False
    """In a user namespace (a rootless container): its root is not that of the machine."""


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
    locked_memory: int | None = None
    """RLIMIT_MEMLOCK (`ulimit -l`), in bytes."""
    locks_any_memory: bool = False
    """It has CAP_IPC_LOCK, for which the kernel does not apply that limit."""
    open_files: int | None = None
    """RLIMIT_NOFILE (`ulimit -n`)."""
    cpus: int | None = None
    """How many processors it may run on: cpuset and affinity."""


class Clock(Record, frozen=True):
    """How well the system's clock agrees with others: its time service, and what the kernel knows of the error."""

    service: str = ""
    """systemd-timesyncd, chronyd, ntpd; "" if none is seen."""
    synchronized: bool | None = None
    error: int | None = None
    """The kernel's bound of the error, in microseconds."""


class System(Record, frozen=True):
    """Kernel, distribution, processor, and where this runs (WSL2, virtual machine, container, job)."""

    kernel: Fact[str] = unknown("not probed")
    """Release as `uname -r` prints it."""
    arch: Fact[str] = unknown("not probed")
    """`uname -m`: x86_64 or aarch64."""
    os: Fact[Os] = unknown("not probed")
    libc: Fact[str] = unknown("not probed")
    """C library that programs load: "glibc 2.31", or "musl"."""
    cpu_flags: Fact[tuple[str, ...]] = unknown("not probed")
    memory: Fact[int] = unknown("not probed")
    shm: Fact[int] = unknown("not probed")
    """Size of /dev/shm."""
    hugepages: Fact[int] = unknown("not probed")
    """Bytes that are reserved as huge pages of the default size."""
    limits: Fact[ProcessLimits] = unknown("not probed")
    secure_boot: Fact[bool] = unknown("not probed")
    lockdown: Fact[str] = unknown("not probed")
    """Mode of the kernel's lockdown: "none", "integrity" or "confidentiality"; absent if the kernel has none."""
    kernel_options: Fact[tuple[str, ...]] = unknown("not probed")
    """Options of the kernel command line that affect GPUs, modules or the IOMMU."""
    iommu: Fact[str] = unknown("not probed")
    """How the IOMMU translates for the GPUs: "identity", "DMA", "DMA-FQ"; absent if it does not."""
    acs: Fact[tuple[str, ...]] = unknown("not probed")
    """PCI bridges above GPUs whose access control (ACS) sends transfers between GPUs up to the processor."""
    clock_source: Fact[str] = unknown("not probed")
    """tsc, kvm-clock, hpet ..."""
    clock: Fact[Clock] = unknown("not probed")
    wsl: Fact[str] = unknown("not probed")
    """The WSL kernel release; absent elsewhere."""
    jetson: Fact[Jetson] = unknown("not probed")
    virtual_machine: Fact[str] = unknown("not probed")
    container: Fact[str] = unknown("not probed")
    """docker, podman, kubernetes, lxc, apptainer ...; absent on bare metal."""
    job: Fact[BatchJob] = unknown("not probed")
    batch_system: Fact[str] = unknown("not probed")
    """Where jobs are submitted from here: slurm, lsf ...; asked only where there is neither a job nor a GPU."""
    user: User = User()
    suspends: Fact[int] = unknown("not probed")
    """How often the system was suspended and resumed since boot."""
    groups: dict[str, int] = field(default_factory=dict)
    """Numbers of the groups that own GPU nodes on this system (render, video), from /etc/group."""
    missing_compilers: tuple[str, ...] = ()
    """What CC and CXX name, where no such program is there."""
    closed_folders: tuple[str, ...] = ()
    """What variables name as a folder for compiled kernels, where this user can make none."""
    missing_files: tuple[str, ...] = ()
    """What variables name as a library to open, where no such file is there."""

    @property
    def platform(self) -> str:
        """ "linux-x86_64" or "linux-aarch64", as torch wheels name it."""
        return f"linux-{self.arch.value or 'x86_64'}"


Opening = Literal["ok", "EACCES", "EPERM", "ENOENT", "ENXIO", "EIO", "EBUSY", "ENODEV", "EINVAL", "other", "untried"]


class DeviceNode(Record, frozen=True):
    """A node below /dev: `opened` is the result of really opening it for reading and writing."""

    path: str
    opened: Opening = "untried"
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    group: str = ""
    """The name of the owning group, where its number is not known."""


class InstalledModule(Record, frozen=True):
    """A kernel module file below /lib/modules: its kernel, version and flavour."""

    name: str
    kernel: str
    path: str
    version: str | None = None
    flavour: Literal["open", "proprietary"] | None = None


DkmsStatus = Literal["added", "built", "installed", "broken"]


class DkmsModule(Record, frozen=True):
    """A DKMS tree: `status` is added, built or installed for `kernel`."""

    name: str
    version: str
    kernel: str
    status: DkmsStatus
    source: str
    failed: bool = False
    """Its last build for that kernel ended with an error."""

    @property
    def text(self) -> str:
        """ "built for 6.8.0-60-generic"."""
        return f"{'build failed' if self.failed else self.status} for {self.kernel or 'no kernel'}"


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
