"""A temporary folder that is removed at the end; where gpudoctor was killed before, by a later run."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_VARIABLES, _USUAL = ("TMPDIR", "TEMP", "TMP"), ("/tmp", "/var/tmp", "/usr/tmp")
_LEFT_SECONDS = 3600.0
"""Younger folders are let alone: one may just be made, and not locked yet."""


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """A new folder. It is locked while this process lives, so that what a killed one left is known as such.

    Raises OSError where there is no place for one.
    """
    boot = _boot()
    prefix = f"gpudoctor-{purpose}-{boot or 'run'}-"
    folder, parent = _new_folder(prefix)
    with folder as name:
        if boot:
            _remove_left_ones(prefix, parent)
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # a file system without locks: nobody else can lock, and remove, it either
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(name)
        finally:
            os.close(descriptor)


def _new_folder(prefix: str) -> tuple[tempfile.TemporaryDirectory[str], str]:
    """A folder, and the one that it is in: of those that Python would try, but without a file as its trial, which
    may not be written where no file may grow."""
    named = [tempfile.tempdir] if tempfile.tempdir else [*map(os.environ.get, _VARIABLES), *_USUAL]
    failure = OSError("nowhere to make one")
    for parent in dict.fromkeys(os.path.abspath(path) for path in named if path):
        try:
            return tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True), parent
        except OSError as error:
            failure = error
    raise failure


def _boot() -> str:
    """Ten digits that no other host has ("": unknown): a disk of the network may tell one host only of a lock."""
    try:
        with open(_BOOT_ID) as file:
            return file.read().replace("-", "")[:10]
    except OSError:
        return ""


def _remove_left_ones(prefix: str, parent: str) -> None:
    """Remove folders of that name that are this user's, closed to others, old, and locked by nobody."""
    own = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}")
    with suppress(OSError):
        for name in filter(own.fullmatch, os.listdir(parent)):
            with suppress(OSError):
                _remove_if_left(os.path.join(parent, name))


def _remove_if_left(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        mine = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
        if mine and time.time() - found.st_mtime > _LEFT_SECONDS:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
