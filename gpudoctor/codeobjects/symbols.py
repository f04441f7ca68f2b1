"""The symbols that a library provides, and those that it needs of another one (.dynsym, .gnu.version).

Source: System V gABI chapter 4; the Linux Standard Base on symbol versioning; elf/dl-lookup.c of glibc on .gnu.hash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from operator import mul

from gpudoctor.codeobjects.bounded_file import NotReadable
from gpudoctor.codeobjects.elf import Elf, Section

_SHT_DYNSYM, _SHT_VERSYM, _SHT_VERNEED, _SHT_GNU_HASH = 11, 0x6FFFFFFF, 0x6FFFFFFE, 0x6FFFFFF6
_SYMBOL = struct.Struct("<IBBH16x")
_NEED, _NEED_NAME = struct.Struct("<2xHIII"), struct.Struct("<6xHII")
_HASH_HEAD = struct.Struct("<IIII")
_HIDDEN = 0x8000
_WEAK = 2
_MOST_SYMBOLS = 1 << 18
_MOST_NEEDS = 4096
_POWERS = [1]
"""Of 33, as far as they were needed."""


def provided_symbols(elf: Elf) -> frozenset[str]:
    """Names of the symbols that other libraries find in it."""
    return frozenset(elf.string(name) for name, _, section in _symbols(elf) if section)


def needed_symbols(elf: Elf) -> Iterator[str]:
    """Names of the symbols that it needs of any other library; weak ones may be missing."""
    return (elf.string(name) for name, info, section in _symbols(elf) if not section and info >> 4 != _WEAK and name)


class SymbolHash:
    """The hash table in which the loader looks up symbols (.gnu.hash). A name takes microseconds; to read all names
    of libtorch_cpu takes half a second. Raises NotReadable if a library has none.

    Names are compared by their hashes, as the table has them: 31 bits.
    """

    def __init__(self, elf: Elf) -> None:
        table = elf.section_of_kind(_SHT_GNU_HASH)
        if table is None or table.size < _HASH_HEAD.size:
            raise NotReadable("no hash table of symbols")
        content = elf.file.read(table.offset, table.size)
        count, self._first, words, self._shift = _HASH_HEAD.unpack_from(content)
        buckets, chain = _HASH_HEAD.size + 8 * words, _HASH_HEAD.size + 8 * words + 4 * count
        if not count or not words or chain > len(content):
            raise NotReadable("malformed: a hash table of symbols that is larger than its section")
        self.size = len(content)
        self._bloom = memoryview(content)[_HASH_HEAD.size : buckets].cast("Q")
        self._buckets = memoryview(content)[buckets:chain].cast("I")
        self._chain = memoryview(content)[chain : chain + (len(content) - chain) // 4 * 4].cast("I")

    def has(self, hashed: int) -> bool:
        """Whether the library defines the symbol with this `symbol_hash`."""
        word = self._bloom[hashed // 64 % len(self._bloom)]
        if not (word >> hashed % 64 & 1 and word >> (hashed >> self._shift) % 64 & 1):
            return False
        place = self._buckets[hashed % len(self._buckets)] - self._first
        while 0 <= place < len(self._chain):
            found = self._chain[place]
            if found | 1 == hashed | 1:
                return True
            if found & 1:
                return False
            place += 1
        return False


def symbol_hash(name: str) -> int:
    """The hash of a symbol's name in .gnu.hash: 5381 and its bytes, each 33 times what follows it."""
    parts = (5381, *name.encode())
    while len(_POWERS) < len(parts):
        _POWERS.append(_POWERS[-1] * 33 & 0xFFFFFFFF)
    hashed: int = sum(map(mul, reversed(parts), _POWERS))
    return hashed & 0xFFFFFFFF


def symbols_needed_of(elf: Elf, library: str) -> frozenset[str]:
    """Names of the symbols that it needs of `library` (a soname), as the symbols' versions say; weak ones may be
    missing. A library without symbol versions says nothing."""
    table, needs = elf.section_of_kind(_SHT_VERSYM), elf.section_of_kind(_SHT_VERNEED)
    if table is None or needs is None:
        return frozenset()
    indices = set(_version_indices(elf, needs, library))
    if not indices:
        return frozenset()
    content = elf.file.read(table.offset, table.size - table.size % 2)
    versions = struct.unpack(f"<{len(content) // 2}H", content)
    return frozenset(
        elf.string(name)
        for (name, info, section), version in zip(_symbols(elf), versions, strict=False)
        if not section and info >> 4 != _WEAK and version & ~_HIDDEN in indices
    )


def _symbols(elf: Elf) -> Iterator[tuple[int, int, int]]:
    """Name, binding and section of every dynamic symbol; section 0: it is needed, not provided."""
    table = elf.section_of_kind(_SHT_DYNSYM)
    if table is None:
        raise NotReadable("no table of dynamic symbols")
    if table.size > _MOST_SYMBOLS * _SYMBOL.size:
        raise NotReadable(f"absurd size: symbols of {table.size} bytes")
    content = elf.file.read(table.offset, table.size - table.size % _SYMBOL.size)
    for name, info, _, section in _SYMBOL.iter_unpack(content):
        yield name, info, section


def _version_indices(elf: Elf, needs: Section, library: str) -> Iterator[int]:
    """The numbers that stand for versions of `library` in the table of the symbols' versions."""
    content = elf.file.read(needs.offset, needs.size)
    at, left = 0, _MOST_NEEDS
    try:
        while True:
            count, file, first, following = _NEED.unpack_from(content, at)
            name_at = at + first
            for _ in range(count if elf.string(file) == library else 0):
                left -= 1
                if left < 0:
                    raise NotReadable("absurd size: too many symbol versions")
                index, _, step = _NEED_NAME.unpack_from(content, name_at)
                yield index
                name_at += step
            left -= 1
            if not following or left < 0:
                return
            at += following
    except struct.error:
        raise NotReadable("malformed: symbol versions outside of their section") from None
