"""Folders and files that belong to this account alone.

gpudoctor does to an environment what the journal says, also as root. So it trusts the journal only where nobody else
can have written it. Like ssh with its keys, it checks the owner of every folder on the path.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from gpudoctor.fix.account import account, me
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.open_folders import enter, listable, read_whole, regular
from gpudoctor.host.open_file import closing
from gpudoctor.host.user_namespace import UID_MAP, maps_everybody

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_owned(path: str, top: str, *, make: bool = False, parents: bool = True) -> int:
    """Open a folder, for listing and syncing, that is this account's alone from `top` on; `make` creates it.

    With `parents`, all folders above `top` must belong to this account or to root. No link is followed. Raises
    RepairError where somebody else could write; OSError with the path where it cannot be opened.
    """
    descriptor, at = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), ""
    try:
        for name in path.strip("/").split("/"):
            parent, at = descriptor, f"{at}/{name}"
            descriptor = _enter(parent, name, at, make=make)
            os.close(parent)
            if at == top or at.startswith(f"{top}/"):
                _check_alone(at, os.fstat(descriptor))
            elif parents:
                _check_above(at, os.fstat(descriptor))
        return listable(descriptor)
    finally:
        os.close(descriptor)


def _enter(parent: int, name: str, path: str, *, make: bool) -> int:
    try:
        return enter(parent, os.fsencode(name), os.fsencode(path))
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    return enter(parent, os.fsencode(name), os.fsencode(path))


def _check_alone(path: str, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise _foreign_owner(path, status.st_uid)
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise RepairError(
            f"Others may write to {path}, so it cannot be trusted: check what lies there, then run "
            f"`chmod go-w {path}`; XDG_STATE_HOME names another place."
        )


def _check_above(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()) and not _is_unmapped(status.st_uid):
        raise _foreign_owner(path, status.st_uid)
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise RepairError(
            f"Everybody may write to {path}, so the journal below it cannot be trusted: XDG_STATE_HOME names another "
            "place."
        )


def _foreign_owner(path: str, uid: int) -> RepairError:
    return RepairError(
        f"{path} belongs to {account(uid)}, not to {me()}: start gpudoctor as {account(uid)} (without sudo), or let "
        f"XDG_STATE_HOME name a folder of {me()}."
    )


def _is_unmapped(uid: int) -> bool:
    """Whether this is the id that a user namespace shows for an owner it does not map, such as root."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            if int(file.read()) != uid:
                return False
        with open(UID_MAP, encoding="ascii") as file:
            return not maps_everybody(file.read())
    except (OSError, ValueError):
        return False


def open_own_file(folder: int, name: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file of this account in an open folder. RepairError where others could have written it."""
    descriptor = regular(folder, os.fsencode(name), flags)
    try:
        _check_alone(name, os.fstat(descriptor))
    except RepairError:
        os.close(descriptor)
        raise
    return descriptor


def read_own_file(folder: int, name: str, limit: int) -> bytes:
    """The content of such a file. OSError where it is no regular file or longer than `limit` bytes."""
    with closing(open_own_file(folder, name)) as descriptor:
        return read_whole(descriptor, limit)


def remove(parent: int, name: str) -> None:
    """Remove a folder of plain files; gpudoctor makes no others. A folder with anything else in it stays."""
    with suppress(OSError):
        with (
            closing(enter(parent, os.fsencode(name), os.fsencode(name))) as folder,
            closing(listable(folder)) as listing,
        ):
            for found in os.listdir(listing):
                with suppress(OSError):
                    os.unlink(found, dir_fd=folder)
        os.rmdir(name, dir_fd=parent)
