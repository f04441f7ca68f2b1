"""Libraries of installed packages that compute on GPUs: what they need to be loaded, and the GPUs they have code for.

No list of packages: the RECORD of each tells its libraries, and their ELF headers tell the rest. Only libraries with
a name or a size that GPU code has are opened. CUDA's, ROCm's and torch's own libraries are left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.codeobjects.amd import CODE as AMD_CODE
from gpudoctor.codeobjects.elf import Elf, NotReadable, open_elf
from gpudoctor.codeobjects.library import Code, Sample, read_code
from gpudoctor.codeobjects.nvidia import LOADED as NVIDIA_CODE
from gpudoctor.frameworks.torch.nvidia_wheels import stem_of
from gpudoctor.host import Host
from gpudoctor.machine import Distribution, Extension, PythonEnvironment
from gpudoctor.probes.distributions import with_details
from gpudoctor.probes.library_search import GPU_LIBRARY, OF_TORCH, OWN_NAME, Asker, Shipped, missing_libraries
from gpudoctor.probes.record import RECORD_LIMIT, listed_files

_NO_EXTENSIONS = ("nvidia-", "rocm-sdk-", "amd-torch-device-", "triton", "pytorch-triton")
"""Distributions of CUDA, ROCm and Triton: others need them."""
_MARKED = re.compile(r"cuda|cudnn|cubin|rocm|hip|gpu|torch|xla|tensorrt|migraphx|ggml|kernel|_C\.|_ext\.")
_LARGE = 1 << 20
"""GPU code makes a library large: smaller ones are opened if their names or their neighbours' tell of a GPU."""
_MOST_TEXT = 4 << 20
_SAMPLE = Sample(containers=2000, bundles=32)
"""All containers of most libraries: some split their kernels by GPU, so that a sample would mislead."""
_MOST_LIBRARIES = 200
"""Of one distribution."""
_LOOSE = (b".cubin", b".hsaco", b".co", b".fatbin")
_LOOSE_SAMPLE = 64
"""Files of a folder of kernels that are read, evenly spread."""


class _Package(Struct, frozen=True):
    """A distribution, its RECORD, and the libraries in it: sizes by path below its folder."""

    distribution: Distribution
    record: bytes
    libraries: dict[str, int]

    @property
    def marked(self) -> bool:
        """Whether a name tells of a GPU."""
        return _MARKED.search("\n".join((self.distribution.name, *self.libraries))) is not None

    def path(self, name: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.distribution.path), name))


def read_extensions(
    host: Host, environment: PythonEnvironment, variables: Mapping[str, str]
) -> tuple[tuple[Extension, ...], tuple[Distribution, ...]]:
    """The extensions, and all distributions: those with extensions are opened, for what they require."""
    distributions = environment.distributions.value or ()
    packages = [package for one in distributions if one.name != "torch" and (package := _listed(host, one))]
    askers, found = list[Asker](), list[Extension]()
    opened: dict[str, Distribution] = {}
    for package in packages:
        if package.distribution.name.startswith(_NO_EXTENSIONS):
            continue
        own = [(extension, asker) for extension, asker in _read_package(host, package) if extension]
        if own:
            opened[package.distribution.name] = _opened(host, package.distribution)
            found += [extension for extension, _ in own]
            askers += [asker for _, asker in own if asker]
    if not found:
        return (), distributions
    lacking = missing_libraries(host, environment, variables, askers, _shipped(packages))
    undefined = _undefined(host, environment, askers, opened)
    extensions = (
        replace(one, missing=lacking.get(one.path, ()), undefined=undefined.get(one.path, ())) for one in found
    )
    return tuple(extensions), tuple(opened.get(one.name, one) for one in distributions)


def _listed(host: Host, distribution: Distribution) -> _Package | None:
    """What its RECORD lists; None without a library or kernel."""
    if not distribution.path.endswith(".dist-info"):
        return None
    content = host.data(posixpath.join(distribution.path, "RECORD"), RECORD_LIMIT).value or b""
    if b".so" not in content and not _MARKED.search(distribution.name):
        return None
    record = b"\n" + content
    sizes = {path.decode("utf-8", "replace"): size for path, size in listed_files(record, b".so")}
    return _Package(distribution, record, sizes)


def _shipped(packages: list[_Package]) -> Shipped:
    """Where the libraries of all packages lie, by name."""
    paths: dict[str, list[str]] = {}
    for package in packages:
        for name in package.libraries:
            paths.setdefault(posixpath.basename(name), []).append(package.path(name))
    return Shipped(paths)


def _opened(host: Host, distribution: Distribution) -> Distribution:
    """With its requirements, if they were not read yet."""
    return distribution if distribution.requires else with_details(host, distribution)


# --- one package -------------------------------------------------------------------------------------


def _read_package(host: Host, package: _Package) -> Iterator[tuple[Extension | None, Asker | None]]:
    distribution, marked = package.distribution, package.marked
    names = [name for name, size in package.libraries.items() if marked or size >= _LARGE]
    for name in names[:_MOST_LIBRARIES]:
        if not re.match(OWN_NAME, posixpath.basename(name)):
            yield _read_library(host, distribution, package.path(name))
    kernels = [path for mark in _LOOSE for path, _ in listed_files(package.record, mark + b",")] if marked else []
    if kernels:
        yield _read_kernels(host, package, [path.decode("utf-8", "replace") for path in kernels]), None


def _read_library(host: Host, package: Distribution, path: str) -> tuple[Extension | None, Asker | None]:
    handle = host.open_binary(path)
    if handle is None:
        return None, None
    with handle:
        try:
            elf: Elf = open_elf(handle.fileno())
            needs = tuple(name for name in elf.needed if re.match(GPU_LIBRARY, name))
            of_torch = any(stem_of(name) in OF_TORCH for name in elf.needed)
            has_code = any(section.name in (NVIDIA_CODE, AMD_CODE) for section in elf.sections)
            if not (needs or of_torch or has_code):
                return None, None
            opens = _opened_later(elf) if has_code and not needs else ()
            asker = Asker(
                package=package.name,
                path=path,
                needed=(*elf.needed, *opens),
                rpath=elf.rpath,
                runpath=elf.runpath,
                of_torch=of_torch,
            )
        except NotReadable:
            return None, None
        code = read_code(handle.fileno(), sample=_SAMPLE) if has_code else Code()
    if code.reason is not None:
        code = Code()
    extension = Extension(
        package=package.name,
        version=package.version,
        path=path,
        sass=code.sass,
        ptx=code.ptx,
        gfx=code.gfx,
        needs=needs,
        opens=opens,
        of_torch=of_torch,
    )
    return extension, asker


def _opened_later(elf: Elf) -> tuple[str, ...]:
    """Names of the vendors' libraries among the texts of one that links none of them; only small tables are read."""
    texts = elf.section(".rodata")
    if texts is None or texts.size > _MOST_TEXT:
        return ()
    names = re.findall(rb"(?<![\w./-])lib[\w-]{3,40}\.so\.\d[\d.]*(?=\0)", elf.file.read(texts.offset, texts.size))
    return tuple(sorted({name for found in names if re.match(GPU_LIBRARY, name := found.decode())}))


def _read_kernels(host: Host, package: _Package, names: list[str]) -> Extension | None:
    """What some of the kernels are for that lie in files of their own."""
    found: dict[str, set[str]] = {"sass": set(), "ptx": set(), "gfx": set()}
    for name in names[:: max(1, len(names) // _LOOSE_SAMPLE)]:
        handle = host.open_binary(package.path(name))
        if handle is None:
            continue
        with handle:
            code = read_code(handle.fileno())
        for kind, archs in found.items():
            archs.update(getattr(code, kind))
    sass, ptx, gfx = (tuple(sorted(archs)) for archs in found.values())
    if not (sass or ptx or gfx):
        return None
    folder = package.path(posixpath.commonpath([posixpath.dirname(name) for name in names]))
    owner = package.distribution
    return Extension(owner.name, owner.version, folder, sass=sass, ptx=ptx, gfx=gfx, loose=True)


def _undefined(
    host: Host, environment: PythonEnvironment, askers: list[Asker], opened: Mapping[str, Distribution]
) -> dict[str, tuple[str, ...]]:
    """Symbols that the installed torch lacks, by library; read only where a package does not pin this very torch."""
    torch = environment.torch.value
    if torch is None or not torch.path or not any(asker.of_torch for asker in askers):
        return {}
    from gpudoctor.frameworks.torch.probes.extension_symbols import undefined_symbols

    return undefined_symbols(host, torch, environment.prefix, askers, tuple(opened.values()))
