"""What installing and compiling packages needs. A check of what is installed reads none of these rows."""

from typing import Literal

from msgspec import field

from gpudoctor.matrix.rows.row import Row


class WheelPage(Row, frozen=True, kw_only=True):
    """Pages with wheels for each torch, of packages that the package index has only the source of."""

    id: str
    packages: str
    """Regular expression for their whole names."""
    torch: str
    """PEP 440 specifier of the releases that it has pages for."""
    for_builds: str
    """Regular expression for the builds that it has pages for: "cu128"."""
    page: str
    """{torch} is "2.9.0", the first patch release; {build} "cu128"."""


class RuntimeLibraries(Row, frozen=True, kw_only=True):
    """The libraries of a package that brings one for each CUDA and ROCm and loads that for torch's (bitsandbytes)."""

    package: str
    version: str
    """PEP 440 specifier of the package."""
    newest: str
    """Newest of these releases."""
    runtimes: tuple[str, ...]
    """What its libraries are for: "cuda128", "rocm64"."""
    neighbours: bool = False
    """Without a library for torch's very release it takes the nearest of the same major."""
    torch: str | None = None
    """PEP 440 specifier of the torch that it requires."""
    python: str | None = None
    """The same for Python."""


class TorchUser(Row, frozen=True, kw_only=True):
    """A package that requires some torch, so that an installer brings the newest one along."""

    package: str


class GpuList(Row, frozen=True, kw_only=True):
    """A variable that says for which GPUs a program is compiled. CMake and make take it as an option, too."""

    name: str
    vendor: Literal["nvidia", "amd"] | None = None
    """Whose GPUs it lists; None: it holds options of compilers, or of CMake, which may name GPUs."""
    read_by: tuple[Literal["python", "cmake", "hipcc", "nvcc", "make", "cargo"], ...] = ()
    """What surely reads it from the environment: a Python package's build, or a program. Others may."""
    packages: tuple[str, ...] = ()
    """Packages that pip compiles with it, as the package index has no wheel of them."""
    ptx: Literal["marked", "each", "newest", "none"] = "none"
    """The entries that bring PTX, too: those with +PTX, all but the -real ones, the last one, or none."""
    words: dict[str, str] = field(default_factory=dict)
    """Names of architectures that may stand in it, in small letters, and the entries that they mean."""


class OptionalModules(Row, frozen=True, kw_only=True):
    """Modules of Python's standard library that it is compiled without where the headers of a library are missing."""

    id: str
    """The library: "libffi"."""
    modules: tuple[str, ...]
    debian: str
    """The package with its headers on Debian and Ubuntu."""
    fedora: str
    """The same on Fedora and RHEL."""


class RemovedModules(Row, frozen=True, kw_only=True):
    """Modules that a release of Python took out of its standard library."""

    python: str
    modules: tuple[str, ...]


class PackageFolders(Row, frozen=True, kw_only=True):
    """Folders of site-packages that belong to one package alone."""

    package: str
    folders: tuple[str, ...]


class InstallerTargets(Row, frozen=True, kw_only=True):
    """The AMD GPUs that an installer knows when it chooses a build by the machine; it takes no other for a GPU."""

    installer: str
    targets: tuple[str, ...]
