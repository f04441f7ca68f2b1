"""A machine in a folder: a mounted image, a container's /host, a recording (`--root`)."""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from gpudoctor.host.base import TEXT_LIMIT, CommandResult, FileStat, Host, Uname
from gpudoctor.host.input_file import InputError, reason_of
from gpudoctor.host.open_file import OpenFile, PiecesOfFile
from gpudoctor.machine import DeviceNode, Fact, Opening, User, absent, denied, known, unknown

HOST_FILE = "gpudoctor-host.json"
HOST_FILE_LIMIT = 1 << 26
_MAX_LINKS = 40


class RecordedUname(Struct, frozen=True):
    """What uname tells."""

    release: str
    machine: str


class RecordedUser(Struct, frozen=True):
    """Effective numbers of the examined process."""

    uid: int
    gids: tuple[int, ...] = ()


class RecordedNode(Struct, frozen=True, omit_defaults=True):
    """A path that is more, or less, than a file; `open` is what opening it gives, `mode` octal. Where a folder that
    was put together by hand leaves `open` out, the mode says whether the user may."""

    mode: str | None = None
    uid: int | None = None
    gid: int | None = None
    open: Opening | None = None


class RecordedPieces(Struct, frozen=True):
    """A file of which only pieces are kept: the file in the folder holds them one after the other."""

    size: int
    """The size of the whole file."""
    at: tuple[tuple[int, int], ...] = ()
    """Offset and length of each piece in the whole file, in order."""


class HostFile(Struct, frozen=True, omit_defaults=True):
    """`gpudoctor-host.json` of a recorded folder: what files cannot hold."""

    uname: RecordedUname | None = None
    environ: dict[str, str] = field(default_factory=dict)
    """Variables of the examined process; `--env` overlays them."""
    user: RecordedUser | None = None
    nodes: dict[str, RecordedNode] = field(default_factory=dict)
    """Device nodes, and any path that answers with an error: {"/dev/kfd": {"mode": "0660", "open": "EACCES"}}."""
    commands: dict[str, CommandResult] = field(default_factory=dict)
    """Output by command line, or by the command's name: "nvidia-smi -q"."""
    asked_only: bool = False
    """Whether only what was asked is recorded, as `snapshot --files` does. Then a path that is not here is unknown,
    unless `nodes` (ENOENT) or `folders` tell that it is missing."""
    folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """All names in a folder, where not all that they name is recorded."""
    pieces: dict[str, RecordedPieces] = field(default_factory=dict)
    """Large files, such as libraries."""


# A path that is missing in a recording is known to be absent only below one of these, if the recording has that tree.
_TREES = (
    "/sys/bus/pci/devices", "/sys/bus", "/sys/class/kfd", "/sys/class/drm", "/sys/class", "/sys/module",
    "/sys/firmware", "/sys/devices", "/sys", "/proc", "/dev", "/etc", "/lib/modules", "/usr/lib/modules",
    "/usr/src", "/usr", "/var/lib/dkms", "/var/log", "/var", "/run", "/opt", "/home", "/root", "/lib",
)  # fmt: skip
# Folders in every kernel's own /sys and every distribution's root: if all are there, the whole tree is.
_WHOLE_SYS = frozenset(("bus", "class", "devices", "kernel", "module"))
_WHOLE_ROOT = frozenset(("bin", "etc", "lib", "sbin", "tmp", "usr", "var"))


class RecordedHost(Host):
    """A machine below a folder. Links stay inside it; nothing of it ever runs."""

    live = False

    def __init__(self, root: str, variables: Mapping[str, str] | None = None) -> None:
        """Read `gpudoctor-host.json`, if there is one. Raises InputError for a folder that cannot be used."""
        try:
            os.listdir(root)
            self._root = os.path.realpath(root)
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"--root {root}: {reason_of(error)}") from None
        self._nodes: dict[str, RecordedNode] = {}
        self._listings: dict[str, frozenset[str]] = {}
        self._resolved: dict[str, str | None] = {}
        self._file = HostFile()
        self._file = self._read_host_file()
        self._environ = {**self._file.environ, **(variables or {})}
        self._nodes = {absolute(path): node for path, node in self._file.nodes.items()}

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    def uname(self) -> Fact[Uname]:
        recorded = self._file.uname
        if recorded is not None:
            return known(Uname(release=recorded.release, machine=recorded.machine), HOST_FILE)
        return unknown("the recording states no uname", HOST_FILE)

    def user(self) -> User:
        recorded = self._file.user
        if recorded is None:
            return User(source="not recorded")
        return User(uid=recorded.uid, gids=recorded.gids, source=HOST_FILE)

    def refusal(self, path: str) -> Fact[Any] | None:
        """The error recorded for this path, for its target, or for a folder above it."""
        if not self._nodes:
            return None
        for start in {absolute(path), self.resolve(path) or "/"}:
            place = start
            while place != "/":
                node = self._nodes.get(place)
                if node is not None and node.open is not None and node.open != "ok":
                    return _refusal(path, node.open)
                place = posixpath.dirname(place)
        return None

    def names(self, path: str) -> Fact[tuple[str, ...]]:
        listed = self._all_names(path)
        refused = self.refusal(path) if listed is not None or self._file.asked_only else None
        if refused is not None:
            return refused
        if listed is not None:
            return known(tuple(sorted(listed)), path)
        if self._file.asked_only:
            return unknown("not in this recording", path)
        found = super().names(path)
        folder = absolute(path).rstrip("/") + "/"
        named: set[str] = set()
        hidden: set[str] = set()
        for node, state in self._nodes.items():
            if node.startswith(folder):
                child, _, deeper = node[len(folder) :].partition("/")
                (hidden if state.open == "ENOENT" and not deeper else named).add(child)
        if not named and (not hidden or found.value is None):
            return found
        return known(tuple(sorted((set(found.value or ()) | named) - hidden)), path)

    def stat(self, path: str) -> Fact[FileStat]:
        clean = absolute(path)
        node = self._nodes.get(clean)
        if node is not None and node.open == "ENOENT":
            return absent(path, "no such file or directory")
        if node is not None and clean.startswith("/dev/"):
            mode = int(node.mode, 8) if node.mode else 0o666
            return known(FileStat(kind="char", mode=mode, uid=node.uid or 0, gid=node.gid or 0, size=0), path)
        refused = self.refusal(posixpath.dirname(clean))
        if refused is not None:
            return refused.unanswered(path)
        found = super().stat(path)
        if found.value is None and any(name.startswith(clean + "/") for name in self._nodes):
            return known(FileStat(kind="folder", mode=0o755, uid=0, gid=0, size=0), HOST_FILE)
        pieces = self._pieces_of(path)
        return found if found.value is None or pieces is None else known(replace(found.value, size=pieces.size), path)

    def data(self, path: str, limit: int = TEXT_LIMIT, offset: int = 0) -> Fact[bytes]:
        if self._pieces_of(path) is None:
            return super().data(path, limit, offset)
        file = self.open_binary(path)
        if file is None:
            return self.refusal(path) or unknown("not in this recording", path)
        with file:
            wanted = min(limit, max(0, file.size - offset))
            try:
                content = file.pread(wanted, offset)
            except OSError as error:
                return unknown(str(error.strerror), path)
        return known(content, path) if len(content) == wanted else unknown("only pieces of it are recorded", path)

    def open_binary(self, path: str) -> OpenFile | None:
        file, pieces = super().open_binary(path), self._pieces_of(path)
        return file if file is None or pieces is None else PiecesOfFile(file.fileno(), pieces.size, pieces.at)

    def _pieces_of(self, path: str) -> RecordedPieces | None:
        if not self._file.pieces:
            return None
        return self._file.pieces.get(absolute(path)) or self._file.pieces.get(self.resolve(path) or "")

    def _all_names(self, path: str) -> tuple[str, ...] | None:
        """All names of a folder, where the recording has them."""
        if not self._file.folders:
            return None
        listed = self._file.folders.get(absolute(path))
        return self._file.folders.get(self.resolve(path) or "") if listed is None else listed

    def place(self, path: str) -> str | None:
        resolved = self.resolve(path)
        return None if resolved is None else os.path.join(self._root, resolved.lstrip("/"))

    def resolve(self, path: str) -> str | None:
        """Follow links as that machine would: absolute ones start at the root again. A folder that is read does not
        change; most of its paths are asked for several times."""
        if path not in self._resolved:
            self._resolved[path] = self._target_of(path)
        return self._resolved[path]

    def _target_of(self, path: str) -> str | None:
        real = follow_links(path, self._target)
        if real is None:
            return None
        try:
            os.lstat(self._root + real)
        except ValueError:
            return None
        except OSError as error:
            # A path that may not be looked at may exist: reading it will say why it cannot be read.
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
        return real

    def _target(self, place: str) -> str | None:
        try:
            return os.readlink(self._root + place)
        except (OSError, ValueError):
            return None

    def missing(self, path: str) -> Fact[Any]:
        clean = absolute(path)
        beside = self._all_names(posixpath.dirname(clean))
        if beside is not None or self._file.asked_only:
            gone = beside is not None and posixpath.basename(clean) not in beside
            # Of a folder that is wholly listed, what is missing in it is.
            gone = gone or self._all_names(clean) is not None or self._is_missing(clean)
            return absent(path, "no such file or directory") if gone else unknown("not in this recording", path)
        tree = next((tree for tree in _TREES if clean == tree or clean.startswith(tree + "/")), None)
        if (tree is not None and clean != tree and self._has(tree)) or self._in_whole_tree(clean):
            return absent(path, "no such file or directory")
        return unknown("not in this recording", path)

    def _is_missing(self, path: str) -> bool:
        """Whether a node says that a path, or a folder above it, is not there."""
        refused = self.refusal(path)
        return refused is not None and refused.absent

    def _has(self, tree: str) -> bool:
        """Whether that tree is recorded. An empty one is a mount point with nothing mounted."""
        return bool(self._listing(tree))

    def _in_whole_tree(self, path: str) -> bool:
        """Whether a path lies in a complete /sys or root file system: one that was mounted, not put together."""
        top = "/" + path.lstrip("/").partition("/")[0]
        if top == "/sys":
            return self._listing("/sys") >= _WHOLE_SYS
        return top not in ("/proc", "/dev", "/run") and self._listing("/") >= _WHOLE_ROOT

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._listings:
            place = self.place(folder)
            try:
                self._listings[folder] = frozenset(os.listdir(place) if place else ())
            except OSError:
                self._listings[folder] = frozenset()
        return self._listings[folder]

    def open_node(self, path: str) -> DeviceNode:
        node = self._nodes.get(absolute(path))
        if node is not None:
            mode = int(node.mode, 8) if node.mode else None
            opened = node.open or ("ok" if self._may_open(node) else "EACCES")
            return DeviceNode(path=path, opened=opened, mode=mode, uid=node.uid, gid=node.gid)
        answers: dict[str, Opening] = {"known": "ok", "absent": "ENOENT", "denied": "EACCES"}
        return DeviceNode(path=path, opened=answers.get(self.stat(path).state, "untried"))

    def _may_open(self, node: RecordedNode) -> bool:
        """Whether the user may read and write a node by its mode. `snapshot --files` tried it: there the mode does
        not count, because an access control list may permit more."""
        user = self._file.user
        if self._file.asked_only or node.mode is None or user is None or user.uid == 0:
            return True
        bits = 6 if (node.uid or 0) == user.uid else 3 if (node.gid or 0) in user.gids else 0
        return int(node.mode, 8) >> bits & 6 == 6

    def run(self, argv: Sequence[str], seconds: float) -> Fact[CommandResult]:
        """The recorded answer: looked up by the whole command line, then by the command's name."""
        command = posixpath.basename(argv[0])
        for key in (" ".join((command, *argv[1:])), command):
            if key in self._file.commands:
                return known(self._file.commands[key], f"{key} (recorded)")
        return unknown("not in this recording", command)

    def _read_host_file(self) -> HostFile:
        content = self.data("/" + HOST_FILE, HOST_FILE_LIMIT)
        if content.value is None:
            if self.place("/" + HOST_FILE) is None:
                return HostFile()
            raise InputError(f"{HOST_FILE}: cannot be read: {content.why}")
        try:
            file = msgspec.json.decode(content.value, type=HostFile)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{HOST_FILE}: {error}") from None
        for node in file.nodes.values():
            if node.mode and not re.fullmatch("[0-7]{1,7}", node.mode):
                raise InputError(f'{HOST_FILE}: mode {node.mode[:20]!r} is not octal, such as "0660"')
        return file


def follow_links(path: str, target_of: Callable[[str], str | None]) -> str | None:
    """Where a path leads, which need not exist; None if it has more links than Linux follows.

    `target_of` gives the target of a link at a place without links above it.
    """
    todo = [part for part in path.split("/") if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            done = done[:-1]
            continue
        target = target_of("/" + "/".join((*done, part)))
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        done = [] if target.startswith("/") else done
        todo = [piece for piece in target.split("/") if piece not in ("", ".")] + todo
    return "/" + "/".join(done)


def absolute(path: str) -> str:
    """An absolute path, without dots and double slashes (normpath keeps two at the beginning)."""
    return "/" + posixpath.normpath(path).lstrip("/")


def _refusal(path: str, opening: Opening) -> Fact[Any]:
    if opening == "ENOENT":
        return absent(path, "no such file or directory")
    if opening in ("EACCES", "EPERM"):
        return denied(path, os.strerror(getattr(errno, opening)).lower())
    return unknown(f"opening it fails with {opening}", path)
