"""The torch of an environment, from its own files, and what its import did."""

from __future__ import annotations

from typing import Literal, get_args

from gpudoctor.machine.facts import Fact, Record, unknown
from gpudoctor.machine.system import ProcessLimits

CompanionName = Literal["torchvision", "torchaudio"]
COMPANIONS: tuple[CompanionName, ...] = get_args(CompanionName)
"""The packages that are released with torch, for one torch each."""
TORCH_AND_COMPANIONS = ("torch", *COMPANIONS)
UNKNOWN_VERSION = "of unknown version"
"""The version of a torch that a text does not tell."""


class DamagedFile(Record, frozen=True):
    path: str
    problem: Literal["missing", "truncated", "changed", "not-executable", "unreadable"]


_TRACES = (
    "left-over dist-info", "dist-info without files", "editable without its folder", "conda record",
    "interrupted uninstall", "left-over files", "working folder",
)  # fmt: skip


class TorchCopy(Record, frozen=True):
    """A copy of torch that `import torch` could find, in the order of sys.path: Python imports the first one. Traces
    that cannot be imported come after all copies."""

    path: str
    version: str | None
    via: str
    """Copies: PYTHONPATH, site, user site, system site (a venv's base), .pth, editable.
    Traces: left-over dist-info (of another version than the files beside it), dist-info without files,
    editable without its folder (the sources that it was installed from are gone), conda record (conda installed
    another version), interrupted uninstall (~orch), left-over files, working folder."""

    @property
    def is_trace(self) -> bool:
        """Whether it cannot be imported, or only by a program that is started in that folder."""
        return self.via in _TRACES


class CodeArchs(Record, frozen=True):
    """The GPU code in torch's own libraries."""

    sass: tuple[str, ...] = ()
    """In at least half of the containers: "sm_80", "sm_90a"."""
    ptx: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    """Only a few kernels: in fewer than half of the containers, of any kind."""
    linalg: tuple[str, ...] = ()
    """SASS in libtorch_cuda_linalg, however few of its containers have it."""
    gfx: tuple[str, ...] = ()
    blas_gfx: tuple[str, ...] | None = None
    """gfx targets that the bundled rocBLAS has kernels for; None: no rocBLAS was found."""
    device_packages: tuple[str, ...] = ()
    """A multi-arch host wheel has no code itself: the device distributions found beside it."""


FileProblem = Literal[
    "", "missing", "changed", "unreadable", "noexec", "other-python", "other-processor", "not-installed",
    "ends-python", "stale", "remainder",
]  # fmt: skip


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
    """`missing` and `changed`: against RECORD. `not-installed`: `owner` is required, and is not there.
    `ends-python`: a .pth file that runs when Python starts, and does not let it go on. `stale`: a compiled file that
    Python takes for its source, which has changed. `remainder`: a folder of a removed package, for which Python takes
    it."""
    detail: str = ""
    """What it was made for ("Python 3.11", "aarch64"); the specifier of what is not installed (">=4.10")."""
    standard: bool = False
    """Part of the interpreter's standard library."""
    put_first: str = ""
    """The .pth file or sitecustomize.py that names `import_folder`: Python looks there because of it."""
    import_folder: str = ""
    """The folder of sys.path with this file."""


class StartVariable(Record, frozen=True):
    """A variable that a file changed when Python started; `value` is None for one that it deleted."""

    name: str
    value: str | None
    file: str = ""
    """sitecustomize.py, usercustomize.py or a .pth file."""


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
    module: str = ""
    """The last module that was asked for before the import raised."""
    loading: str = ""
    """The library that was being loaded when the process was lost."""
    suspects: tuple[SuspectFile, ...] = ()
    """Files that the failure points at, what is wrong with one first."""
    named: tuple[str, ...] = ()
    """Names of variables that are set there, and that the error names."""
    empty: tuple[str, ...] = ()
    """Modules that were only folders there."""
    variables: tuple[StartVariable, ...] = ()
    """What the process had otherwise than it was started with."""
    limits: ProcessLimits = ProcessLimits()
    """Read if the import failed; `memory_kills` counts those during the import."""


TorchOrigin = Literal[
    "pypi", "download.pytorch.org", "nightly", "conda-forge", "conda", "ngc", "jetson", "amd", "distribution",
    "source", "unknown",
]  # fmt: skip


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

    @property
    def release(self) -> str:
        """Its version without the local part: "2.9.1"."""
        return self.version.partition("+")[0]

    def is_build(self, version: str, build: str | None) -> bool:
        """Whether it is this build of this release."""
        return (version, build) == (self.release, self.build)
