"""A temporary folder that is removed at the end, or by a later run if gpudoctor was killed."""

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

from gpudoctor.host.open_file import closing

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_VARIABLES, _USUAL = ("TMPDIR", "TEMP", "TMP"), ("/tmp", "/var/tmp", "/usr/tmp")
_LEFT_SECONDS = 3600.0
"""Younger folders are left alone: one may be new and not locked yet."""


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """A new folder. It is locked while this process lives, so that a folder of a killed process is recognised. Raises
    OSError if there is no place for one."""
    boot = _boot()
    prefix = f"gpudoctor-{purpose}-{boot or 'run'}-"
    folder, parent = _new_folder(prefix)
    with folder as name:
        if boot:
            _remove_left_ones(prefix, parent)
        with closing(os.open(name, os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
            with suppress(OSError):  # a file system without locks: nobody else can lock, and remove, it either
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(name)


def _new_folder(prefix: str) -> tuple[tempfile.TemporaryDirectory[str], str]:
    """A folder, and its parent. It tries Python's usual places, but without Python's trial file, which may not be
    writable where no file may grow."""
    named = [tempfile.tempdir] if tempfile.tempdir else [*map(os.environ.get, _VARIABLES), *_USUAL]
    failure = OSError("nowhere to make one")
    for parent in dict.fromkeys(os.path.abspath(path) for path in named if path):
        try:
            return tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True), parent
        except OSError as error:
            failure = error
    raise failure


def _boot() -> str:
    """Ten digits that no other host has ("": unknown): a network disk may tell only one host of a lock."""
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
    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as descriptor:
        found = os.fstat(descriptor)
        mine = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
        if mine and time.time() - found.st_mtime > _LEFT_SECONDS:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
