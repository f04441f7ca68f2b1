"""Follows what `import torch` makes the loader load, from library to library, as ld.so(8) does.

The walk starts at torch's extension module and stays within the environment; a name that none of its folders has is
looked up on the system's load path. The walk is generous: torch itself preloads from nvidia/*/lib on sys.path, and
one loaded name serves all. So every folder found counts for every library.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.codeobjects.elf import Elf
from gpudoctor.frameworks.torch.nvidia_wheels import stem_of
from gpudoctor.host import Host
from gpudoctor.machine import Fact, absent, known, unknown
from gpudoctor.matrix.versions import figures
from gpudoctor.probes.elf_files import ask_elf
from gpudoctor.probes.folder_listing import FolderNames
from gpudoctor.probes.import_path import ImportPath
from gpudoctor.probes.load_path import DRIVER_OWN

_MOST_LIBRARIES = 150
_REPAIRED = ("torch.libs", "triton.libs")
"""Libraries that auditwheel put beside a package."""
_MOST_SOURCE = 1 << 20
_OF_TORCH = ("libtorch", "libc10", "libshm", "libcaffe2", "libtriton", "_C.")


class LibraryRequest(Struct, frozen=True):
    """One name that a library asks for. `rpath_folders` come before LD_LIBRARY_PATH, `runpath_folders` after it."""

    name: str
    by: str
    rpath_folders: tuple[str, ...]
    runpath_folders: tuple[str, ...]
    path: str | None
    """Its path in the environment; None if only the system might have it."""
    late: bool = False
    """Asked for only after the import, by dlopen or by what was opened so."""


class LibraryWalk(Struct, frozen=True):
    """All names that are asked for, each by the first library that asks. `complete` is False if a folder or a library
    could not be read; `unread` are these libraries."""

    asked: tuple[LibraryRequest, ...]
    needs: Mapping[str, tuple[str, ...]]
    """What each library that was read asks for at its start, by path."""
    glibcxx: Fact[str]
    glibc: Fact[str]
    complete: bool
    unread: tuple[str, ...] = ()

    def of(self, name: str) -> LibraryRequest | None:
        """The first request for a name."""
        return next((asked for asked in self.asked if asked.name == name), None)

    @property
    def of_the_system(self) -> tuple[str, ...]:
        """Names that the environment does not have, without the driver's, which the driver's own facts cover."""
        names = (asked.name for asked in self.asked if asked.path is None and not asked.late)
        return tuple(name for name in names if not name.startswith(DRIVER_OWN))


def walk_libraries(
    host: Host,
    torch: str,
    path: ImportPath,
    interpreter_rpath: tuple[str, ...],
    late: Mapping[str, tuple[str, ...]],
    *,
    deep: bool = False,
) -> LibraryWalk:
    """Follow what the torch folder `torch` needs. `interpreter_rpath` are the folders of its python's DT_RPATH.

    `late` names the libraries that others open when they need them, by their first parts ("libcudnn_ops"); with
    `deep` these are read and followed, too.
    """
    walk = _Walk(host, tuple(_preloaded(host, torch, path)), late)
    walk.start(torch, interpreter_rpath, deep=deep)
    walk.ask_triton(path)
    return walk.result()


def interpreter_rpath(host: Host, interpreter: str) -> tuple[str, ...]:
    """Folders of a python executable's DT_RPATH (conda's has $ORIGIN/../lib), which applies to all it loads."""
    real = host.resolve(interpreter)
    elf = read_elf(host, real) if real else None
    return expanded(elf.rpath, posixpath.dirname(real or ""))[0] if elf and not elf.runpath else ()


class Heads(Struct, frozen=True):
    """What one library's dynamic section says."""

    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    glibcxx: str | None
    glibc: str | None
    defines_glibcxx: str | None
    defines_glibc: str | None


def read_elf(host: Host, path: str) -> Heads | None:
    """The dynamic section of a library; None if it cannot be read."""
    name = posixpath.basename(path)

    def heads(elf: Elf) -> Heads:
        return Heads(
            needed=elf.needed,
            rpath=elf.rpath,
            runpath=elf.runpath,
            glibcxx=elf.needs_version("GLIBCXX_") if name.startswith(_OF_TORCH) else None,
            glibc=elf.needs_version("GLIBC_") if name.startswith(_OF_TORCH) else None,
            defines_glibcxx=elf.defines_version("GLIBCXX_") if "stdc++" in path else None,
            defines_glibc=elf.defines_version("GLIBC_") if name == "libc.so.6" else None,
        )

    return ask_elf(host, path, heads)


def highest(versions: Iterable[str | None]) -> str | None:
    """The highest of "3.4.29", "3.4.9" ..."""
    return max((v for v in versions if v), key=figures, default=None)


def loaded_by_torch(host: Host, torch: str) -> frozenset[str]:
    """First parts of the names of libraries that torch loads from the wheels by their paths, before any library asks
    for them ("libnvJitLink"): torch/__init__.py says which."""
    text = host.text(posixpath.join(torch, "__init__.py"), _MOST_SOURCE).value or ""
    start = text.partition("def _load_global_deps")[2].partition("except OSError")[0]
    listed = text.partition("def _preload_cuda_deps(err")[2].partition("\ndef ")[0]
    source = start + listed if "_preload_cuda_deps()" in start else start
    return frozenset(re.findall(r'"(lib[\w-]+)\.so[^"]*"\)', source))


def _preloaded(host: Host, torch: str, path: ImportPath) -> Iterator[str]:
    """Folders that torch preloads from, or finds beside itself, whatever its libraries say."""
    yield posixpath.join(torch, "lib")
    for folder in path.folders:
        beside = host.names(posixpath.join(folder.path, "nvidia")).value if "nvidia" in folder.names else ()
        yield from library_folders(folder.path, folder.names, beside or ())
        yield from (posixpath.join(folder.path, name) for name in _REPAIRED if name in folder.names)


def library_folders(site: str, names: Collection[str], of_nvidia: Iterable[str]) -> Iterator[str]:
    """Where the vendors' wheels in a folder of packages have their libraries; `of_nvidia` is what lies in nvidia/."""
    for name in of_nvidia:
        yield posixpath.join(site, "nvidia", name, "lib")
    for name in sorted(names):
        if name in ("cusparselt", "nvshmem") or (name.startswith("_rocm_sdk_") and "." not in name):
            yield posixpath.join(site, name, "lib")


class _Walk:
    def __init__(self, host: Host, folders: tuple[str, ...], late: Mapping[str, tuple[str, ...]]) -> None:
        self._host = host
        self._late = late
        self._listing = FolderNames(host)
        self._folders = dict.fromkeys(folders)
        self._asked: dict[str, LibraryRequest] = {}
        self._needs: dict[str, tuple[str, ...]] = {}
        self._openers: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self._glibcxx: dict[str, str] = {}
        self._glibc: dict[str, str] = {}
        self._interpreter_rpath: tuple[str, ...] = ()
        self._complete = True
        self._unread: list[str] = []

    def start(self, torch: str, rpath: tuple[str, ...], *, deep: bool) -> None:
        names = self._listing.names(torch) or frozenset()
        roots = [posixpath.join(torch, "lib/libtorch_global_deps.so")]
        extensions = (name for name in sorted(names) if name.startswith("_C.") and name.endswith(".so"))
        roots += [posixpath.join(torch, name) for name in extensions]
        self._interpreter_rpath = rpath
        self._follow_all([(root, rpath) for root in roots if self._host.exists(root)], late=False)
        while self._openers:
            openers, self._openers = self._openers, []
            opened = [request for opener in openers for request in self._open(*opener)]
            if deep:
                self._follow_all(opened, late=True)

    def _follow_all(self, pending: list[tuple[str, tuple[str, ...]]], *, late: bool) -> None:
        while pending:
            following: list[tuple[str, tuple[str, ...]]] = []
            for path, inherited in pending:
                following.extend(self._follow(path, inherited, late=late))
            # A folder found later may hold a name that was asked for earlier.
            following.extend((path, self._interpreter_rpath) for path in self._found_late())
            pending = following

    def _follow(self, path: str, inherited: tuple[str, ...], *, late: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Read one library; yields the libraries that it loads for the first time."""
        if path in self._needs:
            return
        heads = read_elf(self._host, path) if len(self._needs) < _MOST_LIBRARIES else None
        self._needs[path] = heads.needed if heads else ()
        if heads is None:
            self._complete = self._complete and late
            self._unread.append(path)
            return
        if not late:
            self._note_versions(path, heads)
        origin = posixpath.dirname(path)
        runpath, whole = expanded(heads.runpath, origin)
        own, own_whole = expanded(heads.rpath, origin)
        rpath = () if heads.runpath else (*own, *inherited)
        self._complete = self._complete and (late or (whole and own_whole))
        self._folders.update(dict.fromkeys((*rpath, *runpath)))
        for name in heads.needed:
            yield from self._ask(name, path, rpath, runpath, late=late)
        if stem_of(posixpath.basename(path)) in self._late:
            self._openers.append((path, rpath, runpath))

    def _ask(
        self, name: str, by: str, rpath: tuple[str, ...], runpath: tuple[str, ...], *, late: bool
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        if name not in self._asked:
            found = self._find(name)
            self._asked[name] = LibraryRequest(
                name=name, by=by, rpath_folders=rpath, runpath_folders=runpath, path=found, late=late
            )
            if found is not None:
                yield found, rpath

    def _open(
        self, path: str, rpath: tuple[str, ...], runpath: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What a library opens when it needs it, in the release that lies beside it."""
        folder, file = posixpath.split(path)
        beside = self._listing.names(folder) or frozenset()
        for stem in self._late[stem_of(file)]:
            same = stem + file.removeprefix(stem_of(file))
            named = (name for name in sorted(beside) if re.fullmatch(rf"{re.escape(stem)}\.so\.\d+\.\d+", name))
            name = same if same in beside else next(named, same)
            yield from self._ask(name, path, rpath, runpath, late=True)

    def ask_triton(self, path: ImportPath) -> None:
        """Triton's library is loaded later than torch's, and with the same libstdc++."""
        folder = next((folder.path for folder in path.folders if "triton" in folder.names), None)
        library = posixpath.join(folder, "triton/_C/libtriton.so") if folder else ""
        if library and self._host.exists(library):
            self._note_versions(library, read_elf(self._host, library))

    def _note_versions(self, path: str, heads: Heads | None) -> None:
        if heads is not None and heads.glibcxx:
            self._glibcxx[path] = heads.glibcxx
        if heads is not None and heads.glibc:
            self._glibc[path] = heads.glibc

    def _find(self, name: str) -> str | None:
        for folder in self._folders:
            names = self._listing.names(folder)
            if names is None:
                self._complete = False
            elif name in names:
                return posixpath.join(folder, name)
        return None

    def _found_late(self) -> list[str]:
        found = []
        for name, asked in list(self._asked.items()):
            path = self._find(name) if asked.path is None else None
            if path is not None:
                self._asked[name] = replace(asked, path=path)
                found.append(path)
        return found

    def result(self) -> LibraryWalk:
        return LibraryWalk(
            asked=tuple(self._asked.values()),
            needs=self._needs,
            glibcxx=self._highest_asked(self._glibcxx),
            glibc=self._highest_asked(self._glibc),
            complete=self._complete,
            unread=tuple(self._unread),
        )

    def _highest_asked(self, versions: dict[str, str]) -> Fact[str]:
        """The highest version asked for, and a library that asks for it; `versions` is by path of the library."""
        needed = highest(versions.values())
        if needed is not None:
            return known(needed, next(path for path, version in versions.items() if version == needed))
        if self._needs and self._complete:
            return absent("symbol versions of torch's libraries", "they ask for none")
        return unknown("torch's libraries could not be read")


@lru_cache(maxsize=32)
def expanded(folders: tuple[str, ...], origin: str) -> tuple[tuple[str, ...], bool]:
    """The folders with $ORIGIN replaced, and whether these are all: relative folders and other variables
    depend on the process. The libraries of one folder mostly say the same."""
    texts = [f"{folder}/".replace("${ORIGIN}", origin).replace("$ORIGIN/", f"{origin}/") for folder in folders]
    usable = tuple(posixpath.normpath(text) for text in texts if text.startswith("/") and "$" not in text)
    return usable, len(usable) == len(texts)
