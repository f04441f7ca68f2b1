"""The frameworks of an environment, as their files describe them."""

from __future__ import annotations

from gpudoctor.machine.facts import Fact, Record, unknown
from gpudoctor.machine.system import Library
from gpudoctor.machine.torch import ImportTrial, Torch


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


class FileSetting(Record, frozen=True):
    """What a file of settings says where a variable is not set."""

    variable: str
    value: str
    path: str


class RefusedFlag(Record, frozen=True):
    """A flag in a variable that a framework does not know, or a file with flags that is not there."""

    variable: str
    flag: str
    """Its name, without dashes and value; the path of the file."""
    library: str
    """The library that holds the names of all flags that it knows; empty for a file."""


class FrameworkFiles(Record, frozen=True):
    """What the files of a framework beside torch tell, and its distributions do not."""

    name: str
    """As the matrix names the framework: "jax", "onnxruntime"."""
    version: str = ""
    build: str = ""
    """The distribution that makes it a GPU build, known or not: "jax-cuda12-plugin"; empty: a CPU build."""
    owner: str = ""
    """The distribution that its build record names: of two that share a folder, the one whose files lie there."""
    cuda: str | None = None
    """CUDA that it was built with, "13.0"."""
    blas_gfx: tuple[str, ...] | None = None
    """Targets that the rocBLAS of ROCm's wheels beside it has kernels for; None: none is there, or unknown."""
    not_found: Fact[tuple[str, ...]] = unknown("not looked for")
    """Of the libraries that it opens for GPU work, those of which no folder where it would look has a whole one."""
    beside: tuple[str, ...] = ()
    """Folders in which these lie all the same: it does not look there."""
    misfits: tuple[MissingSymbols, ...] = ()
    """What these libraries need of another one of NVIDIA's, and it does not have."""
    overruled: tuple[Library, ...] = ()
    """Libraries that LD_LIBRARY_PATH puts before those of NVIDIA's wheels."""
    refused: tuple[RefusedFlag, ...] = ()
    """Flags in variables that it does not know."""
    requested: bool | None = None
    """Whether a person asked for it; False: it was installed because another package requires it."""
    source: str = ""


class ModuleImport(Record, frozen=True):
    """What the import of another module than torch did in a child of the examined interpreter."""

    module: str
    """ "jax", "torchvision"."""
    package: str
    """The distribution that brings it."""
    version: str
    framework: str
    """The framework that it is, or belongs to: "jax"; "torch" for torchvision."""
    trial: Fact[ImportTrial]


class Frameworks(Record, frozen=True):
    """The frameworks of an environment, each as its own files describe it."""

    torch: Fact[Torch] = unknown("not read")
    others: tuple[FrameworkFiles, ...] = ()
    """The frameworks beside torch whose files were read."""
    settings: tuple[FileSetting, ...] = ()
    imports: tuple[ModuleImport, ...] = ()
    """The frameworks, and packages compiled for torch, whose import was tried."""

    def files_of(self, name: str) -> FrameworkFiles:
        """What the files of a framework beside torch tell; nothing if none was read."""
        return next((one for one in self.others if one.name == name), FrameworkFiles(name))
