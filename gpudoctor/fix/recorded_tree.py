"""Every file, folder and link of an environment, as one record that can be compared later."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from gpudoctor.fix.open_folders import OpenFolders, listable, naming
from gpudoctor.host.open_file import closing

EntryKind = Literal["file", "folder", "link", "other"]

KINDS: dict[int, EntryKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}

_Account = Annotated[int, Meta(ge=0, lt=(1 << 32) - 1)]
"""The last of these tells the system to leave an owner as it is."""


class Entry(Struct, frozen=True, array_like=True):
    """One path, links not followed. Times are nanoseconds since 1970."""

    path: bytes
    kind: EntryKind
    mode: Annotated[int, Meta(ge=0, le=0o7777)]
    uid: _Account
    gid: _Account
    size: Annotated[int, Meta(ge=0)]
    mtime: int
    ctime: int
    device: int
    inode: int
    target: bytes = b""
    """The target of a symbolic link."""


Tree = dict[bytes, Entry]
"""Entries by absolute path; a folder always comes before its content."""


def scan(roots: Iterable[bytes], without: Collection[bytes] = ()) -> Tree:
    """Everything at and below `roots`. OSError with the path where something cannot be read. A missing root adds
    nothing. No link is followed. A path that vanishes meanwhile is left out."""
    tree: Tree = {}
    with OpenFolders() as folders:
        for root in roots:
            if root in tree:
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                tree[root] = entry_at(folders, root)
            pending = [root] if root in tree and tree[root].kind == "folder" else []
            while pending:
                folder = pending.pop()
                with suppress(FileNotFoundError, NotADirectoryError):
                    pending += _scan_folder(folders, folder, without, tree)
    return tree


def _scan_folder(folders: OpenFolders, folder: bytes, without: Collection[bytes], tree: Tree) -> list[bytes]:
    """Add the content of a folder. Returns the folders in it."""
    found: list[bytes] = []
    path = folder
    opened = -1
    try:
        opened = listable(folders.at(folder))
        with os.scandir(opened) as listing:
            for item in listing:
                name = os.fsencode(item.name)
                path = folder + b"/" + name
                if path in without:
                    continue
                try:
                    entry = tree[path] = entry_of(path, item.stat(follow_symlinks=False), opened, name)
                except FileNotFoundError:
                    continue
                if entry.kind == "folder":
                    found.append(path)
    except OSError as error:
        error.filename = path
        raise
    finally:
        if opened >= 0:
            os.close(opened)
    return found


def entry_at(folders: OpenFolders, path: bytes) -> Entry:
    """The record of a path as it is now. OSError with the path."""
    folder, name = folders.of(path)
    with naming(path):
        return entry_of(path, os.stat(name, dir_fd=folder, follow_symlinks=False), folder, name)


def entry_of(path: bytes, status: os.stat_result, folder: int, name: bytes) -> Entry:
    """The record of a path from its status; a link is read again by its name in the open folder."""
    kind, target = KINDS.get(stat.S_IFMT(status.st_mode), "other"), b""
    if kind == "link":
        status, target = _link(folder, name)
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "other")
    return Entry(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        gid=status.st_gid,
        size=status.st_size,
        mtime=status.st_mtime_ns,
        ctime=status.st_ctime_ns,
        device=status.st_dev,
        inode=status.st_ino,
        target=target,
    )


def _link(folder: int, name: bytes) -> tuple[os.stat_result, bytes]:
    """Status and target of the same link; no target if something else lies there by now."""
    with closing(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)) as descriptor:
        status = os.fstat(descriptor)
        return status, os.readlink(b"", dir_fd=descriptor) if stat.S_ISLNK(status.st_mode) else b""


def untouched(one: Entry | None, other: Entry | None) -> bool:
    """Whether a path is the same in two records. For a folder this ignores its content."""
    if one is None or other is None:
        return one is other
    if one.kind == "folder":
        return (one.kind, one.mode, one.uid, one.gid) == (other.kind, other.mode, other.uid, other.gid)
    return one == other


def same_file(one: Entry | None, other: Entry | None) -> bool:
    """Whether it is the same file with the same content. Unlike `untouched`, this ignores ctime: a link to the file
    that came or went elsewhere changes it (in the cache of uv, among the kept files)."""
    if one is None or other is None or one.kind == "folder":
        return untouched(one, other)
    return _without_ctime(one) == _without_ctime(other)


def _without_ctime(entry: Entry) -> tuple[object, ...]:
    status = (entry.mode, entry.uid, entry.gid, entry.size, entry.mtime)
    return (entry.kind, *status, entry.device, entry.inode, entry.target)


def is_bytecode(path: bytes) -> bool:
    """Whether Python writes this file by itself, at any time, from the source beside it."""
    return path.endswith(b".pyc") and path.rpartition(b"/")[0].endswith(b"/__pycache__")


def source_of(bytecode: bytes) -> bytes:
    """The .py file from which a file in __pycache__ was made."""
    cache, _, name = bytecode.rpartition(b"/")
    return cache.removesuffix(b"__pycache__") + name.partition(b".")[0] + b".py"


def encoded(tree: Tree) -> bytes:
    """The tree as bytes for a file; paths need not be UTF-8."""
    return msgspec.msgpack.encode(list(tree.values()))


def decoded(content: bytes, roots: Collection[bytes]) -> Tree:
    """Reads what `encoded` wrote. ValueError for anything else, or for a path outside of `roots`."""
    tree: Tree = {}
    for entry in msgspec.msgpack.decode(content, type=list[Entry]):
        folder, _, name = entry.path.rpartition(b"/")
        above = tree.get(folder)
        inside = above is not None and above.kind == "folder" and name not in (b"", b".", b"..")
        if entry.path in tree or not (inside or entry.path in roots) or b"\0" in entry.path + entry.target:
            raise ValueError(f"{os.fsdecode(entry.path)!a} is not one of its paths")
        tree[entry.path] = entry
    return tree
