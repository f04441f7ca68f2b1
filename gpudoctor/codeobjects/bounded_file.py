"""The only way into a file: small reads, checked against the file's size, and refused with a reason.

Everything here reads with `pread` and maps nothing. So a file that is truncated while it is read causes an error and
not a signal, and memory does not grow with the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO, Protocol, cast

PAGE = 4096
READ_LIMIT = 8 << 20
"""Largest read: tables and strings of an honest library are far smaller."""
STRING_LIMIT = 4096
PADDING_LIMIT = 1 << 20


class NotReadable(Exception):  # noqa: N818 - a state of the file, not a fault of ours
    """A file is not what it should be: `reason` says why in a few words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Positioned(Protocol):
    """A file that is read by place, such as `gpudoctor.host.open_file.OpenFile`."""

    @property
    def size(self) -> int: ...

    def pread(self, length: int, offset: int) -> bytes: ...


Handle = BinaryIO | int | bytes | Positioned
"""What holds a file; bytes stand for one that was already read."""


class Bounded:
    """A file, or a part of one. Every read gives all that was asked for, or raises NotReadable. Small reads are
    served from a window, so that headers close together cost one `pread`."""

    def __init__(self, handle: Handle) -> None:
        """The caller keeps `handle` open and closes it."""
        self._pread: Callable[[int, int], bytes] | None = None
        self._window = b""
        self._window_start = 0
        if isinstance(handle, bytes):
            self._window = handle
            self.size = len(handle)
            return
        try:
            self._pread, self.size = reader_of(handle)
        except (OSError, ValueError) as error:
            raise NotReadable(f"cannot be read: {error}") from None

    def read(self, offset: int, length: int, window: int = PAGE) -> bytes:
        """Exactly `length` bytes from `offset`; at least `window` bytes are fetched if the file has them."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise NotReadable(f"truncated: {length} bytes at {offset} of {self.size}")
        start = offset - self._window_start
        if start >= 0 and start + length <= len(self._window):
            return self._window[start : start + length]
        if length > READ_LIMIT:
            raise NotReadable(f"absurd size: a table of {length} bytes")
        self._window = self._fetch(offset, max(length, window))
        self._window_start = offset
        if len(self._window) < length:
            raise NotReadable(f"truncated: it became shorter than {self.size} bytes while it was read")
        return self._window[:length]

    def at_most(self, offset: int, length: int) -> bytes:
        """What lies there of `length` bytes, for a table whose size nothing states; a recording may hold a part."""
        if not 0 <= offset <= self.size:
            raise NotReadable(f"truncated: a table at {offset} of {self.size}")
        if self._pread is None:
            return self._window[offset : offset + length]
        return self._fetch(offset, min(length, self.size - offset))

    def second_window(self) -> Bounded:
        """The same file with a window of its own, for reading in two places in turn."""
        other = Bounded(self._window)
        other._pread, other.size, other._window_start = self._pread, self.size, self._window_start
        return other

    def skip_zeros(self, at: int, end: int, window: int = PAGE) -> int:
        """The next byte from `at` that is not zero, or `end`: linkers align and pad."""
        limit = at + PADDING_LIMIT
        while at < end:
            length = min(64 if at % PAGE else PAGE, end - at)
            content = self.read(at, length, window).lstrip(b"\0")
            at += length - len(content)
            if content:
                return at
            if at > limit:
                raise NotReadable("malformed: a megabyte of nothing where code should be")
        return at

    def _fetch(self, offset: int, length: int) -> bytes:
        assert self._pread is not None  # bytes are their own window
        try:
            return self._pread(length, offset)
        except OSError as error:
            raise NotReadable(f"cannot be read: {error.strerror}") from None


def reader_of(handle: BinaryIO | int | Positioned) -> tuple[Callable[[int, int], bytes], int]:
    """What reads a length from an offset, and the file's size."""
    if not isinstance(handle, int) and hasattr(handle, "pread"):
        file = cast("Positioned", handle)
        return file.pread, file.size
    descriptor = handle if isinstance(handle, int) else handle.fileno()
    return lambda length, offset: os.pread(descriptor, length, offset), os.fstat(descriptor).st_size


def c_string(table: bytes, offset: int, limit: int = STRING_LIMIT) -> str:
    """The string in a string table that starts at `offset` and ends at its NUL."""
    if not 0 <= offset < len(table):
        raise NotReadable("malformed: a name lies outside its string table")
    end = table.find(b"\0", offset, offset + limit)
    if end < 0:
        raise NotReadable("malformed: a name without an end")
    return table[offset:end].decode("utf-8", "replace")
