"""Packages of an environment: what they need of torch, of one another and of libraries."""

from typing import Literal

from msgspec import Struct, field

from gpudoctor.matrix.rows.row import Row


class TorchDependent(Row, frozen=True, kw_only=True):
    """A package that is compiled against torch (xformers, flash-attn, vllm ...) and the torch it was built for."""

    package: str
    version: str
    """PEP 440 specifier of the package."""
    torch: str
    """PEP 440 specifier of torch."""
    cuda: str | None = None
    """Major release of the CUDA runtime that the package index's wheel needs; None: not read."""
    tagged: bool = False
    """Its wheels for another CUDA have a local version ("0.24.0+cu129")."""
    builds: tuple[str, ...] = ()
    """Builds of torch whose own index has a wheel of it."""
    works_without_libraries: bool = False
    """Beside another torch it does not load its libraries, and its Python code works without them."""
    slug: str


class BuildRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that says what a framework was built for; its patterns are regular expressions with one group."""

    file: str
    """Below site-packages."""
    package: str | None = None
    """The distribution that it belongs to."""
    cuda: str | None = None
    for_gpu: str | None = None
    """ "True" for a GPU build."""


class Framework(Row, frozen=True, kw_only=True):
    """A framework beside torch: the distributions that bring it, and what its users call it."""

    framework: str
    title: str
    packages: tuple[str, ...]
    """Normalised names, those of GPU builds first; the first one that is installed gives the version."""
    brought_by: dict[str, str] = {}
    """Packages that bring its newest release, with the specifier of their releases that do."""
    module: str = ""
    """What a program imports, if that needs no GPU: its import is tried."""
    record: BuildRecord | None = None
    gpu: Literal["always", "usually", "sometimes"]
    """What it is installed for: GPU work alone; GPU work as a rule; or often CPU work beside other things."""
    cpu: str = ""
    """The distribution to install where no GPU is; empty: it has no CPU build."""
    wheels_from: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of its packages, the first release with wheels for a Python; older ones have none for it."""
    extras: dict[str, str] = field(default_factory=dict)
    """The extras for GPUs that it has or had, with the specifier of the releases that do; empty: unknown."""
    for_gpus: str = ""
    """Regular expression for "name==version" of what makes it a GPU build, known or not; empty: nothing else does."""
    compares_versions: bool = False
    """It refuses libraries older than those that its extras name; others only refuse an older cuDNN."""
    driver_library: str = ""
    """A library of NVIDIA's driver beside libcuda without which it uses no GPU."""
    chooses_torch: bool = False
    """A program that a person installs for itself, with the torch that it pins; a library follows the torch."""


class FrameworkBuild(Row, frozen=True, kw_only=True):
    """A GPU build of a framework: how it is recognised, what it needs, and what installs it."""

    framework: str
    package: str
    """The distribution that makes it this build."""
    version: str | None = None
    """PEP 440 specifier of that distribution."""
    parts: tuple[str, ...] = ()
    """Distributions that come and go with it."""
    file: str = ""
    """A library of the build below site-packages; without it, this is the CPU build."""
    vendor: Literal["nvidia", "amd"]
    cuda: str | None = None
    """CUDA release or major that it was built with."""
    rocm: str | None = None
    install: str = ""
    """The distribution to install for it; empty: no index has a wheel."""
    extra: str = ""
    """With this extra it brings its CUDA or ROCm libraries."""
    newest: str | None = None
    """Newest release of `install`."""
    pythons: tuple[str, ...] = ()
    """Pythons for which that release has wheels; empty: unknown."""
    older: dict[str, str] = field(default_factory=dict)
    """For other Pythons the last release of this build that has a wheel."""
    image: str = ""
    """The image that it comes as, where no index has a wheel."""
    instructions: str = ""
    """The page that tells how to install it, where no index has a wheel."""
    releases: tuple[str, ...] = ()
    """Releases of `install` that are there, oldest first, where it does not have those of the framework."""
    beside: tuple[str, ...] = ()
    """The framework's own packages, which must be of the same release. The build uses the libraries of the system."""
    default: bool = False
    """Its package serves machines without a GPU, too: what is installed beside it tells whether a GPU is meant."""
    platforms: tuple[str, ...] = ("linux-x86_64", "linux-aarch64")
    archs: tuple[str, ...] = ()
    """What its own libraries have code for: "sm_90" or "gfx1100"; empty: unknown, or compiled when needed."""
    ptx: tuple[str, ...] = ()
    least: str | None = None
    """Oldest NVIDIA architecture that it supports."""
    opens: tuple[str, ...] = ()
    """Libraries that it opens itself for GPU work; no library of it names them as needed."""
    cudnn: str | None = None
    """The major release of the cuDNN that some programs make it open (Whisper); `opens` has what all need."""
    looks: Literal["wheels", "loader", "pathfinder"] = "wheels"
    """Where it looks for them: in NVIDIA's wheels before the loader's path, or on that path alone, or where
    cuda-pathfinder does, which prefers the wheels of CUDA 13."""
    variable_wins: bool = False
    """LD_LIBRARY_PATH comes before NVIDIA's wheels: it opens libraries by name, with a DT_RUNPATH."""

    @property
    def with_extra(self) -> str:
        """What an installer is asked for: "jax[cuda12]"."""
        return f"{self.install}[{self.extra}]" if self.extra else self.install


class SharedFiles(Row, frozen=True, kw_only=True):
    """Packages that own the same files: of two of them, the one that was installed last has overwritten the other."""

    id: str
    packages: str
    """Regular expression for whole normalised names. With a group `one`, only those share files that it finds
    equal."""
    needles: tuple[str, ...] = ("",)
    """Every such name holds one of these texts; computed when the YAML is read, nobody writes it."""
    per_major: bool = False
    """Only those of one major version share files: the names of their libraries hold it (libcudnn.so.8, .so.9)."""
    slug: str
    framework: str | None = None
    what: str
    """What they share: "the folder onnxruntime"."""
    severity: Literal["error", "warning"] = "error"
    instructions: str = ""
    """Where a person reads how to install one of them that the package index lacks."""


class ProgramBuild(Row, frozen=True, kw_only=True):
    """What installs a program or package for a GPU, where a message tells a fault and not whose it is."""

    program: str
    title: str
    """As its users call it."""
    pattern: str
    """Its names in small letters, as whole words: those of a text, and of modules in a traceback."""
    framework: str = ""
    """One of `framework_builds`, which then give the fix."""
    how: str = ""
    """The fix where it is none."""


class FrameworkVariable(Row, frozen=True, kw_only=True):
    """A value of an environment variable that keeps a framework from the GPU, or makes it fail."""

    framework: str
    variables: tuple[str, ...]
    """Names of one meaning."""
    pattern: str
    """Regular expression for the whole value."""
    severity: Literal["error", "warning", "note"]
    unless: Literal["nvidia", "amd"] | None = None
    """A build for this vendor's GPUs makes the value right."""
    builds: Literal["gpu", "nvidia", "amd", "cpu", "any"] = "gpu"
    """The builds that it is wrong for; of "cpu" and "any" it is so without a GPU, too."""
    version: str | None = None
    """PEP 440 specifier of the framework; None: every version."""
    package: str = ""
    """Only beside this distribution, of the versions that `package_version` names."""
    package_version: str | None = None
    without: str = ""
    """Only where no distribution of such a name is installed: a regular expression."""
    names: Literal["", "program", "file", "folder", "user"] = ""
    """The value names a program or a file, and is wrong where there is none; or a folder, where this user can make
    none; or the user, and is missed where no account gives a name."""
    ptx: Literal["", "there", "lacking"] = ""
    """Of torch: only where it has PTX that the driver compiles for every usable GPU; only where it has not."""
    meaning: str
    """A sentence without its full stop: "JAX then uses no GPU"."""


class FrameworkFlags(Row, frozen=True, kw_only=True):
    """A variable with flags, of which a framework stops at one that it does not take."""

    framework: str
    variable: str
    libraries: tuple[str, ...]
    """Below site-packages: the first that is there holds the names of all flags that it knows."""
    gone: str = ""
    """Regular expression for names that a release of `gone_from` no longer knows; it counts where no library was
    read."""
    gone_from: str = ""
    takes: dict[str, str] = {}
    """A regular expression for names, and one for what must follow them: "=4", or nothing."""
    severity: Literal["error", "warning"]
    meaning: str
    """What then happens, without a full stop."""


class LibraryRole(Row, frozen=True, kw_only=True):
    """What it means that a library has no code for a GPU. A library without a row works if some container runs, and
    does not work if none does."""

    library: str
    """Regular expression for the end of its path, from a slash on."""
    needles: tuple[str, ...] = ("",)
    """Every such path holds one of these texts; computed when the YAML is read, nobody writes it."""
    role: Literal["half", "split", "part", "chosen", "alternative"]
    """half: built for what half of its containers have; split: kernels split by GPU on purpose; part: few operations
    need it; chosen: written for chosen GPUs; alternative: one of several, of which the right one is loaded."""


class ExtensionBuild(Row, frozen=True, kw_only=True):
    """How a package with GPU code of its own is compiled for a GPU."""

    package: str
    least: str | None = None
    """Oldest NVIDIA architecture that its source can be compiled for."""
    version: str | None = None
    """PEP 440 specifier of the releases that `least` is about; None: all."""
    instead: str = ""
    """What a person with an older GPU does; empty: torch's own kernels do the same."""
    build: str | None = None
    """Variables for compiling it here for a GPU; {digits} is "120", {dotted} "12.0"."""
    build_amd: str | None = None
    """The same for AMD; {gfx} is "gfx1100"."""
    only_source: bool = False
    """Whether the package index has no wheel of it, and its setup.py stops without nvcc."""
    imports_torch: bool = False
    """Whether its setup.py imports torch without asking for it as a build dependency."""
    skip: str | None = None
    """The variable that makes its setup.py compile nothing."""


class LateLibrary(Row, frozen=True, kw_only=True):
    """Libraries that another one opens only when it needs them (dlopen), by the first part of their names."""

    opener: str
    """"libcudnn" of libcudnn.so.9."""
    version: str | None = None
    """Specifier of the opener's version; None: every one."""
    opens: tuple[str, ...]
    dispatches: bool = False
    """The opener's own functions only call those of the same names in these libraries."""


class ImportedModules(Row, frozen=True, kw_only=True):
    """Top-level modules that a framework loads: a file of such a name in an earlier folder takes their place."""

    id: str
    framework: str = "torch"
    modules: tuple[str, ...]
    standard: bool = False
    """They belong to Python's standard library."""
    at_import: bool = False
    """Its import fails without them; the others are loaded later, or may be absent."""
    tried: bool = False
    """Its import does without them where they are not installed, and fails where something else has their name."""
    package: str = ""
    """The distribution that brings them; empty: one of their own name."""
    torch: str = ""
    """Releases of torch, as a specifier; empty: all."""


class VersionFile(Row, frozen=True, kw_only=True):
    """A file of a package that states its version: it tells what lies there where no record does."""

    package: str
    file: str
    """Below site-packages; it assigns the text to __version__, _version or version."""


class PackageConflict(Row, frozen=True, kw_only=True):
    """Two installed packages that conflict, by specifier (numpy 2 with old torch ...)."""

    package: str
    version: str
    other: str
    other_version: str
    slug: str
    brought_by: tuple[str, ...] = ()
    """Packages that require it, and any release of it will do for them."""


class RequirementUse(Row, frozen=True, kw_only=True):
    """What breaks where a package lacks something that it requires. A requirement without a row breaks a part."""

    package: str
    requires: str
    """A regular expression for the whole normalised name of what is required."""
    breaks: Literal["import", "gpu", "part", "nothing"]
    """The package's import; GPU work, once a library is loaded; only the `part` that is named; or nothing."""
    version: str | None = None
    """PEP 440 specifier of the package; None: every version."""
    part: str = ""
    """What fails, as a person knows it: "torch.compile"; with an import, the module of the package that cannot be
    imported."""
    spare: str | None = None
    """A regular expression for the names of its files that nothing misses."""
    optional: bool = False
    """The package does not require it, but uses it where it is installed."""
    newer: bool = False
    """A newer release than the one that the package pins does as well."""
    follows: bool = False
    """The package has the release numbers of what it requires: where they differ, it is the one to be replaced."""


class SameRelease(Row, frozen=True, kw_only=True):
    """Packages that must be of one release."""

    package: str
    """Its import compares the releases, and stops where they differ."""
    others: tuple[str, ...]
    last_releases: dict[str, str] = {}
    """The last release of those that the index has no newer one of; the package does without them."""
    unless: str
    """The variable that turns the comparison off."""
    text: str
    """What it prints."""
