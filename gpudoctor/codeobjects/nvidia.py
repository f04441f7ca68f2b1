"""NVIDIA code in a library: the architectures in its fat binaries.

A fat binary ("container", one per translation unit) holds entries of machine code (SASS) and PTX. Layout, checked
against cuobjdump on real wheels:

- container: u32 magic 0xBA55ED50, u16 version 1, u16 header size, u64 payload size; padded to 8 bytes;
- entry: u16 kind, u16 attributes, u32 header size, u64 payload size, u32 compressed size, u32 option offset,
  u16 minor, u16 major, u32 architecture, u32 name offset, u32 name length, u64 flags, ...

Containers lie one after another in `.nv_fatbin`, which the driver loads, and in `__nv_relfatbin`, which only the
device linker reads: code that is only there runs on no GPU. `.nvFatBinSegment` has one wrapper of 24 bytes for each.
Only headers are read; kernels are skipped. A cubin is machine code in a file of its own: an ELF file for NVIDIA's
processors, with the chip in the flags of its header.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.bounded_file import Bounded, NotReadable
from gpudoctor.codeobjects.elf import GPU_CODE, Elf, Section

MAGIC = b"\x50\xed\x55\xba"
LOADED, RELOCATABLE, WRAPPERS = GPU_CODE[0], "__nv_relfatbin", ".nvFatBinSegment"

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQ")
_MAGIC = 0xBA55ED50
_HEADERS = 128
"""The headers of a container and of its first entry lie together, everything else far apart."""
EM_CUDA = 190
_NEW_FLAGS = 8
"""From this version of the ABI on, the chip is in the second byte of an ELF header's flags, before in the first."""
_FLAG_SPECIFIC = 0x8
_WRAPPER_SIZE = 24
_PTX, _SASS = 1, 2
_ARCH_SPECIFIC, _FAMILY_SPECIFIC = 0x100000, 0x200000
_MOST_HEADERS = 100_000
"""Limits the time for files made to waste it; the largest libraries have a third of this."""


def read_nvidia(elf: Elf, sample: int | None = None) -> Code:
    """The NVIDIA code of a library or cubin. Raises NotReadable for a damaged section
    table. With `sample`, about that many of its containers are read, evenly spread; the others are skipped."""
    if elf.machine == EM_CUDA:
        return _read_cubin(elf)
    loaded = [section for section in elf.sections if section.name == LOADED and section.size]
    linked = [section for section in elf.sections if section.name == RELOCATABLE and section.size]
    wrappers = elf.section(WRAPPERS)
    registered = wrappers.size // _WRAPPER_SIZE if wrappers else 0
    if not loaded and not linked:
        return Code(reason="its code lies outside .nv_fatbin" if registered else None)
    every = max(1, registered // sample) if sample else 1
    walk, device_linker = _Walk(elf.file, every), _Walk(elf.file)
    reason = walk.all(loaded) or device_linker.all(linked)
    return walk.result(tuple(sorted(device_linker.carriers, key=arch_order)), reason)


def _read_cubin(elf: Elf) -> Code:
    """The chip that a cubin was compiled for, as cuobjdump names it. Only a fat binary tells that code is for a whole
    family (sm_100f), or for sm_90a."""
    new = elf.abi_version >= _NEW_FLAGS
    number = elf.flags >> 8 & 0xFF if new else elf.flags & 0xFF
    name = _name(_SASS, number, _ARCH_SPECIFIC if new and elf.flags & _FLAG_SPECIFIC else 0)
    return Code(sass=(name,), share={name: 1.0}, containers=1)


def read_fatbin(file: Bounded) -> Code:
    """The code of a fat binary that is a file of its own."""
    walk = _Walk(file)
    reason = walk.all([Section(name="", offset=0, size=file.size)])
    return walk.result((), reason)


def arch_order(arch: str) -> tuple[str, int, str]:
    """Sort key: "sm_90" before "sm_90a" before "sm_100"."""
    family, _, number = arch.partition("_")
    digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
    return family, int(digits or 0), number[len(digits) :]


class _Walk:
    """Steps from header to header through the containers of some sections, and reads one of `every` few."""

    def __init__(self, file: Bounded, every: int = 1) -> None:
        self._file = file
        self._every = every
        self._headers = 0
        self._looked_into = 0
        self.containers = 0
        self.carriers: dict[str, int] = {}
        """How many containers have each architecture."""

    def all(self, sections: list[Section]) -> str | None:
        """Walk through every section; returns the reason if that failed."""
        try:
            for section in sections:
                self._section(section.offset, section.offset + section.size)
        except NotReadable as error:
            return error.reason if not self.containers else f"{error.reason} (after {self.containers} containers)"
        return None

    def result(self, relocatable: tuple[str, ...], reason: str | None) -> Code:
        found = sorted(self.carriers, key=arch_order)
        return Code(
            sass=tuple(arch for arch in found if arch.startswith("sm_")),
            ptx=tuple(arch for arch in found if arch.startswith("compute_")),
            share={arch: self.carriers[arch] / self._looked_into for arch in found},
            containers=self.containers,
            relocatable=relocatable,
            reason=reason,
        )

    def _section(self, at: int, end: int) -> None:
        if end > self._file.size:
            raise NotReadable(f"truncated: its code ends at {end} and the file at {self._file.size}")
        while at < end:
            head = self._file.read(at, min(_CONTAINER.size, end - at), _HEADERS)
            at = self._container(head, at, end) if head[0] else self._file.skip_zeros(at, end, _HEADERS)

    def _container(self, head: bytes, at: int, end: int) -> int:
        """Read the container that begins with `head` and return where it ends."""
        self._count()
        if len(head) < _CONTAINER.size:
            raise NotReadable("malformed: bytes after the last container")
        header_size: int
        payload: int
        magic, version, header_size, payload = _CONTAINER.unpack(head)
        if magic != _MAGIC:
            raise NotReadable(f"malformed: no fat binary at {at}")
        if version != 1 or header_size < _CONTAINER.size:
            raise NotReadable(f"a fat binary of an unknown version ({version})")
        at += header_size
        if at + payload > end:
            raise NotReadable("malformed: a container that is larger than its section")
        if self.containers % self._every == 0:
            carried = self._entries(at, at + payload)
            self._looked_into += 1
            for arch in carried:
                self.carriers[arch] = self.carriers.get(arch, 0) + 1
        self.containers += 1
        return at + payload

    def _entries(self, at: int, end: int) -> set[str]:
        read, size, unpack = self._file.read, _ENTRY.size, _ENTRY.unpack
        carried = set()
        while at + size <= end:
            self._count()
            kind, _, header_size, payload, _, _, _, _, arch, _, _, flags = unpack(read(at, size, _HEADERS))
            if header_size < size or at + header_size + payload > end:
                raise NotReadable("malformed: an entry that is larger than its container")
            if kind in (_PTX, _SASS):
                carried.add(_name(kind, arch, flags))
            at += header_size + payload
        return carried

    def _count(self) -> None:
        self._headers += 1
        if self._headers > _MOST_HEADERS:
            raise NotReadable(f"absurd size: more than {_MOST_HEADERS} containers and entries")


@lru_cache(maxsize=256)
def _name(kind: int, arch: int, flags: int) -> str:
    if not 10 <= arch < 1000:
        raise NotReadable(f"malformed: an architecture of {arch}")
    suffix = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY_SPECIFIC else ""
    return f"{'sm' if kind == _SASS else 'compute'}_{arch}{suffix}"
