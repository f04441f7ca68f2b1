"""The examined Python environment: its packages, its frameworks, what stands in their way."""

from __future__ import annotations

from typing import Literal

from msgspec import field
from msgspec.structs import replace

from gpudoctor.machine.facts import Fact, Record, unknown
from gpudoctor.machine.frameworks import Frameworks, MissingSymbols
from gpudoctor.machine.system import LoadPath
from gpudoctor.machine.torch import DamagedFile, Torch, TorchCopy


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
    """Modules and libraries that its RECORD names and that are missing or empty, and programs that nobody may
    execute; read only for what torch and other GPU packages require. Of torch, the programs alone."""
    emptied: bool = False
    """Nothing of its modules and libraries is left."""
    built_for_torch: str = ""
    """The torch that it was compiled against, as its own build record says: "2.5.1+cu121"."""
    lacks: tuple[str, ...] = ()
    """Of METADATA and RECORD, what its .dist-info lacks. Without RECORD pip cannot uninstall it. Where there is no
    .dist-info at all, `path` is the package's own folder, and its files tell the version."""
    strays: tuple[str, ...] = ()
    """Other .dist-info folders of its name beside it, without RECORD: pip may take one of them for the package."""
    twins: tuple[Distribution, ...] = ()
    """Other whole records of that name in the same folder: the files of both lie there."""
    made_for: str = ""
    """What its wheel is for, if not this Python on this machine: "Python 3.12", "aarch64"."""
    unlinked: bool = False
    """Its files are links that lead nowhere: the cache of the installer was removed."""
    pure: bool = False
    """Its wheel is for every platform, so that it holds nothing compiled; read only for GPU packages."""

    @property
    def only_named(self) -> bool:
        """Whether its name and release are all that is known: by a description, a text or a plan."""
        return not self.path.endswith("-info")

    @property
    def is_of_sources(self) -> bool:
        """Whether it was built here, from a folder or an archive: its files may still lie there (editable)."""
        return self.direct_url.startswith("file:") and not self.direct_url.endswith(".whl")

    @property
    def lost(self) -> tuple[DamagedFile, ...]:
        """Files that are gone, cut short or closed to this user; none where all are links that lead nowhere."""
        return () if self.unlinked else tuple(one for one in self.damaged if one.problem != "not-executable")

    @property
    def locked(self) -> tuple[DamagedFile, ...]:
        """Programs that nobody may execute."""
        return tuple(one for one in self.damaged if one.problem == "not-executable")


NO_GLIBCXX = "0"
"""What stands for a libstdc++ without any such version."""


EnvironmentKind = Literal["venv", "conda", "system", "user", "unknown"]


class MissingLibrary(Record, frozen=True):
    """A library that another one names and that the loader does not find."""

    name: str
    """ "libcudart.so.12"."""
    instead: str = ""
    """Path of one with another major release, if the environment has such: ".../libcudart.so.13"."""
    owner: str = ""
    """The installed distribution whose record lists it: its file is gone or cut short."""
    passed_over: str = ""
    """Path of one that is there: cuda-pathfinder takes `instead`, which it meets first."""


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
    """Libraries that it opens when it needs them, as far as it contains their whole names."""
    missing: tuple[MissingLibrary, ...] = ()
    """Libraries of `needs` and `opens`, and torch's GPU libraries, that are in no folder."""
    of_torch: bool = False
    """It names libraries of torch: a process has imported torch before it is loaded."""
    undefined: tuple[str, ...] = ()
    """A few symbols of torch that it needs and that the installed torch does not define."""

    def of_other_cuda(self, cuda: str | None) -> tuple[MissingLibrary, ...]:
        """The runtimes that it needs and that a torch for this CUDA does not bring; none if torch is for no CUDA."""
        own = f"libcudart.so.{(cuda or '').partition('.')[0]}"
        runtimes = (name for name in self.needs if name.startswith("libcudart.so."))
        return tuple(MissingLibrary(name) for name in runtimes if cuda and name.split(".")[:3] != own.split("."))


Lock = Literal["uv.lock", "poetry.lock", "pixi.lock", "pdm.lock", "Pipfile.lock", "requirements.in", "hatch", ""]


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
    index: str = ""
    """URL of the index that uv's sources name for it."""


class ProjectPackage(Record, frozen=True):
    """A package that a project's pyproject.toml names; `name` is normalised."""

    name: str
    group: str = ""
    """Dependency group."""
    extra: str = ""
    """Optional dependencies."""


WORKING_FOLDER = "working folder"
"""`ShadowingModule.via`: only programs that are started there import it."""


class ShadowingModule(Record, frozen=True):
    """A module or package that Python imports in place of one that a framework needs."""

    name: str
    """Top-level name: "queue", "typing_extensions"."""
    path: str
    via: str
    """PYTHONPATH, user site, .pth, working folder."""
    hides: str
    """The file or folder of that name further on; empty: no installed package has the module, and the framework does
    without it."""
    standard: bool = False
    """What is hidden belongs to the standard library."""
    at_import: bool = True
    """The import of the framework itself loads it."""
    framework: str = "torch"


class InterruptedInstall(Record, frozen=True):
    """A package that is not installed, and of which an interrupted update or uninstall left a record (~orchvision),
    or a folder without its first file."""

    name: str
    version: str
    """Empty: a folder, which tells none."""
    path: str


StartFaultKind = Literal[
    "interpreter-gone", "interpreter-other", "interpreter-foreign", "interpreter-no-program", "of-windows",
    "no-pyvenv-cfg", "no-library", "pth-undecodable", "interpreter-mixed", "packages-gone",
]  # fmt: skip


class StartFault(Record, frozen=True):
    """Why the Python of an environment cannot start, or does not see its packages."""

    kind: StartFaultKind
    path: str
    """The interpreter, pyvenv.cfg, the .pth file, the folder in which PYTHONHOME has it look for its library, or the
    link in place of the packages."""
    prefix: str = ""
    detail: str = ""
    """Where the interpreter's or that link ends; its version; the processor that it is for; its folder on Windows."""
    python: str = ""
    """The version that the installed packages are for: "3.11"."""
    links: tuple[str, ...] = ()
    """The names of the interpreter in the environment."""
    other: str = ""
    """A Python of that version outside of it."""


class Constraint(Record, frozen=True):
    """A line that limits which versions of a package pip or uv may install."""

    name: str
    specifier: str = ""
    """ "<=2.14.1"; "@ URL" for one file alone."""
    marker: str = ""
    source: str = ""
    """ "/etc/pip/constraints.txt, line 2"."""


class InstallerSettings(Record, frozen=True):
    """What configuration files and variables tell pip or uv, as far as it decides what is installed, and where."""

    index_url: str = ""
    """The package index, if it is not the default one; like all addresses here without user and password."""
    extra_indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    wheels: tuple[str, ...] | None = None
    """Those in the folders of `find_links`; None if one of these cannot be listed, or has
    too many."""
    proxy: bool = False
    """It reaches indexes through a proxy."""
    no_index: bool = False
    offline: bool = False
    no_deps: bool = False
    require_hashes: bool = False
    require_virtualenv: bool = False
    dry_run: bool = False
    """It only says what it would install."""
    no_binary: tuple[str, ...] = ()
    user: bool = False
    python: str = ""
    """pip works on the environment of this Python, whichever runs it."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """Folders that packages go to instead of the environment, by option: target, prefix, root."""
    torch_backend: str = ""
    """uv takes torch from the index of this build, whichever index a command names."""
    exclude_newer: str = ""
    """uv installs nothing that was published after this date, or within this span: "7 days"."""
    constraints: tuple[Constraint, ...] = ()
    """Constraints on packages that GPU work needs."""
    unread: tuple[str, ...] = ()
    """Constraint files that could not be read."""
    lost: tuple[str, ...] = ()
    """Constraint files that are not there: the installer then installs nothing."""
    sources: dict[str, str] = field(default_factory=dict)
    """Where each of these was set: "no_index": "/etc/pip.conf, line 3"."""


READ_ONLY = "read-only file system"
"""Why nobody may write to a folder."""


class Installers(Record, frozen=True):
    """What an install command meets here; read only where something is to be installed."""

    pip: InstallerSettings = InstallerSettings()
    uv: InstallerSettings = InstallerSettings()
    programs: Fact[tuple[str, ...]] = unknown("not looked for")
    """Of uv, poetry, pdm, hatch, pixi, pip-compile and conda's tools, those on PATH."""
    ensurepip: Fact[bool] = unknown("not looked for")
    """Whether the interpreter can make itself a pip."""
    writable: Fact[bool] = unknown("not tried")
    """Whether this user may write to the environment's package folder; its path is the source."""
    interpreter: Fact[bool] = unknown("not looked for")
    """Whether the interpreter's file is there: the Python that a venv was made with may be gone."""
    pip_fails: str = ""
    """The error with which the environment's own pip ends: files of it are gone or damaged."""
    pip_files: tuple[str, ...] = ()
    """The folders of that pip."""
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Links that lead nowhere in place of folders of a package, by its name: no installer writes through them."""


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
    interrupted: tuple[InterruptedInstall, ...] = ()
    """The same of other GPU packages."""
    externally_managed: bool = False
    has_pip: bool = False
    uv_managed: bool = False
    """Made by uv (pyvenv.cfg says so)."""
    project: str = ""
    """Folder of a project that owns this environment."""
    lock: Lock = ""
    """The project's lock file; requirements.in for one of pip-tools, "hatch" for one of hatch."""
    project_keys: tuple[str, ...] = ()
    """What the project tells its tool: "source.NAME" for pdm, "envs.default.KEY" for hatch."""
    compiled_by: tuple[str, ...] = ()
    """The command that made requirements.txt, as its head says."""
    torch_asked: tuple[TorchAsked, ...] = ()
    """Lines of the project's own files that ask for torch."""
    project_packages: tuple[ProjectPackage, ...] = ()
    """The installed packages that the project names itself."""
    conda_tool: Literal["conda", "mamba", "micromamba"] = "conda"
    """The tool that last changed a conda prefix, as its history says."""
    python_headers: Fact[bool] = unknown("not probed")
    """Whether that interpreter's Python.h exists."""
    start_faults: tuple[StartFault, ...] = ()
    """Why its Python cannot start, or does not see its packages."""
    instead_of: str = ""
    """The folder that the shell counts as the active environment, and that is gone: this one was found in its
    place."""
    pip_program: str = ""
    """The pip of the environment that starts another Python."""
    pip_starts: str = ""
    """The Python of another environment that this one's `pip` starts: the folder was copied or renamed."""
    libstdcxx: Fact[str] = unknown("not probed")
    """Highest GLIBCXX_x.y.z of the libstdc++ that this environment's processes load, or NO_GLIBCXX."""
    libstdcxx_path: str = ""
    extensions: tuple[Extension, ...] = ()
    """Libraries of any package beside torch (flash-attn, vllm, onnxruntime-gpu ...) that compute on GPUs."""
    shadows: tuple[ShadowingModule, ...] = ()
    """Modules that stand before those that torch imports on its way."""
    libraries: LoadPath = LoadPath()
    """CUDA/ROCm libraries that LD_LIBRARY_PATH or LD_PRELOAD puts before the wheel's own (libcudnn, librccl ...)."""
    missing_symbols: tuple[MissingSymbols, ...] = ()
    """Read only where a library comes from elsewhere, an nvidia-* wheel is not the one that torch pins, or amdsmi is
    installed."""
    installers: Installers = Installers()
    triton_owner: str = ""
    """The Triton whose files are in the folder triton/, where several are installed; empty if unknown."""
    source: str = ""

    @property
    def torch(self) -> Fact[Torch]:
        """The torch that `import torch` would load there."""
        return self.frameworks.torch

    def with_torch(self, torch: Fact[Torch]) -> PythonEnvironment:
        """The same environment with this torch. What extensions lack beside another one is unknown then, but for the
        runtime of another CUDA, and whether what is compiled for torch can be imported."""
        frameworks, extensions = replace(self.frameworks, torch=torch), self.extensions
        before, after = self.torch.value, torch.value
        same = (before.version if before else "") == (after.version if after else "")
        if frameworks.imports and not same:
            imports = tuple(one for one in frameworks.imports if one.framework != "torch")
            frameworks = replace(frameworks, imports=imports)
        if extensions and not same:
            cuda = after.cuda if after else None
            extensions = tuple(
                replace(one, missing=one.of_other_cuda(cuda), undefined=()) if one.of_torch else one
                for one in self.extensions
            )
        return replace(self, frameworks=frameworks, extensions=extensions)

    def with_torch_facts(self, **facts: object) -> PythonEnvironment:
        """The same environment with these facts of its torch, which is there."""
        assert self.torch.value is not None
        return self.with_torch(replace(self.torch, value=replace(self.torch.value, **facts)))

    @property
    def packages(self) -> tuple[Distribution, ...]:
        """The installed distributions, as far as their listing is known."""
        return self.distributions.value or ()

    def distribution(self, name: str) -> Distribution | None:
        """The installed distribution of that normalised name, if the listing is known to have it."""
        return next((one for one in self.packages if one.name == name), None)
