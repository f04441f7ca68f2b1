"""ELF files: sections, what a library needs from the loader, and the symbol versions that it needs and provides.

Sources: System V gABI chapters 4 and 5; the Linux Standard Base on symbol versioning. Little-endian, 32 and 64 bit.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from functools import cached_property

from msgspec import Struct

from gpudoctor.codeobjects.bounded_file import STRING_LIMIT, Bounded, Handle, NotReadable, c_string

__all__ = ["Elf", "NotReadable", "Section", "Segment", "open_elf"]

MAGIC = b"\x7fELF"
GPU_CODE = (".nv_fatbin", ".hip_fatbin")
"""Sections with code that a driver loads: NVIDIA's, AMD's."""

_SHT_DYNAMIC, _SHT_NOBITS = 6, 8
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 15, 29
_DT_VERDEF, _DT_VERDEFNUM, _DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_ASKED = frozenset((
    _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH,
    _DT_VERDEF, _DT_VERDEFNUM, _DT_VERNEED, _DT_VERNEEDNUM,
))  # fmt: skip

# Honest libraries stay far below these limits; without them a hostile count would cost time.
_MOST_SECTIONS = 16384
_MOST_SEGMENTS = 1024
_MOST_DYNAMIC = 8192
_MOST_VERSIONS = 8192
_VERSIONS_LIMIT = 1 << 14
"""More than the tables of a thousand symbol versions."""
_NAMES_WINDOW = 4 * STRING_LIMIT
_PATHS_LIMIT = 1 << 17
"""Longest list of folders: Bazel writes a folder for each of its targets, 30 KB and more."""
_SMALL_TABLE = 1 << 16


class Section(Struct, frozen=True):
    """A section's place in the file; one without content (NOBITS) has size 0."""

    name: str
    offset: int
    size: int
    kind: int = 1
    address: int = 0


class Segment(Struct, frozen=True):
    """A program header: which part of the file is mapped where."""

    kind: int
    offset: int
    size: int
    address: int


class _Layout(Struct, frozen=True):
    """Field layouts of one ELF class; each selects its fields of the record by index."""

    header: struct.Struct
    section: struct.Struct
    segment: struct.Struct
    dynamic: struct.Struct
    segment_fields: tuple[int, int, int, int]
    """Index of type, offset, address and file size."""


# e_phoff e_shoff e_flags e_ehsize e_phentsize e_phnum e_shentsize e_shnum e_shstrndx, after e_entry
_ELF64 = _Layout(
    struct.Struct("<HHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IIQQQQQQ"), struct.Struct("<qQ"),
    (0, 2, 3, 5),
)  # fmt: skip
_ELF32 = _Layout(
    struct.Struct("<HHIIIIIHHHHHH"), struct.Struct("<IIIIIIIIII"), struct.Struct("<IIIIIIII"), struct.Struct("<iI"),
    (0, 1, 2, 4),
)  # fmt: skip


class _Versions(Struct, frozen=True):
    """A table of symbol versions: groups, each with a chain of names."""

    table: int
    count: int
    """The tags of its address and of the number of its groups."""
    group: struct.Struct
    """Length of the chain, its start, and the next group."""
    name: struct.Struct
    """The name, and the next one."""


_NEEDS = _Versions(_DT_VERNEED, _DT_VERNEEDNUM, struct.Struct("<2xH4xII"), struct.Struct("<8xII"))
_DEFINITIONS = _Versions(_DT_VERDEF, _DT_VERDEFNUM, struct.Struct("<6xH4xII"), struct.Struct("<II"))


class Elf:
    """One ELF file. Parts are read on first use; each raises NotReadable if it is damaged."""

    def __init__(self, file: Bounded) -> None:
        self.file = file
        ident = file.read(0, 16)
        if ident[:4] != MAGIC:
            raise NotReadable("not an ELF file")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise NotReadable("malformed: unknown ELF class or byte order")
        if ident[5] == 2:
            raise NotReadable("a big-endian ELF file")
        self.abi_version = ident[8]
        self._layout = _ELF64 if ident[4] == 2 else _ELF32
        fields = self._layout.header.unpack(file.read(16, self._layout.header.size))
        self.type, self.machine, self.flags = fields[0], fields[1], fields[6]
        self._segments_at, self._sections_at = fields[4], fields[5]
        self._segment_size, self._segment_count = fields[8], fields[9]
        self._section_size, self._section_count, self._names_index = fields[10:13]
        self._names = file.second_window()

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections in file order; empty if the section table was stripped."""
        table = self._section_table()
        if not table:
            return ()
        names = self._section_names(table)
        return tuple(
            _section(record, c_string(names, record[0]) if record[1] else "")
            for record in self._layout.section.iter_unpack(table)
        )

    def section_of_kind(self, kind: int) -> Section | None:
        """The first one of that type, without its name: to read the names of all takes much longer."""
        records = self._layout.section.iter_unpack(self._section_table())
        return next((_section(record) for record in records if record[1] == kind), None)

    def has_section(self, names: Collection[str]) -> bool:
        """Whether it has one of that name. Most tables of names tell that it has none."""
        table = self._section_table()
        listed = self._section_names(table) if table else b""
        likely = any(name.encode() + b"\0" in listed for name in names)
        return likely and any(section.name in names for section in self.sections)

    def _section_table(self) -> bytes:
        if not self._sections_at:
            return b""
        layout = self._layout.section
        if self._section_size != layout.size:
            raise NotReadable("malformed: section headers of an unknown size")
        count = self._section_count
        if not count:  # more than 65,279 of them: the first one's size field says how many
            count = layout.unpack(self.file.read(self._sections_at, layout.size))[5]
        if count > _MOST_SECTIONS:
            raise NotReadable(f"absurd size: {count} sections")
        return self.file.read(self._sections_at, count * layout.size)

    def _section_names(self, table: bytes) -> bytes:
        layout = self._layout.section
        index = layout.unpack_from(table)[6] if self._names_index == 0xFFFF else self._names_index
        if index * layout.size >= len(table):
            raise NotReadable("malformed: no table of section names")
        record = layout.unpack_from(table, index * layout.size)
        return self.file.read(record[4], record[5])

    def section(self, name: str) -> Section | None:
        return next((section for section in self.sections if section.name == name), None)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        if not self._segments_at or not self._segment_count:
            return ()
        layout = self._layout.segment
        if self._segment_size != layout.size:
            raise NotReadable("malformed: program headers of an unknown size")
        if self._segment_count > _MOST_SEGMENTS:
            raise NotReadable(f"absurd size: {self._segment_count} program headers")
        table = self.file.read(self._segments_at, self._segment_count * layout.size)
        kind, offset, address, size = self._layout.segment_fields
        return tuple(
            Segment(record[kind], record[offset], record[size], record[address])
            for record in layout.iter_unpack(table)
        )

    # --- the dynamic section ---

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the libraries that it needs, in the loader's order (DT_NEEDED)."""
        return self._texts(_DT_NEEDED)

    @property
    def rpath(self) -> tuple[str, ...]:
        """Folders of DT_RPATH, as written ("$ORIGIN/../lib")."""
        return self._folders(_DT_RPATH)

    @property
    def runpath(self) -> tuple[str, ...]:
        """Folders of DT_RUNPATH, as written."""
        return self._folders(_DT_RUNPATH)

    def needs_version(self, prefix: str) -> str | None:
        """The highest symbol version with `prefix` that it needs from other libraries.

        `needs_version("GLIBCXX_")` is "3.4.29" for a library that needs GLIBCXX_3.4.29; None if it needs none.
        Versions that are no numbers (GLIBC_PRIVATE) do not count.
        """
        return _highest(prefix, self._version_needs)

    def defines_version(self, prefix: str) -> str | None:
        """The highest symbol version with `prefix` that it provides: "3.4.33" of a libstdc++ for "GLIBCXX_"."""
        return _highest(prefix, self._version_definitions)

    @cached_property
    def _dynamic(self) -> dict[int, list[int]]:
        """Values by tag, in order; of thirty tags some six are of interest."""
        place = next(((s.offset, s.size) for s in self.segments if s.kind == _PT_DYNAMIC), None)
        if place is None:
            section = self.section_of_kind(_SHT_DYNAMIC)
            place = (section.offset, section.size) if section else None
        if place is None:
            return {}
        offset, size = place
        layout = self._layout.dynamic
        if size > _MOST_DYNAMIC * layout.size:
            raise NotReadable(f"absurd size: a dynamic section of {size} bytes")
        entries: dict[int, list[int]] = {}
        for tag, value in layout.iter_unpack(self.file.read(offset, size - size % layout.size)):
            if tag == 0:
                break
            if tag in _ASKED:
                entries.setdefault(tag, []).append(value)
        return entries

    def _first(self, tag: int) -> int | None:
        return next(iter(self._dynamic.get(tag, ())), None)

    @cached_property
    def _dynamic_strings(self) -> tuple[int, int, bytes | None]:
        """Place and size of the dynamic section's string table, and its content if it is small."""
        address, size = self._first(_DT_STRTAB), self._first(_DT_STRSZ)
        if address is None or size is None:
            raise NotReadable("malformed: a dynamic section without strings")
        start = self._offset_of(address)
        return start, size, self._names.read(start, size) if size <= _SMALL_TABLE else None

    def string(self, offset: int, limit: int = STRING_LIMIT) -> str:
        """One string of that table: libtorch_cuda.so's has 11 MB, of which a few names are needed."""
        start, size, whole = self._dynamic_strings
        if whole is not None:
            return c_string(whole, offset, limit)
        if not 0 <= offset < size:
            raise NotReadable("malformed: a name lies outside its string table")
        return c_string(self._names.read(start + offset, min(limit, size - offset), _NAMES_WINDOW), 0, limit)

    def _offset_of(self, address: int) -> int:
        """The place in the file of the byte that is loaded at `address`."""
        for segment in self.segments:
            if segment.kind == _PT_LOAD and 0 <= address - segment.address < segment.size:
                return segment.offset + address - segment.address
        for section in self.sections:
            if section.address and 0 <= address - section.address < section.size:
                return section.offset + address - section.address
        raise NotReadable("malformed: an address outside of what is loaded")

    def _texts(self, tag: int) -> tuple[str, ...]:
        return tuple(self.string(value) for value in self._dynamic.get(tag, ()))

    def _folders(self, tag: int) -> tuple[str, ...]:
        texts = (self.string(value, _PATHS_LIMIT) for value in self._dynamic.get(tag, ()))
        return tuple(folder for text in texts for folder in text.split(":") if folder)

    # --- symbol versions ---

    @cached_property
    def _version_needs(self) -> tuple[str, ...]:
        return tuple(self._walk_versions(_NEEDS))

    @cached_property
    def _version_definitions(self) -> tuple[str, ...]:
        return tuple(self._walk_versions(_DEFINITIONS))

    def _walk_versions(self, versions: _Versions) -> Iterator[str]:
        address, groups = self._first(versions.table), self._first(versions.count)
        if address is None or groups is None:
            return
        start = self._offset_of(address)
        table = self.file.at_most(start, _VERSIONS_LIMIT)
        at, left = 0, _MOST_VERSIONS
        for _ in range(min(groups, _MOST_VERSIONS)):
            names, first, following = _unpacked(versions.group, table, at)
            name_at = at + first
            for _ in range(names):
                left -= 1
                if left < 0:
                    raise NotReadable("absurd size: too many symbol versions")
                name, step = _unpacked(versions.name, table, name_at)
                yield self.string(name)
                if not step:
                    break
                name_at += step
            if not following:
                return
            at += following


def open_elf(handle: Handle) -> Elf:
    """Read the header of an ELF file that is open for `pread`; the handle must stay open as long as the Elf is used.
    Raises NotReadable, here and from every attribute, for anything but a sound ELF file."""
    return Elf(Bounded(handle))


def _section(record: tuple[int, ...], name: str = "") -> Section:
    size = 0 if record[1] == _SHT_NOBITS else record[5]
    return Section(name, record[4], size, record[1], record[3])


def _unpacked(layout: struct.Struct, table: bytes, at: int) -> tuple[int, ...]:
    try:
        return layout.unpack_from(table, at)
    except struct.error:
        raise NotReadable("malformed: symbol versions outside of their table") from None


def _highest(prefix: str, names: tuple[str, ...]) -> str | None:
    numbered: list[tuple[tuple[int, ...], str]] = []
    for name in names:
        if not name.startswith(prefix):
            continue
        text = name[len(prefix) :]
        parts = text.split(".")
        if all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            numbered.append((tuple(map(int, parts)), text))
    return max(numbered)[1] if numbered else None
