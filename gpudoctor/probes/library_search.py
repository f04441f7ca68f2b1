"""Finds the libraries of CUDA, ROCm and torch that extensions ask for, as the loader of their process does.

A package may load a library by its path before another one asks for it, from anywhere in the environment. So any
library of that name in the environment counts, and a name is missing only if neither it nor the system has it. One
case is narrower: torch is in the process before anything that was compiled against it, with its own CUDA runtime. A
library of another CUDA must then be on the extension's own search path. And cuda-pathfinder, which CuPy loads
libraries with, takes the first release that it meets, whatever its number: that of CUDA 13.

What NVIDIA's wheels record must be there whole: a library whose file is cut short does not load, and NVRTC without
its builtins compiles nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, family_of, opens_beside, stem_of
from gpudoctor.frameworks.torch.probes.libraries import expanded, library_folders
from gpudoctor.host import Host
from gpudoctor.machine import MissingLibrary, PythonEnvironment
from gpudoctor.probes.elf_files import ask_elf
from gpudoctor.probes.folder_listing import FolderNames
from gpudoctor.probes.gpu_libraries import OF_GPU_TORCH, is_gpu_library
from gpudoctor.probes.load_path import search
from gpudoctor.probes.record import damage, ends_early

_LOADERS = ("libtorch_global_deps.so", "libtorch_cuda.so", "libc10_cuda.so", "libtorch_hip.so", "libc10_hip.so")
"""Libraries of torch whose own needs are in every process that imports it."""


class Asker(Struct, frozen=True):
    """A library, what it asks for at its start and later, and its own search path as written."""

    package: str
    path: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    of_torch: bool


class RecordedLibrary(Struct, frozen=True):
    """A library that the RECORD of a distribution lists, by its name below the folder that the record lies in."""

    folder: str
    name: str
    size: int
    owner: str

    @property
    def path(self) -> str:
        return posixpath.normpath(posixpath.join(self.folder, self.name))


def missing_libraries(
    host: Host,
    environment: PythonEnvironment,
    variables: Mapping[str, str],
    askers: Iterable[Asker],
    shipped: Mapping[str, list[RecordedLibrary]],
    with_pathfinder: Collection[str] = (),
) -> dict[str, tuple[MissingLibrary, ...]]:
    """What each asker lacks, by its path; nothing, if not every place could be looked into. `shipped` are the
    libraries of distributions, by name; `with_pathfinder` are packages that load them with cuda-pathfinder."""
    looked = _Search(host, environment, shipped, with_pathfinder)
    wanted = {asker.path: looked.not_in_environment(asker) for asker in askers}
    names = tuple(dict.fromkeys(name for lacking in wanted.values() for name in lacking))
    if not names or not looked.complete:
        return {}
    system = search(host, names, {**host.environ, **variables}, shadowed=False)
    if system.complete.value is not True:
        return {}
    there = {library.name for library in system.found}
    return {
        path: tuple(looked.missing(name) for name in lacking if name not in there)
        for path, lacking in wanted.items()
        if not there.issuperset(lacking)
    }


class _Search:
    def __init__(
        self,
        host: Host,
        environment: PythonEnvironment,
        shipped: Mapping[str, list[RecordedLibrary]],
        with_pathfinder: Collection[str],
    ) -> None:
        self._host = host
        self._shipped = shipped
        self._with_pathfinder = with_pathfinder
        self._passed_over: dict[str, str] = {}
        self._listing = FolderNames(host)
        torch = environment.torch.value
        self._torch = posixpath.join(torch.path, "lib") if torch and torch.path else ""
        self._folders = tuple(self._shared(environment))
        self._loaded: dict[str, str] | None = None
        self._lost: dict[str, tuple[str, ...]] = {}
        self.complete = not environment.distributions.undecided

    def _shared(self, environment: PythonEnvironment) -> Iterator[str]:
        """Folders that packages preload from."""
        if self._torch:
            yield self._torch
        if environment.prefix:
            yield posixpath.join(environment.prefix, "lib")
        for site in environment.site_packages:
            names = self._listing.names(site) or frozenset()
            beside = self._listing.names(posixpath.join(site, "nvidia")) if "nvidia" in names else ()
            yield from library_folders(site, names, sorted(beside or ()))  # cu13 comes first
            if "tensorrt_libs" in names:
                yield posixpath.join(site, "tensorrt_libs")

    def not_in_environment(self, asker: Asker) -> tuple[str, ...]:
        """Names that are neither in the environment nor on the asker's own path, or not whole there."""
        names = [name for name in asker.needed if self._counts(name)]
        own = self._own_folders(asker) if names else ()
        lacking: list[str] = []
        for name in names:
            there = self._in(own, name) or self._reached(asker, name)
            lacking += self._lost_of(name) if there else (name,)
        return tuple(dict.fromkeys(lacking))

    def _lost_of(self, name: str) -> tuple[str, ...]:
        """What is gone or cut short of one of NVIDIA's libraries and of those that it opens from its own folder."""
        if name not in self._lost:
            found = (*self._cut(name), *self._gone(name)) if distribution_of(name) else ()
            self._lost[name] = tuple(dict.fromkeys(found))
        return self._lost[name]

    def _cut(self, name: str) -> Iterator[str]:
        """Files that end early, recorded or not: an installation may have been interrupted."""
        for folder in self._folders if self._host.live else ():
            there = self._listing.names(folder) or frozenset()
            for other in sorted(there) if name in there else ():
                if opens_beside(name, other) and ends_early(self._host, posixpath.join(folder, other)):
                    yield other

    def _gone(self, name: str) -> Iterator[str]:
        folders = {posixpath.dirname(one.path) for one in self._shipped.get(name, ())}
        for other in self._families.get(stem_of(name), ()) if folders else ():
            if opens_beside(name, other) and self._owner_of_lost(other, folders):
                yield other

    @cached_property
    def _families(self) -> dict[str, list[str]]:
        """Names of what distributions list, by the first part that one wheel's libraries share."""
        found: dict[str, list[str]] = {}
        for name in self._shipped:
            found.setdefault(family_of(name), []).append(name)
        return found

    def _owner_of_lost(self, name: str, folders: Collection[str] = ()) -> str:
        """The distribution that lists a library which is gone or cut short; "" if none does."""
        for one in self._shipped.get(name, ()):
            counts = not folders or posixpath.dirname(one.path) in folders
            if counts and damage(self._host, one.path, one.size) is not None:
                return one.owner
        return ""

    def missing(self, name: str) -> MissingLibrary:
        passed_over = self._passed_over.get(name, "")
        return MissingLibrary(name, self._other_major(name), self._owner_of_lost(name), passed_over)

    def _counts(self, name: str) -> bool:
        if stem_of(name) in OF_GPU_TORCH:
            return bool(self._torch) and bool(self._listing.names(self._torch))
        return is_gpu_library(name)

    def _reached(self, asker: Asker, name: str) -> bool:
        """Whether a process that loads the asker may have got the library from somewhere in the environment."""
        if asker.of_torch:
            own = self._loaded_by_torch.get(stem_of(name), name)
            if own != name:
                return False
        if asker.package in self._with_pathfinder and distribution_of(name) and self._hides(name):
            return False
        return self._in(self._folders, name) or self._first_shipped(name) != ""

    def _hides(self, name: str) -> bool:
        """Whether a wheel's folder that comes first has another release of the library."""
        stem = f"{stem_of(name)}.so."
        wheels = (folder for folder in self._folders if "/nvidia/" in folder)
        there = ((folder, self._listing.names(folder) or frozenset()) for folder in wheels)
        having = [(folder, names) for folder, names in there if any(other.startswith(stem) for other in names)]
        if having and name not in having[0][1]:
            found = (posixpath.join(folder, name) for folder, names in having if name in names)
            self._passed_over[name] = next(found, "")
        return bool(self._passed_over.get(name))

    def _in(self, folders: Iterable[str], name: str) -> bool:
        for folder in folders:
            names = self._listing.names(folder)
            if names is None:
                self.complete = False
            elif name in names:
                return True
        return False

    def _own_folders(self, asker: Asker) -> tuple[str, ...]:
        origin = posixpath.dirname(asker.path)
        folders = expanded(asker.runpath or asker.rpath, origin)[0]
        return (*folders, origin)

    @property
    def _loaded_by_torch(self) -> dict[str, str]:
        """Names of the vendors' libraries that `import torch` loads, by their first parts."""
        if self._loaded is None:
            loaders = [posixpath.join(self._torch, name) for name in _LOADERS] if self._torch else []
            names = (name for path in loaders for name in self._needed(path) if is_gpu_library(name))
            self._loaded = {stem_of(name): name for name in names}
        return self._loaded

    def _needed(self, path: str) -> tuple[str, ...]:
        return ask_elf(self._host, path, lambda elf: elf.needed) or ()

    def _other_major(self, name: str) -> str:
        """Path of a library of the same first part and another number; "" if the environment has none."""
        stem = f"{stem_of(name)}.so."
        if stem_of(name) in OF_GPU_TORCH:
            return self._torch
        for folder in self._folders:
            for other in sorted(self._listing.names(folder) or ()):
                if other.startswith(stem) and other != name and re.fullmatch(r"\d+(\.\d+)?", other[len(stem) :]):
                    return posixpath.join(folder, other)
        relatives = self._families.get(family_of(name), ())
        found = (self._first_shipped(other) for other in relatives if other.startswith(stem))
        return next((path for path in found if path), "")

    def _first_shipped(self, name: str) -> str:
        return next((one.path for one in self._shipped.get(name, ()) if self._host.exists(one.path)), "")
