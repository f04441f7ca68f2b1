"""What one library or folder of kernels says of itself: the libraries that it needs, and its GPU code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.elf import GPU_CODE, Elf, NotReadable, open_elf
from gpudoctor.host import Host
from gpudoctor.host.open_file import OpenFile
from gpudoctor.machine import Distribution, Extension
from gpudoctor.probes.gpu_libraries import OF_TORCH, is_gpu_library
from gpudoctor.probes.library_search import Asker

_MOST_TEXT = 4 << 20
_MOST_CONTAINERS, _MOST_BUNDLES = 2000, 32
"""All containers of most libraries: some split their kernels by GPU, so that a sample would mislead."""
_STEM, _NUMBER = rb"(?<![\w./-])lib[\w-]{3,40}\Z", rb"\d[\d.]*(?=\0)"
_LOOSE_SAMPLE = 64
"""Files of a folder of kernels that are read, evenly spread."""


def read_library(host: Host, package: Distribution, path: str) -> tuple[Extension, Asker] | None:
    """A library and what it asks for; None if it has nothing to do with a GPU or torch, or cannot be read."""
    handle = host.open_binary(path)
    if handle is None:
        return None
    with handle:
        try:
            elf = open_elf(handle)
            needed = elf.needed
            needs = tuple(filter(is_gpu_library, needed))
            of_torch = any(name.partition(".so")[0] in OF_TORCH for name in needed)
            has_code = elf.has_section(GPU_CODE)
            if not (needs or of_torch or has_code):
                return None
            opens = _opened_later(elf) if has_code and not needs else ()
            asker = Asker(package.name, path, (*needed, *opens), elf.rpath, elf.runpath, of_torch)
        except NotReadable:
            return None
        code = _code(handle) if has_code else None
    extension = Extension(
        package=package.name,
        version=package.version,
        path=path,
        sass=code.sass if code else (),
        ptx=code.ptx if code else (),
        gfx=code.gfx if code else (),
        needs=needs,
        opens=opens,
        of_torch=of_torch,
    )
    return extension, asker


def _code(handle: OpenFile) -> Code | None:
    """Its GPU code, if that can be read to its end."""
    from gpudoctor.codeobjects.library import Sample, read_code

    code = read_code(handle, sample=Sample(containers=_MOST_CONTAINERS, bundles=_MOST_BUNDLES))
    return code if code.reason is None else None


def _opened_later(elf: Elf) -> tuple[str, ...]:
    """Names of the vendors' libraries among the texts of one that links none of them; only small tables are read."""
    texts = elf.section(".rodata")
    if texts is None or texts.size > _MOST_TEXT:
        return ()
    return tuple(
        sorted({name for name in _names_in(elf.file.read(texts.offset, texts.size)) if is_gpu_library(name)})
    )


def _names_in(texts: bytes) -> Iterator[str]:
    """Texts such as libcudnn.so.9. A regular expression would look at every byte."""
    for before, after in pairwise(texts.split(b".so.")):
        stem, number = re.search(_STEM, before[-50:]), re.match(_NUMBER, after)
        if stem and number:
            yield f"{stem[0].decode()}.so.{number[0].decode()}"


def read_kernels(host: Host, package: Distribution, paths: list[str]) -> Extension | None:
    """What some of the kernels are for that lie in files of their own."""
    from gpudoctor.codeobjects.library import read_code

    found: dict[str, set[str]] = {"sass": set(), "ptx": set(), "gfx": set()}
    for path in paths[:: max(1, len(paths) // _LOOSE_SAMPLE)]:
        handle = host.open_binary(path)
        if handle is None:
            continue
        with handle:
            code = read_code(handle)
        for kind, archs in found.items():
            archs.update(getattr(code, kind))
    sass, ptx, gfx = (tuple(sorted(archs)) for archs in found.values())
    if not (sass or ptx or gfx):
        return None
    folder = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    return Extension(package.name, package.version, folder, sass=sass, ptx=ptx, gfx=gfx, loose=True)
