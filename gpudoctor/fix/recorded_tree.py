"""What lies in an environment: every file, folder and link of it, as one record that can be compared later."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

EntryKind = Literal["file", "folder", "link", "other"]


class Entry(Struct, frozen=True, array_like=True):
    """One path, links not followed. Times are nanoseconds since 1970."""

    path: bytes
    kind: EntryKind
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    ctime: int
    device: int
    inode: int
    target: bytes = b""
    """What a symbolic link holds."""


Tree = dict[bytes, Entry]
"""By absolute path, a folder always before what it holds."""


def scan(roots: Iterable[bytes], without: Collection[bytes] = ()) -> Tree:
    """All that lies at and below `roots`. OSError with the path where something cannot be read.

    A root that is not there adds nothing; no link is followed; what vanishes meanwhile is left out.
    """
    tree: Tree = {}
    folders: list[bytes] = []
    for root in roots:
        if root in tree:
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            tree[root] = entry_of(root, os.lstat(root))
            if tree[root].kind == "folder":
                folders.append(root)
        while folders:
            folder = folders.pop()
            with suppress(FileNotFoundError, NotADirectoryError):
                for found in _listing(folder):
                    if found.path in without:
                        continue
                    with suppress(FileNotFoundError):
                        tree[found.path] = entry_of(found.path, found.stat(follow_symlinks=False))
                        if tree[found.path].kind == "folder":
                            folders.append(found.path)
    return tree


def _listing(folder: bytes) -> Iterator[os.DirEntry[bytes]]:
    with os.scandir(folder) as listing:
        yield from listing


def entry_of(path: bytes, status: os.stat_result) -> Entry:
    """The record of a path from its lstat."""
    kind: EntryKind = "other"
    if stat.S_ISREG(status.st_mode):
        kind = "file"
    elif stat.S_ISDIR(status.st_mode):
        kind = "folder"
    elif stat.S_ISLNK(status.st_mode):
        kind = "link"
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
        target=os.readlink(path) if kind == "link" else b"",
    )


def untouched(one: Entry | None, other: Entry | None) -> bool:
    """Whether nothing at all happened to a path between two records. A folder is what it is, not what it holds."""
    if one is None or other is None:
        return one is other
    if one.kind == "folder":
        return (one.kind, one.mode, one.uid, one.gid) == (other.kind, other.mode, other.uid, other.gid)
    return one == other


def same_file(one: Entry | None, other: Entry | None) -> bool:
    """Whether it is the same file with the same content. Unlike `untouched` this bears that some link to it came
    or went elsewhere (in the cache of uv, among the kept files), which changes its ctime."""
    if one is None or other is None or one.kind == "folder":
        return untouched(one, other)
    return _without_ctime(one) == _without_ctime(other)


def _without_ctime(entry: Entry) -> tuple[object, ...]:
    status = (entry.mode, entry.uid, entry.gid, entry.size, entry.mtime)
    return (entry.kind, *status, entry.device, entry.inode, entry.target)


def is_bytecode(path: bytes) -> bool:
    """What Python writes by itself, whenever it likes, from the source beside it."""
    return path.endswith(b".pyc") and path.rpartition(b"/")[0].endswith(b"/__pycache__")


def source_of(bytecode: bytes) -> bytes:
    """The .py that a file in __pycache__ was made from."""
    cache, _, name = bytecode.rpartition(b"/")
    return cache.removesuffix(b"__pycache__") + name.partition(b".")[0] + b".py"


def encoded(tree: Tree) -> bytes:
    """For a file; paths need not be UTF-8."""
    return msgspec.msgpack.encode(list(tree.values()))


def decoded(content: bytes) -> Tree:
    """What `encoded` wrote. msgspec.DecodeError where it is anything else."""
    return {entry.path: entry for entry in msgspec.msgpack.decode(content, type=list[Entry])}
