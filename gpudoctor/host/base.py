"""The host as probes see it, and the types of its answers."""

from __future__ import annotations

import errno
import os
import posixpath
import stat as stat_bits
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from gpudoctor.host.input_file import WITHOUT_WAITING
from gpudoctor.host.open_file import OpenFile
from gpudoctor.machine import DeviceNode, Fact, User, denied, known, unknown

TEXT_LIMIT = 1 << 20
_READ = os.O_RDONLY | WITHOUT_WAITING
_OF_THE_KERNEL = ("/proc/", "/sys/")

FileKind = Literal["file", "folder", "char", "block", "link", "other"]


class FileStat(Struct, frozen=True):
    """The result of stat for a path, links followed. `device` is (major, minor) of a node."""

    kind: FileKind
    mode: int
    uid: int
    gid: int
    size: int
    device: tuple[int, int] | None = None
    modified: float = 0.0
    """Seconds since 1970."""


class Uname(Struct, frozen=True):
    release: str
    machine: str


class CommandResult(Struct, frozen=True):
    """A command's output (cut at `child.OUTPUT_LIMIT`) and exit status; a negative rc is the signal that ended it."""

    stdout: str = ""
    stderr: str = ""
    rc: int = 0


class Host(ABC):
    """One machine, read only."""

    live: bool
    """Whether commands, libraries and children may run on it."""

    @property
    @abstractmethod
    def environ(self) -> Mapping[str, str]:
        """Environment variables of the examined process."""

    @abstractmethod
    def uname(self) -> Fact[Uname]: ...

    @abstractmethod
    def user(self) -> User:
        """Effective uid and all gids (the system probe finds the group names)."""

    @abstractmethod
    def place(self, path: str) -> str | None:
        """Where a path of the machine lies on this system; None if it leads nowhere."""

    @abstractmethod
    def missing(self, path: str) -> Fact[Any]:
        """What it means here that `path` is missing: known to be absent, or unknown."""

    @abstractmethod
    def open_node(self, path: str) -> DeviceNode:
        """Try to open a device node for reading and writing, and close it again."""

    @abstractmethod
    def run(self, argv: Sequence[str], seconds: float) -> Fact[CommandResult]:
        """Run a command with a time limit. Unknown if a recording does not have it or its time is over; absent if
        there is no such command."""

    def working_folder(self) -> str | None:
        """The folder that gpudoctor was started in, if it is one of this machine."""
        return None

    def refusal(self, path: str) -> Fact[Any] | None:
        """The error that a recording has for this path, instead of its content."""
        return None

    def data(self, path: str, limit: int = TEXT_LIMIT, offset: int = 0) -> Fact[bytes]:
        """At most `limit` bytes of a regular file, from `offset`."""
        refused = self.refusal(path)
        if refused is not None:
            return refused
        place = self.place(path)
        if place is None:
            return self.missing(path)
        try:
            # Check this first: opening a node or a tape can have effects, and a FIFO waits for its writer.
            found = os.stat(place)
            if not stat_bits.S_ISREG(found.st_mode):
                return unknown("not a regular file", path)
            descriptor = os.open(place, _READ)
        except (OSError, ValueError) as error:
            return self._failure(path, error)
        try:
            if offset:
                os.lseek(descriptor, offset, os.SEEK_SET)
            # Whatever stands for a kernel's file (LXC puts its own there) may state a size that is not the content's.
            left = 0 if place.startswith(_OF_THE_KERNEL) else max(found.st_size - offset, 0)
            content = os.read(descriptor, min(limit, left or limit))
            while len(content) < limit and len(content) != left:
                more = os.read(descriptor, limit - len(content))
                if not more:
                    break
                content += more
            return known(content, path)
        except OSError as error:
            return self._failure(path, error)
        finally:
            os.close(descriptor)

    def text(self, path: str, limit: int = TEXT_LIMIT) -> Fact[str]:
        """A file's text: invalid UTF-8 is replaced, surrounding white space and NULs are removed."""
        content = self.data(path, limit)
        if content.value is None:
            return content.unanswered()
        return known(content.value.decode("utf-8", "replace").strip("\0 \t\r\n"), path)

    def names(self, path: str) -> Fact[tuple[str, ...]]:
        """The names in a folder, sorted."""
        refused = self.refusal(path)
        if refused is not None:
            return refused
        place = self.place(path)
        if place is None:
            return self.missing(path)
        try:
            return known(tuple(sorted(os.listdir(place))), path)
        except (OSError, ValueError) as error:
            return self._failure(path, error)

    def stat(self, path: str) -> Fact[FileStat]:
        """The kind, owner and size of a path, links followed."""
        place = self.place(path)
        if place is None:
            return self.missing(path)
        try:
            found = os.stat(place)
        except (OSError, ValueError) as error:
            return self._failure(path, error)
        node = stat_bits.S_ISCHR(found.st_mode) or stat_bits.S_ISBLK(found.st_mode)
        return known(
            FileStat(
                kind=_kind(found.st_mode),
                mode=stat_bits.S_IMODE(found.st_mode),
                uid=found.st_uid,
                gid=found.st_gid,
                size=found.st_size,
                device=(os.major(found.st_rdev), os.minor(found.st_rdev)) if node else None,
                modified=found.st_mtime,
            ),
            path,
        )

    def exists(self, path: str) -> bool:
        """Whether something is known to be there."""
        return self.stat(path).known

    @abstractmethod
    def resolve(self, path: str) -> str | None:
        """The path of the machine that `path` leads to, links followed; None if it leads nowhere."""

    def link(self, path: str) -> str | None:
        """The target of a symbolic link, whether it exists or not; None if `path` is no link."""
        folder = self.place(posixpath.dirname(path))
        try:
            return None if folder is None else os.readlink(os.path.join(folder, posixpath.basename(path)))
        except (OSError, ValueError):
            return None

    def open_binary(self, path: str) -> OpenFile | None:
        """A file opened for `pread`, for readers of large libraries; None if it cannot be opened."""
        place = self.place(path) if self.refusal(path) is None else None
        try:
            return None if place is None or not os.path.isfile(place) else OpenFile(os.open(place, _READ))
        except (OSError, ValueError):
            return None

    def capacity(self, path: str) -> Fact[int]:
        """Size in bytes of the file system mounted at `path`, if this system can tell it."""
        return unknown("not in this recording", path)

    def may_write(self, path: str) -> Fact[bool]:
        """Whether this user may change what lies in a folder."""
        return unknown("not in this recording", path)

    def refuses_execution(self, path: str) -> bool:
        """Whether the file system of a path is known to be mounted noexec: no library can be loaded from there."""
        return False

    def c_library(self) -> Fact[str]:
        """The running system's own answer for its C library, "glibc 2.31"."""
        return unknown("not in this recording", "confstr")

    def kernel_messages(self) -> Fact[bytes]:
        """The kernel's own message buffer in the form of /dev/kmsg: one record per line, oldest first."""
        return unknown("not in this recording", "/dev/kmsg")

    def _failure(self, path: str, error: Exception) -> Fact[Any]:
        if isinstance(error, OSError):
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return self.missing(path)
            if error.errno in (errno.EACCES, errno.EPERM):
                return denied(path, os.strerror(error.errno).lower())
            return unknown((error.strerror or "cannot be read").lower(), path)
        return unknown(str(error), path)


def _kind(mode: int) -> FileKind:
    if stat_bits.S_ISREG(mode):
        return "file"
    if stat_bits.S_ISDIR(mode):
        return "folder"
    if stat_bits.S_ISCHR(mode):
        return "char"
    return "block" if stat_bits.S_ISBLK(mode) else "other"
