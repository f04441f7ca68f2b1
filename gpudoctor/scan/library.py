"""Finds the libraries among many files, and reads the GPU code of each.

A Source knows where the files are (a folder, a wheel, the record of a distribution). For kernel folders of AMD's
libraries the file names tell the targets. Stand-alone code objects, of which a package may have thousands, are
grouped by folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.amd import gfx_order
from gpudoctor.codeobjects.kernel_files import kpack_targets, miopen_targets, tensile_targets
from gpudoctor.codeobjects.nvidia import arch_order

_LIBRARY = r".*\.so(?:\.\d+)*$"
_CODE_OBJECT = r".*\.(?:co|hsaco|hipfb|fatbin|cubin)$"
_KERNEL_FOLDERS: tuple[tuple[str, Callable[[Iterable[str]], tuple[str, ...]]], ...] = (
    (r"(?:.*/)?(?:rocblas|hipblaslt)/(?:[\d.]+/)?library", tensile_targets),
    (r"(?:.*/)?miopen/db", miopen_targets),
    (r"(?:.*/)?\.kpack", kpack_targets),
)
_MOST_CODE_OBJECTS = 20_000
_FOLDER_DEPTH = 3
"""Code objects are grouped by this many first folders of their path."""

Progress = Callable[[int, int], None]
"""Called with the number of files read, and the number of all files."""


class Library(Struct, frozen=True):
    """A library, or a folder of kernels, and its GPU code. `owner` is a distribution, "torch 2.9.1"."""

    path: str
    code: Code
    owner: str = ""
    kind: Literal["library", "kernels", "code objects"] = "library"
    """kernels: a folder of them, known by their names; code objects: those of a folder, grouped."""
    files: int = 1

    @property
    def empty(self) -> bool:
        """Whether it has neither code nor an error that hid it."""
        code = self.code
        return not (code.sass or code.ptx or code.gfx or code.relocatable or code.kpack or code.reason)


class Source(Protocol):
    """Files that can be scanned, by path."""

    def names(self) -> Iterable[str]:
        """Paths of all files."""

    def code(self, name: str) -> Code | None:
        """The code in a file; None for a file that is no library after all (a linker script)."""


def libraries(source: Source, progress: Progress | None = None) -> list[Library]:
    """All libraries that have GPU code or could not be read, in the order of their paths."""
    names = sorted(source.names())
    folders: dict[str, list[str]] = {}
    wanted, objects = [], []
    for name in names:
        if _is_kernel(name):
            folder, file = posixpath.split(name)
            folders.setdefault(folder, []).append(file)
        elif re.match(_LIBRARY, name):
            wanted.append(name)
        elif re.match(_CODE_OBJECT, name):
            objects.append(name)
    objects = objects[:_MOST_CODE_OBJECTS]
    total = len(wanted) + len(objects)
    found = []
    for done, name in enumerate(wanted):
        if progress is not None:
            progress(done, total)
        code = source.code(name)
        if code is not None:
            found.append(Library(path=_text(name), code=code))
    found += _code_objects(source, objects, lambda done: progress(len(wanted) + done, total) if progress else None)
    found += [_kernel_folder(folder, files) for folder, files in folders.items()]
    return sorted((library for library in found if not library.empty), key=lambda library: library.path)


def _text(path: str) -> str:
    """A path that can be written as UTF-8, whatever bytes a file system has in it."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _is_kernel(name: str) -> bool:
    if not any(mark in name for mark in ("/library/", "miopen/db/", ".kpack/")):
        return False
    return _reader(posixpath.dirname(name)) is not None


def _reader(folder: str) -> Callable[[Iterable[str]], tuple[str, ...]] | None:
    return next((reader for pattern, reader in _KERNEL_FOLDERS if re.fullmatch(pattern, folder)), None)


def _kernel_folder(folder: str, files: list[str]) -> Library:
    reader = _reader(folder)
    gfx = reader(files) if reader else ()
    return Library(
        path=_text(folder), code=Code(gfx=gfx, share=dict.fromkeys(gfx, 1.0)), kind="kernels", files=len(files)
    )


def _code_objects(source: Source, names: list[str], progress: Callable[[int], None]) -> list[Library]:
    """Stand-alone code objects by their first folders; the share is that of the files."""
    groups: dict[str, list[Code]] = {}
    for done, name in enumerate(names):
        progress(done)
        code = source.code(name)
        if code is not None and not Library(path=name, code=code).empty:
            folder = posixpath.dirname(name)
            top = folder if folder.startswith("/") else "/".join(folder.split("/")[:_FOLDER_DEPTH])
            groups.setdefault(top or ".", []).append(code)
    return [
        Library(path=_text(folder), code=combined_code(codes), kind="code objects", files=len(codes))
        for folder, codes in groups.items()
    ]


def combined_code(codes: list[Code]) -> Code:
    """Several files taken as one: shares are those of all their containers."""
    containers = sum(code.containers for code in codes) or 1
    share: dict[str, float] = {}
    for code in codes:
        for arch, part in code.share.items():
            share[arch] = share.get(arch, 0.0) + part * code.containers / containers

    def merged(kind: str) -> tuple[str, ...]:
        found = {arch for code in codes for arch in getattr(code, kind)}
        return tuple(sorted(found, key=arch_key))

    return replace(
        codes[0],
        sass=merged("sass"),
        ptx=merged("ptx"),
        gfx=merged("gfx"),
        relocatable=merged("relocatable"),
        share=share,
        containers=containers,
        reason=next((code.reason for code in codes if code.reason), None),
    )


def arch_key(arch: str) -> tuple[str, int, str]:
    """Sort key: "sm_90" before "sm_90a" before "sm_100"; "gfx906" before "gfx1030"."""
    return ("gfx", *gfx_order(arch)) if arch.startswith("gfx") else arch_order(arch)
