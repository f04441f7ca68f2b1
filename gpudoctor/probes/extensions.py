"""Libraries of installed packages that compute on GPUs: what they need to be loaded, and the GPUs they have code for.

No list of packages: the RECORD of each tells its libraries, and their ELF headers tell the rest. Only libraries with
a name or a size that GPU code has are opened. CUDA's, ROCm's and torch's own libraries are left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Distribution, Extension, PythonEnvironment
from gpudoctor.probes.distributions import with_details
from gpudoctor.probes.gpu_libraries import is_own_copy
from gpudoctor.probes.record import Record, read_record

if TYPE_CHECKING:
    from gpudoctor.probes.library_search import Asker, RecordedLibrary

_NO_EXTENSIONS = ("nvidia-", "rocm-sdk-", "amd-torch-device-", "triton", "pytorch-triton")
"""Distributions of CUDA, ROCm and Triton: others need them."""
_MARKS = ("cuda", "cudnn", "cubin", "rocm", "hip", "gpu", "torch", "xla", "tensorrt", "migraphx", "ggml", "kernel",
          "_C.", "_ext.")  # fmt: skip
_LARGE = 1 << 20
"""GPU code makes a library large: smaller ones are opened if their names or their neighbours' tell of a GPU."""
_MOST_LIBRARIES = 200
_WITH_PATHFINDER = r"cuda-pathfinder\b"
_LOOSE = (b".cubin", b".hsaco", b".co", b".fatbin")


class _Package:
    """A distribution, its RECORD, and the libraries in it: sizes by path below its folder."""

    def __init__(self, distribution: Distribution, record: Record, compiled: tuple[str, ...] = ()) -> None:
        self.distribution = distribution
        self.folder = posixpath.dirname(distribution.path)
        self.record = record
        self.libraries = {_text(path): size for path, size in record.libraries}
        self.compiled = compiled
        """Paths of those that lie in the sources of an editable install."""
        names = "\n".join((distribution.name, *self.libraries))
        self.marked = any(mark in names for mark in _MARKS)
        """Whether a name tells of a GPU."""

    def path(self, name: str) -> str:
        return posixpath.normpath(posixpath.join(self.folder, name))

    def candidates(self) -> list[str]:
        """Paths of the libraries that may have to do with a GPU."""
        names = [name for name, size in self.libraries.items() if self.marked or size >= _LARGE]
        paths = [*map(self.path, names), *self.compiled]
        return [path for path in paths[:_MOST_LIBRARIES] if not is_own_copy(posixpath.basename(path))]

    def kernels(self) -> list[str]:
        """Paths of kernels in files of their own."""
        marks = _LOOSE if self.marked else ()
        return [self.path(_text(path)) for mark in marks for path, _ in self.record.files(mark + b",")]


def read_extensions(
    host: Host, environment: PythonEnvironment, variables: Mapping[str, str]
) -> tuple[tuple[Extension, ...], tuple[Distribution, ...]]:
    """The extensions, and all distributions: those with extensions are opened, for what they require."""
    distributions = environment.packages
    beside = [one for one in distributions if one.name != "torch"]
    asking = [one for one in beside if not one.name.startswith(_NO_EXTENSIONS)]
    python = environment.python.value or ""
    packages = {one.name: _listed(host, one, python) for one in asking}
    opened: dict[str, Distribution] = {}
    askers: list[Asker] = []
    found: list[Extension] = []
    for package in filter(None, packages.values()):
        for extension, asker in _read_package(host, package):
            name = package.distribution.name
            opened[name] = opened.get(name) or _opened(host, package.distribution)
            found.append(extension)
            askers += [asker] if asker else []
    if not found:
        return (), distributions
    from gpudoctor.probes.library_search import missing_libraries

    # What the others bring is asked for by an extension only.
    packages |= {one.name: _listed(host, one, python) for one in beside if one.name not in packages}
    shipped = _shipped(packages[one.name] for one in beside)
    finding = {name for name, one in opened.items() if any(re.match(_WITH_PATHFINDER, text) for text in one.requires)}
    lacking = missing_libraries(host, environment, variables, askers, shipped, finding)
    undefined = _undefined(host, environment, askers, opened)
    extensions = (
        replace(one, missing=lacking.get(one.path, ()), undefined=undefined.get(one.path, ())) for one in found
    )
    return tuple(extensions), tuple(opened.get(one.name, one) for one in distributions)


def _listed(host: Host, distribution: Distribution, python: str) -> _Package | None:
    """What its RECORD lists; None without a library or kernel."""
    if not distribution.path.endswith(".dist-info"):
        return None
    record = read_record(host, distribution.path)
    if record is None:
        return None
    if b".pth," in record.content:
        from gpudoctor.probes.editable import compiled_in_sources

        if compiled := tuple(compiled_in_sources(host, distribution, record.content, python)):
            return _Package(distribution, record, compiled)
    if not record.libraries and not any(mark in distribution.name for mark in _MARKS):
        return None
    return _Package(distribution, record)


def _read_package(host: Host, package: _Package) -> Iterator[tuple[Extension, Asker | None]]:
    candidates, kernels = package.candidates(), package.kernels()
    if not (candidates or kernels):
        return
    from gpudoctor.probes.extension_files import read_kernels, read_library

    for path in candidates:
        if found := read_library(host, package.distribution, path):
            yield found
    if kernels and (extension := read_kernels(host, package.distribution, kernels)):
        yield extension, None


def _shipped(packages: Iterable[_Package | None]) -> dict[str, list[RecordedLibrary]]:
    """The libraries of all packages, by name."""
    from gpudoctor.probes.library_search import RecordedLibrary

    found: dict[str, list[RecordedLibrary]] = {}
    for package in filter(None, packages):
        for name, size in package.libraries.items():
            recorded = RecordedLibrary(package.folder, name, size, package.distribution.name)
            found.setdefault(name.rpartition("/")[2], []).append(recorded)
    return found


def _opened(host: Host, distribution: Distribution) -> Distribution:
    """With its requirements, if they were not read yet."""
    return distribution if distribution.requires else with_details(host, distribution)


def _undefined(
    host: Host, environment: PythonEnvironment, askers: list[Asker], opened: Mapping[str, Distribution]
) -> dict[str, tuple[str, ...]]:
    """Symbols that the installed torch lacks, by library; read only where a package does not pin this very torch."""
    torch = environment.torch.value
    if torch is None or not torch.path or not any(asker.of_torch for asker in askers):
        return {}
    from gpudoctor.frameworks.torch.probes.extension_symbols import undefined_symbols

    return undefined_symbols(host, torch, environment.prefix, askers, tuple(opened.values()))


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")
