"""Libraries from outside that an environment's processes load.

These are the C++ runtime, and CUDA or ROCm libraries that LD_LIBRARY_PATH or LD_PRELOAD puts before the wheel's own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from msgspec.structs import replace

from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, stem_of
from gpudoctor.frameworks.torch.probes.libraries import LibraryWalk, loaded_by_torch, read_elf
from gpudoctor.host import Host
from gpudoctor.machine import NO_GLIBCXX, Fact, Library, LoadPath, known, unknown
from gpudoctor.probes.load_path import search

STDCXX = "libstdc++.so.6"
_VARIABLES = ("LD_PRELOAD", "LD_LIBRARY_PATH")
_GPU_LIBRARIES = (
    "libcudart", "libcublas", "libcublasLt", "libcudnn", "libcusparse", "libcusparseLt", "libnvJitLink", "libcufft",
    "libcurand", "libcusolver", "libcupti", "libnvrtc", "libnvrtc-builtins", "libnccl",
    "librccl", "libamdhip64", "libhsa-runtime64", "librocblas", "libhipblas", "libhipblaslt", "librocsparse",
    "librocsolver", "libMIOpen",
)  # fmt: skip
_USUAL_NAMES = (
    "libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13",
    "libcublas.so.11", "libcublas.so.12", "libcublas.so.13", "libcublasLt.so.12", "libcublasLt.so.13",
    "libcudnn.so.8", "libcudnn.so.9", "libcusparse.so.11", "libcusparse.so.12",
    "libnvJitLink.so.12", "libnvJitLink.so.13", "libnccl.so.2", "librccl.so.1",
    "libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7", "libhsa-runtime64.so.1",
    "librocblas.so.4", "librocblas.so.5", "libMIOpen.so.1",
)  # fmt: skip
"""Library names to look for if no torch says which names it loads."""


def on_a_variable(environ: Mapping[str, str]) -> bool:
    """Whether a variable may lead to other libraries."""
    return any(environ.get(name) for name in _VARIABLES)


def _is_of_a_gpu(library: str) -> bool:
    stem = stem_of(library)
    return stem in _GPU_LIBRARIES or stem.startswith("libcudnn_")


def foreign_libraries(host: Host, environ: Mapping[str, str], walk: LibraryWalk, torch: str) -> LoadPath:
    """GPU libraries from outside the environment, among the names that torch and its libraries ask for: those that a
    load-path variable leads to, with `wins` where that is known, and those that no wheel has."""
    lacking = {a.name for a in walk.asked if a.path is None and _is_of_a_gpu(a.name)}
    if on_a_variable(environ):
        asked = [a.name for a in walk.asked if _is_of_a_gpu(a.name)]
    else:
        if not lacking:
            return LoadPath(complete=known(True, "no LD_LIBRARY_PATH, no LD_PRELOAD"))
        asked = sorted(lacking)
    path = search(host, tuple(asked or _USUAL_NAMES), environ)
    firsts = {library.name: library for library in reversed(path.found)}.values()
    candidates = [one for one in reversed(firsts) if one.via.startswith(_VARIABLES) or one.name in lacking]
    own = loaded_by_torch(host, torch) if candidates else frozenset()
    found = (_with_wins(library, walk, own) for library in candidates if not _is_own(host, library, walk))
    return LoadPath(
        found=tuple(replace(one, version=one.version or wheel_version(host, one.path)) for one in found),
        searched=path.searched,
        complete=path.complete,
    )


def _is_own(host: Host, library: Library, walk: LibraryWalk) -> bool:
    """Whether the variable leads to the very file that the environment has."""
    asked = walk.of(library.name)
    return asked is not None and asked.path is not None and host.resolve(asked.path) == host.resolve(library.path)


def _with_wins(library: Library, walk: LibraryWalk, loaded_by_torch: frozenset[str]) -> Library:
    """The library with `wins` set. LD_PRELOAD always wins; LD_LIBRARY_PATH does unless a DT_RPATH leads to the
    wheel's own copy, or torch has loaded that by its path."""
    asked = walk.of(library.name)
    if library.via == "LD_PRELOAD":
        return replace(library, wins=True)
    if asked is None or asked.path is None:
        return replace(library, wins=True) if asked is not None and asked.late else library
    preloaded = stem_of(library.name) in loaded_by_torch
    return replace(library, wins=not preloaded and posixpath.dirname(asked.path) not in asked.rpath_folders)


def wheel_version(host: Host, path: str) -> str | None:
    """The version of one of NVIDIA's wheels that a library lies in (site-packages/nvidia/cudnn/lib), by the name of
    its .dist-info; None if it lies in none, or several may have brought it."""
    real = host.resolve(path) or path
    place = re.fullmatch(r"(.*)/nvidia/[^/]+/lib/([^/]+)", real)
    base = distribution_of(place[2]) if place else None
    if place is None or base is None:
        return None
    record = rf"{base.replace('-', '_')}(?:_cu\d+)?-([\d.]+)\.dist-info"
    names = host.names(place[1]).value or ()
    versions = {found[1] for name in names if (found := re.fullmatch(record, name))}
    return versions.pop() if len(versions) == 1 else None


def system_libraries(host: Host, environ: Mapping[str, str], walk: LibraryWalk) -> LoadPath:
    """The C++ runtime and all names that torch's folders do not have, from the system's load path."""
    return search(host, (*walk.of_the_system, STDCXX), environ, shadowed=False)


def missing_libraries(walk: LibraryWalk, system: LoadPath) -> tuple[str, ...]:
    """Names that torch asks for and that certainly do not exist: all folders could be read, none has them."""
    if not walk.complete or system.complete.value is not True:
        return ()
    found = {library.name for library in system.found}
    return tuple(name for name in walk.of_the_system if name not in found)


def cxx_runtime(
    host: Host, walk: LibraryWalk, system: LoadPath, interpreter_rpath: tuple[str, ...]
) -> tuple[Fact[str], str]:
    """The highest GLIBCXX of the libstdc++ that torch gets (NO_GLIBCXX if it has none), and that library's path.

    The loader's order: LD_PRELOAD, DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, the cache and the default folders.
    """
    asked = walk.of(STDCXX)
    before = _first_in(host, asked.rpath_folders if asked else interpreter_rpath)
    after = _first_in(host, asked.runpath_folders if asked else ())
    first = system.first(STDCXX)
    via = first.via if first else ""
    if first and (via == "LD_PRELOAD" or (via.startswith("LD_") and before is None)):
        path = first.path
    else:
        path = before or after or (first.path if first else "")
    if not path:
        return unknown(f"no {STDCXX} was found on the load path"), ""
    heads = read_elf(host, path)
    if heads is None:
        return unknown("its symbol versions could not be read", path), path
    return known(heads.defines_glibcxx or NO_GLIBCXX, path), path


def _first_in(host: Host, folders: tuple[str, ...]) -> str | None:
    paths = (posixpath.join(folder, STDCXX) for folder in folders)
    return next((path for path in paths if host.exists(path)), None)
