"""Opens folders by name in the folder above, never by a path, so that no link is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

REPLACED = "it is no longer a folder of its own, or it is behind a link"

_OPEN_AT_ONCE = 64
"""How many descriptors one OpenFolders holds; a process may have 1024 in all."""

_PASS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class OpenFolders:
    """Folders by their absolute paths, each opened when it is needed.

    With `root`, a descriptor that this object then owns, paths are looked up below that folder instead of "/".
    """

    def __init__(self, root: int | None = None) -> None:
        self._root = os.open("/", _PASS) if root is None else root
        self._open: OrderedDict[bytes, int] = OrderedDict()

    def __enter__(self) -> OpenFolders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (*self._open.values(), self._root):
            os.close(descriptor)

    def at(self, folder: bytes, *, make: int | None = None) -> int:
        """The descriptor of a folder, for names in it. It is valid until the next call.

        Missing folders are made with the mode `make`. Raises OSError with the path; NotADirectoryError where a link
        or a file lies in its place.
        """
        above, names = folder, []
        while above and above not in self._open:
            above, _, name = above.rpartition(b"/")
            names.append(name)
        descriptor = self._open[above] if above else self._root
        if above:
            self._open.move_to_end(above)
        for name in reversed(names):
            above = above + b"/" + name
            descriptor = _made_and_opened(descriptor, name, above, make)
            self._hold(above, descriptor)
        return descriptor

    def of(self, path: bytes) -> tuple[int, bytes]:
        """The folder of a path, and its name in that folder."""
        parent, _, name = path.rpartition(b"/")
        return self.at(parent), name

    def status(self, path: bytes) -> os.stat_result:
        """Status of the path itself; a link is not followed."""
        folder, name = self.of(path)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def forget(self, folder: bytes) -> None:
        """Drop a folder that is gone or was replaced."""
        below = folder + b"/"
        for path in [path for path in self._open if path == folder or path.startswith(below)]:
            os.close(self._open.pop(path))

    def _hold(self, folder: bytes, descriptor: int) -> None:
        self._open[folder] = descriptor
        if len(self._open) > _OPEN_AT_ONCE:
            os.close(self._open.popitem(last=False)[1])


def _made_and_opened(parent: int, name: bytes, path: bytes, make: int | None) -> int:
    try:
        return enter(parent, name, path)
    except FileNotFoundError:
        if make is None:
            raise
    os.mkdir(name, make, dir_fd=parent)
    return enter(parent, name, path)


def enter(parent: int, name: bytes, path: bytes) -> int:
    """Open a folder for the names in it, not to list it. OSError with its `path`."""
    try:
        return os.open(name, _PASS, dir_fd=parent)
    except OSError as error:
        replaced = error.errno in (errno.ENOTDIR, errno.ELOOP)
        raise OSError(
            errno.ENOTDIR if replaced else error.errno, REPLACED if replaced else error.strerror, path
        ) from error


@contextmanager
def naming(path: bytes) -> Iterator[None]:
    """Give an OSError raised within this path: the call itself knows only the name in the folder."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


def listable(folder: int) -> int:
    """Open the same folder for reading and syncing."""
    return os.open(".", _LIST, dir_fd=folder)


def regular(folder: int, name: bytes, flags: int = os.O_RDONLY) -> int:
    """Open a regular file only: a FIFO would wait for ever, a device could do anything."""
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", name)
    return descriptor


def read_whole(descriptor: int, limit: int) -> bytes:
    """The content of an open file. Raises OSError where it is longer than `limit` bytes."""
    content = bytearray()
    while block := os.read(descriptor, 1 << 20):
        content += block
        if len(content) > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB")
    return bytes(content)
