"""Writes what a RecordingHost has heard into a new folder, which `--root` reads.

Every name that is written lies in that folder: paths are kept as they are called once links are followed, files and
folders are made anew, and nothing is written through a link.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from gpudoctor.host.anonymous import Anonymous
from gpudoctor.host.base import CommandResult, FileStat
from gpudoctor.host.input_file import InputError, reason_of
from gpudoctor.host.planted_links import refuse_planted
from gpudoctor.host.recorded_host import (
    HOST_FILE,
    HostFile,
    RecordedNode,
    RecordedPieces,
    RecordedUname,
    RecordedUser,
)
from gpudoctor.host.recorder import Reads, RecordingHost

SIZE_LIMIT = 256 << 20
"""Of all that is written."""
WHOLE_LIMIT = 32 << 20
"""A file that was read by other means is kept whole up to this size."""


class Written(Struct, frozen=True):
    """What was written: how many files, how many bytes, and which files were too large."""

    files: int
    size: int
    left_out: tuple[str, ...]


def new_folder(path: str) -> str:
    """An empty folder, made if it is not there. Raises InputError for any other."""
    try:
        refuse_planted(path)
        os.makedirs(path, mode=0o755, exist_ok=True)
        if os.listdir(path):
            raise InputError(f"--files {path}: not empty; name a new folder")
    except (OSError, ValueError) as error:
        raise InputError(f"--files {path}: {reason_of(error)}") from None
    return os.path.realpath(path)


def write_root(host: RecordingHost, folder: str, anonymous: Anonymous) -> Written:
    """Write everything that was asked of a host into an empty folder."""
    return _Root(host, folder, anonymous).write()


class _Root:
    def __init__(self, host: RecordingHost, folder: str, anonymous: Anonymous) -> None:
        self._host = host
        self._folder = folder
        self._anonymous = anonymous
        self._pieces: dict[str, RecordedPieces] = {}
        self._left_out: list[str] = []
        self._size = 0
        self._files = 0

    def write(self) -> Written:
        files = sorted(filter(_can_be_named, self._regular()))
        links = {path: target for path, target in self._host.links.items() if _can_be_named(path + target)}
        for path in filter(
            _can_be_named, (*self._folders(), *(posixpath.dirname(path) for path in (*files, *links)))
        ):
            os.makedirs(self._place(path), exist_ok=True)
        for path in files:
            self._write_file(path, self._host.reads.get(path, Reads()), self._host.stats.get(path))
        # The links come last: nothing can be written through them.
        for path, target in links.items():
            if not os.path.lexists(self._place(path)):
                os.symlink(self._target(path, target), self._place(path))
        file = self._host_file()
        text = msgspec.json.format(msgspec.json.encode(file, order="sorted"), indent=2)
        self._create(os.path.join(self._folder, HOST_FILE), text + b"\n", 0o644)
        return Written(self._files, self._size, tuple(self._left_out))

    def _folders(self) -> Iterator[str]:
        yield from self._host.folders
        yield from (path for path, stat in self._host.stats.items() if stat.kind == "folder")

    def _regular(self) -> set[str]:
        found = {path for path, stat in self._host.stats.items() if stat.kind not in ("folder", "link")}
        return (found | set(self._host.reads)) - set(self._host.links)

    def _place(self, path: str) -> str:
        return os.path.join(self._folder, self._anonymous.path(path).lstrip("/"))

    def _target(self, path: str, target: str) -> str:
        """Where a link leads. A relative one that climbs out of the root would leave the folder."""
        clean = self._anonymous.path(target)
        if target.startswith("/"):
            return clean
        depth = len([part for part in posixpath.dirname(path).split("/") if part])
        climbs = posixpath.normpath(clean).split("/").count("..")
        return clean if climbs <= depth else "/" + posixpath.normpath(posixpath.join(posixpath.dirname(path), clean))

    def _write_file(self, path: str, reads: Reads, stat: FileStat | None) -> None:
        pieces = reads.pieces()
        size = reads.size if reads.size is not None else stat.size if stat else sum(len(piece) for _, piece in pieces)
        if reads.whole and size <= WHOLE_LIMIT:
            content = self._host.source.data(path, WHOLE_LIMIT).value or b""
            pieces, size = [(0, content)], len(content)
        elif reads.whole:
            self._left_out.append(path)
            return
        is_whole = not size or (len(pieces) == 1 and pieces[0][0] == 0 and len(pieces[0][1]) >= size)
        content = b"".join(piece for _, piece in pieces)
        if self._size + len(content) > SIZE_LIMIT:
            self._left_out.append(path)
            return
        clean = self._anonymous.content(path, content)
        if not is_whole:
            if len(clean) != len(content):  # a log: what is left of it is all that is told of it
                size, pieces = len(clean), [(0, clean)]
            else:
                at = tuple((offset, len(piece)) for offset, piece in pieces)
                self._pieces[self._anonymous.path(path)] = RecordedPieces(size, at)
        self._create(self._place(path), clean, (stat.mode & 0o777 if stat else 0o644) | 0o600)

    def _create(self, place: str, content: bytes, mode: int) -> None:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
        self._files += 1
        self._size += len(content)

    # --- what files cannot hold ------------------------------------------------------------------------

    def _host_file(self) -> HostFile:
        host, anonymous = self._host, self._anonymous
        uname, user = host.uname().value, host.user()
        return HostFile(
            uname=RecordedUname(uname.release, uname.machine) if uname else None,
            environ={name: anonymous.text(value) for name, value in host.environ.items()},
            user=RecordedUser(user.uid, user.gids) if user.uid >= 0 else None,
            nodes={anonymous.path(path): node for path, node in self._nodes() if _can_be_named(path)},
            commands={
                command: CommandResult(anonymous.text(found.stdout), anonymous.text(found.stderr), found.rc)
                for command, found in host.commands.items()
            },
            asked_only=True,
            folders={
                anonymous.path(path): tuple(self._names(path, names))
                for path, names in host.folders.items()
                if _can_be_named(path)
            },
            pieces=self._pieces,
        )

    def _names(self, folder: str, names: tuple[str, ...]) -> Iterator[str]:
        named = (posixpath.join(folder, name) for name in names if _can_be_named(name))
        return (posixpath.basename(self._anonymous.path(path)) for path in named)

    def _nodes(self) -> Iterator[tuple[str, RecordedNode]]:
        yield from ((path, RecordedNode(open=opening)) for path, opening in self._host.refused.items())
        for path, stat in self._host.stats.items():
            if stat.kind in ("char", "block"):
                yield path, RecordedNode(f"{stat.mode:04o}", stat.uid, stat.gid, "untried")
        for path, node in self._host.nodes.items():
            mode = None if node.mode is None else f"{node.mode:04o}"
            yield path, RecordedNode(mode, node.uid, node.gid, node.opened)


def _can_be_named(path: str) -> bool:
    """Whether JSON can hold a name: the bytes of some are no UTF-8."""
    return path.isprintable() or not any("\ud800" <= c <= "\udfff" for c in path)
