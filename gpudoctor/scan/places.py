"""Where libraries lie: in a folder, in a wheel, or in the record of an installed distribution."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.bounded_file import NotReadable
from gpudoctor.codeobjects.library import read_code
from gpudoctor.codeobjects.wheel_archive import MAGIC, Archive, Member
from gpudoctor.host.input_file import reason_of

_NO_CODE_BELOW = frozenset({"__pycache__", "include", ".git", "node_modules"})
_MOST_FILES = 2_000_000
_KERNEL_FILES = (".co", ".hsaco", ".hipfb", ".fatbin", ".cubin", ".kpack", ".dat", ".yaml")
_DATABASES = ("db", ".txt")
_TEXT = re.compile(rb"[\t\n\r\x20-\x7e]+\Z")


class Files:
    """Files of this machine, by their paths."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._paths = paths

    def names(self) -> Iterable[str]:
        """Paths of files that may be code or kernels."""
        return filter(_may_be_code, self._paths)

    def code(self, name: str) -> Code | None:
        """The code in the file; None for text (a linker script) with a library's name."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            return Code(reason=f"cannot be opened: {reason_of(error)}")
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            code = read_code(descriptor)
            is_text = code.reason == "not an ELF file" and _TEXT.match(os.pread(descriptor, 64, 0))
        except OSError as error:
            return Code(reason=f"cannot be read: {reason_of(error)}")
        finally:
            os.close(descriptor)
        return None if is_text else code


def below(folder: str) -> Iterator[str]:
    """All files below a folder; links to folders are not followed."""
    pending, left = [folder], _MOST_FILES
    while pending:
        here = pending.pop()
        try:
            entries = os.scandir(here)
        except OSError:
            continue
        with entries, suppress(OSError):  # a folder of /proc opens, and then refuses to be listed
            for entry in entries:
                left -= 1
                if left < 0:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _NO_CODE_BELOW and not entry.name.endswith(".dist-info"):
                        pending.append(entry.path)
                elif not (entry.is_symlink() and _has_target_beside(entry.path)):
                    yield entry.path


def _has_target_beside(link: str) -> bool:
    """Whether a link names a file of its own folder, as libfoo.so names libfoo.so.1.2, which is scanned anyway."""
    try:
        return "/" not in os.readlink(link)
    except OSError:
        return False


def _may_be_code(path: str) -> bool:
    """A quick check of the name, so that the many other files of an environment cost nothing."""
    if ".so" in path or path.endswith(_KERNEL_FILES):
        return True
    return path.endswith(_DATABASES) and "miopen/db/" in path


_MOST_LIBRARIES = 2000
"""Limit for one wheel; those of torch have some dozens."""


class Wheel:
    """A wheel, read inside the zip. Raises NotReadable if it is none."""

    def __init__(self, descriptor: int) -> None:
        """The caller keeps `descriptor` open and closes it."""
        self._archive = Archive(descriptor)
        self._members = {member.name: member for member in self._archive.members if not member.name.endswith("/")}
        libraries = sum(_may_be_code(name) and not name.endswith(_KERNEL_FILES) for name in self._members)
        if libraries > _MOST_LIBRARIES:
            raise NotReadable(f"more than {_MOST_LIBRARIES:,} libraries: no package has so many")

    def names(self) -> Iterable[str]:
        """Paths inside the wheel."""
        return self._members

    def code(self, name: str) -> Code | None:
        try:
            file = self._archive.open(self._members[name])
            code = read_code(file)
            if code.reason == "not an ELF file" and _TEXT.match(file.read(0, min(64, file.size))):
                return None
        except NotReadable as error:
            return Code(reason=error.reason)
        return code

    def text(self, matches: Callable[[str], bool], limit: int = 1 << 20) -> str:
        """The text of the first member whose name matches; empty if none can be read."""
        member: Member | None = next((m for name, m in self._members.items() if matches(name)), None)
        if member is None:
            return ""
        try:
            return self._archive.read(member, limit).decode("utf-8", "replace")
        except NotReadable:
            return ""


def is_zip(descriptor: int) -> bool:
    """Whether a file starts like a zip archive."""
    return os.pread(descriptor, len(MAGIC), 0) == MAGIC
