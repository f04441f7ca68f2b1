"""A file opened for reading at any place: of this system, or of a recording that holds only pieces of it."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """A descriptor, which is closed at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class OpenFile:
    """An open regular file. Its readers use `size` and `pread`; whoever takes `fileno` reads by other means."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = 0

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread(self, length: int, offset: int) -> bytes:
        """At most `length` bytes from `offset`."""
        return os.pread(self._descriptor, length, offset)

    def read(self, length: int) -> bytes:
        """The next bytes; none at the end."""
        content = self.pread(length, self._at)
        self._at += len(content)
        return content

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PiecesOfFile(OpenFile):
    """A file of a recording that holds some pieces of it, one after the other. The rest cannot be read."""

    def __init__(self, descriptor: int, size: int, pieces: Iterable[tuple[int, int]]) -> None:
        """`pieces`: offset and length of each in the whole file, in order."""
        super().__init__(descriptor)
        self._size = size
        self._pieces: list[tuple[int, int, int]] = []
        at = 0
        for offset, length in pieces:
            self._pieces.append((offset, length, at))
            at += length

    @property
    def size(self) -> int:
        return self._size

    def pread(self, length: int, offset: int) -> bytes:
        if offset >= self._size or not length:
            return b""
        for start, held, at in self._pieces:
            if start <= offset < start + held:
                return super().pread(min(length, start + held - offset), at + offset - start)
        raise OSError(errno.ENODATA, "this part of the file is not recorded")

    def fileno(self) -> int:
        raise io.UnsupportedOperation("only pieces of this file are recorded")
