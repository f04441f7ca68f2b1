"""Files inside a wheel, read in place: nothing is unpacked to disk, and memory does not grow with them.

A stored member is a part of the archive. A deflated one can only be unpacked forward, but an ELF file has its section
table at its end. So states of the unpacker are kept on the way, and a read continues from the last one before it.

Source: PKWARE's APPNOTE.TXT (zip, with its 64-bit extensions); RFC 1951.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import Any, BinaryIO

from msgspec import Struct

from gpudoctor.codeobjects.bounded_file import Bounded, NotReadable

MAGIC = b"PK\x03\x04"

_END, _END_MAGIC = struct.Struct("<4s4HIIH"), b"PK\x05\x06"
_LOCATOR, _LOCATOR_MAGIC = struct.Struct("<4sIQI"), b"PK\x06\x07"
_END64, _END64_MAGIC = struct.Struct("<4sQHHIIQQQQ"), b"PK\x06\x06"
_ENTRY, _ENTRY_MAGIC = struct.Struct("<4sHHHHHHIIIHHHHHII"), b"PK\x01\x02"
_LOCAL = struct.Struct("<4s22xHH")
_COMMENT_LIMIT = 65535
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_ENCRYPTED, _UTF8 = 1, 0x800
_STORED, _DEFLATED = 0, 8

# Honest wheels stay far below these limits: the largest has 15,000 members, and a compressed
# library of more than a megabyte a ratio of at most 19.
_DIRECTORY_LIMIT = 32 << 20
_MOST_MEMBERS = 200_000
_LARGEST_RATIO = 50
_ALWAYS_FINE = 4 << 20
_MOST_STATES = 64
_STATE_EVERY = 1 << 20
_IN, _OUT = 64 << 10, 256 << 10


class Member(Struct, frozen=True):
    """One file of an archive, as its directory lists it."""

    name: str
    size: int
    packed_size: int
    method: int
    flags: int
    header_at: int


class Archive:
    """The members of a zip file. Raises NotReadable for any other file, and for a damaged or absurd directory."""

    def __init__(self, handle: BinaryIO | int) -> None:
        """`handle` is open for `pread`, and stays open as long as members are read."""
        self._file = Bounded(handle)
        self._descriptor = handle if isinstance(handle, int) else handle.fileno()
        self.members: tuple[Member, ...] = tuple(self._read_directory())

    def open(self, member: Member) -> Bounded:
        """The content of a member. Its bytes are not checked against their checksum."""
        if member.flags & _ENCRYPTED:
            raise NotReadable("an encrypted member")
        if member.method not in (_STORED, _DEFLATED):
            raise NotReadable(f"packed in an unknown way ({member.method})")
        self._check_sizes(member)
        magic, name, extra = _LOCAL.unpack(self._file.read(member.header_at, _LOCAL.size))
        if magic != MAGIC:
            raise NotReadable("malformed: no member where the directory says")
        start = member.header_at + _LOCAL.size + name + extra
        if start + member.packed_size > self._file.size:
            raise NotReadable("truncated: a member that ends behind the archive")
        if member.method == _STORED:
            return _Stored(self._descriptor, start, member.size)
        return _Deflated(self._descriptor, start, member.packed_size, member.size)

    def read(self, member: Member, limit: int) -> bytes:
        """A small member's whole content."""
        if member.size > limit:
            raise NotReadable(f"absurd size: {member.size} bytes")
        return self.open(member).read(0, member.size) if member.size else b""

    def _check_sizes(self, member: Member) -> None:
        if member.method == _STORED and member.size != member.packed_size:
            raise NotReadable("malformed: a stored member of two sizes")
        if member.size > max(_ALWAYS_FINE, member.packed_size * _LARGEST_RATIO):
            raise NotReadable(f"absurd size: {member.packed_size} bytes that unpack to {member.size}")

    # --- the directory ---

    def _read_directory(self) -> list[Member]:
        count, size, offset, end = self._find_directory()
        if size > _DIRECTORY_LIMIT or count > _MOST_MEMBERS:
            raise NotReadable(f"absurd size: a directory of {count} members in {size} bytes")
        if offset + size > end:
            raise NotReadable("malformed: its directory does not lie before its end")
        members = []
        at, piece = 0, b""
        for _ in range(count):
            if len(piece) - at < _ENTRY.size + 3 * _FULL16:
                offset += at
                piece = self._file.read(offset, min(1 << 20, end - offset))
                at = 0
            member, at = _member(piece, at)
            members.append(member)
        if sum(member.packed_size for member in members) > self._file.size:
            raise NotReadable("malformed: members that lie over each other")
        whole = sum(member.size for member in members)
        if whole > max(_ALWAYS_FINE, self._file.size * _LARGEST_RATIO):
            raise NotReadable(f"absurd size: {self._file.size} bytes that unpack to {whole}")
        return members

    def _find_directory(self) -> tuple[int, int, int, int]:
        """Number of members, size and offset of the directory, and the place of its end record."""
        file = self._file
        length = min(file.size, _END.size + _COMMENT_LIMIT)
        tail = file.read(file.size - length, length)
        found = tail.rfind(_END_MAGIC)
        if found < 0 or len(tail) - found < _END.size:
            raise NotReadable("not a zip file, or truncated: it has no directory")
        end = file.size - length + found
        _, _, _, _, count, size, offset, _ = _END.unpack_from(tail, found)
        if _FULL16 not in (count,) and _FULL32 not in (size, offset):
            return count, size, offset, end
        if end < _LOCATOR.size:
            raise NotReadable("malformed: no 64-bit directory")
        magic, _, at, _ = _LOCATOR.unpack(file.read(end - _LOCATOR.size, _LOCATOR.size))
        if magic != _LOCATOR_MAGIC:
            return count, size, offset, end
        magic, *_, count, size, offset = _END64.unpack(file.read(at, _END64.size))
        if magic != _END64_MAGIC:
            raise NotReadable("malformed: no 64-bit directory")
        return count, size, offset, end


def _member(data: bytes, at: int) -> tuple[Member, int]:
    if len(data) - at < _ENTRY.size:
        raise NotReadable("truncated: a directory that ends too early")
    fields = _ENTRY.unpack_from(data, at)
    magic, flags, method = fields[0], fields[3], fields[4]
    packed, size = fields[8], fields[9]
    name_length, extra_length, comment_length = fields[10:13]
    header_at = fields[16]
    if magic != _ENTRY_MAGIC:
        raise NotReadable("malformed: a damaged directory")
    at += _ENTRY.size
    extra_at = at + name_length
    following = extra_at + extra_length + comment_length
    if following > len(data):
        raise NotReadable("truncated: a directory that ends too early")
    name = data[at:extra_at].decode("utf-8" if flags & _UTF8 else "cp437", "replace")
    if _FULL32 in (size, packed, header_at):
        size, packed, header_at = _wide(data[extra_at : extra_at + extra_length], size, packed, header_at)
    return Member(name, size, packed, method, flags, header_at), following


def _wide(extra: bytes, *narrow: int) -> tuple[int, ...]:
    """The three numbers; those that did not fit into 32 bits come from the extra field 1."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        at += 4
        if kind == 1:
            wide = iter(extra[at + i : at + i + 8] for i in range(0, length - 7, 8))
            try:
                return tuple(int.from_bytes(next(wide), "little") if n == _FULL32 else n for n in narrow)
            except StopIteration:
                break
        at += length
    raise NotReadable("malformed: a member without its 64-bit sizes")


# --- contents ---


class _Stored(Bounded):
    """A part of a file that is stored as it is."""

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        super().__init__(b"")
        self._descriptor = descriptor
        self._start = start
        self.size = size

    def _fetch(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._descriptor, min(length, self.size - offset), self._start + offset)
        except OSError as error:
            raise NotReadable(f"cannot be read: {error.strerror}") from None


class _State(Struct, frozen=True):
    """Where unpacking can continue: `at` bytes are out, `used` bytes are in."""

    at: int
    used: int
    unpacker: Any


class _Deflated(Bounded):
    """A deflated part of a file. Going back means unpacking again from the state before."""

    def __init__(self, descriptor: int, start: int, packed_size: int, size: int) -> None:
        super().__init__(b"")
        self._descriptor = descriptor
        self._start = start
        self._packed_size = packed_size
        self.size = size
        self._states = [_State(0, 0, zlib.decompressobj(-15))]
        self._state_every = max(_STATE_EVERY, size // _MOST_STATES)
        self._buffer, self._buffer_at = b"", 0
        self._go_on(self._states[0])

    def _fetch(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self.size)
        state = max((state for state in self._states if state.at <= offset), key=lambda state: state.at)
        if offset < self._buffer_at or state.at > self._buffer_at + len(self._buffer):
            self._go_on(state)
        pieces = []
        while True:
            buffer_end = self._buffer_at + len(self._buffer)
            if offset < buffer_end:
                pieces.append(self._buffer[offset - self._buffer_at : end - self._buffer_at])
                offset = min(end, buffer_end)
            if offset >= end:
                return b"".join(pieces)
            self._unpack_more()

    def _go_on(self, state: _State) -> None:
        self._unpacker = state.unpacker.copy()
        self._used = state.used
        self._buffer, self._buffer_at = b"", state.at

    def _unpack_more(self) -> None:
        """Unpack the next piece of content into the buffer, in place of the previous one."""
        at = self._buffer_at + len(self._buffer)
        if at - self._states[-1].at >= self._state_every:
            self._states.append(_State(at, self._used, self._unpacker.copy()))
        try:
            packed = os.pread(self._descriptor, min(_IN, self._packed_size - self._used), self._start + self._used)
            content = self._unpacker.decompress(packed, _OUT)
        except zlib.error:
            raise NotReadable(f"malformed: damaged data after {at} bytes") from None
        except OSError as error:
            raise NotReadable(f"cannot be read: {error.strerror}") from None
        used = len(packed) - len(self._unpacker.unconsumed_tail)
        if not content and not used:
            raise NotReadable(f"truncated: it unpacks to {at} of {self.size} bytes")
        self._used += used
        self._buffer, self._buffer_at = content, at
