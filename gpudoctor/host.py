"""The only door to the outside: files, folders, nodes, variables and commands of one machine.

`LiveHost` is the running system; `RecordedHost` a folder that holds one (`--root`): a mounted image, a
container's /host, a recorded machine. Probes are written against `Host` and cannot tell them apart.
Every answer is a `Fact`: nothing here raises for what a machine looks like.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat as stat_bits
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
from msgspec import Struct, field

from gpudoctor.machine import DeviceNode, Fact, Opening, User, absent, denied, known, unknown

TEXT_LIMIT = 1 << 20
OUTPUT_LIMIT = 1 << 20
HOST_FILE = "gpudoctor-host.json"
HOST_FILE_LIMIT = 1 << 26
KERNEL_LOG_LIMIT = 1 << 23
KMSG_DEVICE = (1, 11)
NODE_SECONDS = 2.0
_MAX_LINKS = 40

FileKind = Literal["file", "folder", "char", "block", "link", "other"]


class InputError(Exception):
    """Input that a person gave and that cannot be used: the text says what, where, and what to do."""


class FileStat(Struct, frozen=True):
    """What stat says of a path, links followed. `device` is (major, minor) of a node."""

    kind: FileKind
    mode: int
    uid: int
    gid: int
    size: int
    device: tuple[int, int] | None = None
    filesystem: int = 0
    """Number of the file system it lies on: differs from its parent's where something is mounted."""
    modified: float = 0.0
    """Seconds since 1970."""


class Uname(Struct, frozen=True):
    release: str
    machine: str


class CommandResult(Struct, frozen=True):
    """What a command printed (cut at OUTPUT_LIMIT) and returned; a negative rc is the signal that ended it."""

    stdout: str = ""
    stderr: str = ""
    rc: int = 0


class Host(ABC):
    """One machine, read only."""

    live: bool
    """Whether commands, libraries and children may be run on it."""

    @property
    @abstractmethod
    def environ(self) -> Mapping[str, str]:
        """Environment variables of the examined process."""

    @abstractmethod
    def uname(self) -> Fact[Uname]: ...

    @abstractmethod
    def user(self) -> User:
        """Effective uid and all gids (group names are left to the system probe)."""

    @abstractmethod
    def locate(self, path: str) -> Path | None:
        """Where a path of the machine lies on this system, links resolved; None if it leads nowhere."""

    @abstractmethod
    def missing(self, path: str) -> Fact[Any]:
        """What the lack of `path` means here: known to be absent, or unknown."""

    @abstractmethod
    def open_node(self, path: str) -> DeviceNode:
        """Try to open a device node for reading and writing, and close it again."""

    @abstractmethod
    def run(self, argv: Sequence[str], seconds: float) -> Fact[CommandResult]:
        """Run a command with a time limit: unknown when it is missing from a recording or runs out of time,
        absent when there is no such command."""

    def refusal(self, path: str) -> Fact[Any] | None:
        """An error that a recording gives for this path, instead of its content."""
        return None

    def data(self, path: str, limit: int = TEXT_LIMIT, offset: int = 0) -> Fact[bytes]:
        """At most `limit` bytes of a regular file, from `offset`."""
        refused = self.refusal(path)
        if refused is not None:
            return refused
        place = self.locate(path)
        if place is None:
            return self.missing(path)
        try:
            # Asked first: opening a node or a tape can do something, and a FIFO waits for its writer.
            if not stat_bits.S_ISREG(os.stat(place).st_mode):
                return unknown("not a regular file", path)
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            return self._failed(path, error)
        try:
            content = os.pread(descriptor, limit, offset)
            while len(content) < limit:
                more = os.pread(descriptor, limit - len(content), offset + len(content))
                if not more:
                    break
                content += more
            return known(content, path)
        except OSError as error:
            return self._failed(path, error)
        finally:
            os.close(descriptor)

    def text(self, path: str, limit: int = TEXT_LIMIT) -> Fact[str]:
        """A file's text, bytes that are no UTF-8 replaced, surrounding white space and NULs removed."""
        content = self.data(path, limit)
        if content.value is None:
            return Fact(state=content.state, source=content.source, why=content.why)
        return known(content.value.decode("utf-8", "replace").strip("\0 \t\r\n"), path)

    def names(self, path: str) -> Fact[tuple[str, ...]]:
        """What a folder holds, sorted."""
        refused = self.refusal(path)
        if refused is not None:
            return refused
        place = self.locate(path)
        if place is None:
            return self.missing(path)
        try:
            return known(tuple(sorted(os.listdir(place))), path)
        except (OSError, ValueError) as error:
            return self._failed(path, error)

    def stat(self, path: str) -> Fact[FileStat]:
        """What a path is, links followed."""
        place = self.locate(path)
        if place is None:
            return self.missing(path)
        try:
            found = os.stat(place)
        except (OSError, ValueError) as error:
            return self._failed(path, error)
        node = stat_bits.S_ISCHR(found.st_mode) or stat_bits.S_ISBLK(found.st_mode)
        return known(
            FileStat(
                kind=_kind(found.st_mode),
                mode=stat_bits.S_IMODE(found.st_mode),
                uid=found.st_uid,
                gid=found.st_gid,
                size=found.st_size,
                device=(os.major(found.st_rdev), os.minor(found.st_rdev)) if node else None,
                filesystem=found.st_dev,
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

    def open_binary(self, path: str) -> IO[bytes] | None:
        """A file opened for `pread`, for readers of large libraries; None if it cannot be."""
        place = self.locate(path) if self.refusal(path) is None else None
        try:
            return None if place is None or not place.is_file() else place.open("rb", buffering=0)
        except (OSError, ValueError):
            return None

    def capacity(self, path: str) -> Fact[int]:
        """Size in bytes of the file system mounted at `path`, where this system can be asked for it."""
        return unknown("not in this recording", path)

    def kernel_messages(self) -> Fact[bytes]:
        """The kernel's own message buffer as /dev/kmsg gives it: one record a line, oldest first."""
        return unknown("not in this recording", "/dev/kmsg")

    def _failed(self, path: str, error: Exception) -> Fact[Any]:
        if isinstance(error, OSError):
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return self.missing(path)
            if error.errno in (errno.EACCES, errno.EPERM):
                return denied(path, os.strerror(error.errno).lower())
            return unknown((error.strerror or "cannot be read").lower(), path)
        return unknown(str(error), path)


class LiveHost(Host):
    """The system that gpudoctor runs on."""

    live = True

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """`variables` are laid over those of this process (`--env`)."""
        self._environ: Mapping[str, str] = {**os.environ, **variables} if variables else os.environ

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    def uname(self) -> Fact[Uname]:
        found = os.uname()
        return known(Uname(release=found.release, machine=found.machine), "uname")

    def user(self) -> User:
        gids = tuple(sorted({os.getegid(), *os.getgroups()}))
        return User(uid=os.geteuid(), gids=gids, source="the running process")

    def locate(self, path: str) -> Path | None:
        return Path(path)

    def resolve(self, path: str) -> str | None:
        try:
            return str(Path(path).resolve(strict=True))
        except (OSError, RuntimeError, ValueError):
            return None

    def missing(self, path: str) -> Fact[Any]:
        return absent(path, "no such file or directory")

    def capacity(self, path: str) -> Fact[int]:
        try:
            found = os.statvfs(path)
        except (OSError, ValueError) as error:
            return self._failed(path, error)
        return known(found.f_blocks * found.f_frsize, f"statvfs {path}")

    def kernel_messages(self) -> Fact[bytes]:
        try:
            descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            return self._failed("/dev/kmsg", error)
        try:
            # Some containers put their console there, which must not be read.
            if os.fstat(descriptor).st_rdev != os.makedev(*KMSG_DEVICE):
                return unknown("not the kernel's message buffer", "/dev/kmsg")
            return known(_read_records(descriptor), "/dev/kmsg")
        except OSError as error:
            return self._failed("/dev/kmsg", error)
        finally:
            os.close(descriptor)

    def open_node(self, path: str) -> DeviceNode:
        try:
            found = os.stat(path)
        except OSError as error:
            return DeviceNode(path=path, opened=_opening(error))
        except ValueError:
            return DeviceNode(path=path, opened="ENOENT")
        opened = _within(NODE_SECONDS, lambda: _try_open(path))
        return DeviceNode(
            path=path,
            opened=opened,
            mode=stat_bits.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
        )

    def run(self, argv: Sequence[str], seconds: float) -> Fact[CommandResult]:
        from gpudoctor.child import run_limited

        return run_limited(argv, seconds)


class _RecordedUname(Struct, frozen=True):
    release: str
    machine: str


class _RecordedUser(Struct, frozen=True):
    uid: int
    gids: tuple[int, ...] = ()


class _RecordedNode(Struct, frozen=True):
    mode: str | None = None
    uid: int | None = None
    gid: int | None = None
    open: Opening = "ok"


class HostFile(Struct, frozen=True):
    """`gpudoctor-host.json` of a recorded folder: what files cannot hold (design §3)."""

    uname: _RecordedUname | None = None
    environ: dict[str, str] = field(default_factory=dict)
    user: _RecordedUser | None = None
    nodes: dict[str, _RecordedNode] = field(default_factory=dict)
    commands: dict[str, CommandResult] = field(default_factory=dict)


# A path that is missing from a recording is known to be absent only below one of these, if it has that tree.
_TREES = (
    "/sys/bus/pci/devices",
    "/sys/bus",
    "/sys/class/kfd",
    "/sys/class/drm",
    "/sys/class",
    "/sys/module",
    "/sys/firmware",
    "/sys/devices",
    "/sys",
    "/proc",
    "/dev",
    "/etc",
    "/lib/modules",
    "/usr/lib/modules",
    "/usr/src",
    "/usr",
    "/var/lib/dkms",
    "/var/log",
    "/var",
    "/run",
    "/opt",
    "/home",
    "/root",
    "/lib",
)
# Folders that every kernel's own /sys and every distribution's root have: where all are, the whole tree is.
_WHOLE_SYS = frozenset(("bus", "class", "devices", "kernel", "module"))
_WHOLE_ROOT = frozenset(("bin", "etc", "lib", "sbin", "tmp", "usr", "var"))


class RecordedHost(Host):
    """A machine below a folder. Links stay inside it; nothing of it is ever run."""

    live = False

    def __init__(self, root: Path, variables: Mapping[str, str] | None = None) -> None:
        """Read `gpudoctor-host.json`, if there is one. Raises InputError for a folder that cannot be used."""
        try:
            os.listdir(root)
            self._root = root.resolve()
        except (OSError, ValueError, RuntimeError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise InputError(f"--root {root}: {reason}") from None
        self._nodes: dict[str, _RecordedNode] = {}
        self._listings: dict[str, frozenset[str]] = {}
        self._file = self._read_host_file()
        self._environ = {**self._file.environ, **(variables or {})}
        self._nodes = {posixpath.normpath(path): node for path, node in self._file.nodes.items()}

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
        """The error recorded for this path, for what it leads to, or for a folder above it."""
        if not self._nodes:
            return None
        for start in {posixpath.normpath(path), self.resolve(path) or "/"}:
            place = start
            while place not in ("/", ""):
                node = self._nodes.get(place)
                if node is not None and node.open != "ok":
                    return _refused(path, node.open)
                place = posixpath.dirname(place)
        return None

    def names(self, path: str) -> Fact[tuple[str, ...]]:
        found = super().names(path)
        folder = posixpath.normpath(path).rstrip("/") + "/"
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
        clean = posixpath.normpath(path)
        node = self._nodes.get(clean)
        if node is not None and node.open == "ENOENT":
            return absent(path, "no such file or directory")
        if node is not None and clean.startswith("/dev/"):
            mode = int(node.mode, 8) if node.mode else 0o666
            return known(FileStat(kind="char", mode=mode, uid=node.uid or 0, gid=node.gid or 0, size=0), path)
        found = super().stat(path)
        if found.value is None and any(name.startswith(clean + "/") for name in self._nodes):
            return known(FileStat(kind="folder", mode=0o755, uid=0, gid=0, size=0), HOST_FILE)
        return found

    def locate(self, path: str) -> Path | None:
        resolved = self.resolve(path)
        return None if resolved is None else self._root / resolved.lstrip("/")

    def resolve(self, path: str) -> str | None:
        """Follow links as they would be followed on that machine: absolute ones start at the root again."""
        todo = [part for part in path.split("/") if part]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop(0)
            if part == ".":
                continue
            if part == "..":
                done = done[:-1]
                continue
            here = self._root.joinpath(*done, part)
            try:
                target = os.readlink(here)
            except (OSError, ValueError):
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                return None
            if target.startswith("/"):
                done = []
            todo = [piece for piece in target.split("/") if piece] + todo
        try:
            os.lstat(self._root.joinpath(*done))
        except ValueError:
            return None
        except OSError as error:
            # What may not be looked at is there for all we know: reading it will say why it cannot be read.
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
        return "/" + "/".join(done)

    def missing(self, path: str) -> Fact[Any]:
        clean = posixpath.normpath(path)
        tree = next((tree for tree in _TREES if clean == tree or clean.startswith(tree + "/")), None)
        if (tree is not None and clean != tree and self._has(tree)) or self._in_whole_tree(clean):
            return absent(path, "no such file or directory")
        return unknown("not in this recording", path)

    def _has(self, tree: str) -> bool:
        """Whether that tree is recorded. An empty one is a mount point with nothing mounted."""
        return bool(self._listing(tree))

    def _in_whole_tree(self, path: str) -> bool:
        """Whether a path lies in a /sys or a root file system that was mounted, not put together."""
        top = "/" + path.lstrip("/").partition("/")[0]
        if top == "/sys":
            return self._listing("/sys") >= _WHOLE_SYS
        return top not in ("/proc", "/dev", "/run") and self._listing("/") >= _WHOLE_ROOT

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._listings:
            place = self.locate(folder)
            try:
                self._listings[folder] = frozenset(os.listdir(place) if place else ())
            except OSError:
                self._listings[folder] = frozenset()
        return self._listings[folder]

    def open_node(self, path: str) -> DeviceNode:
        node = self._nodes.get(posixpath.normpath(path))
        if node is not None:
            mode = int(node.mode, 8) if node.mode else None
            return DeviceNode(path=path, opened=node.open, mode=mode, uid=node.uid, gid=node.gid)
        if self.locate(path) is not None:
            return DeviceNode(path=path, opened="ok")
        return DeviceNode(path=path, opened="ENOENT" if self.missing(path).absent else "untried")

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
            if self.locate("/" + HOST_FILE) is None:
                return HostFile()
            raise InputError(f"{HOST_FILE}: cannot be read: {content.why}")
        try:
            file = msgspec.json.decode(content.value, type=HostFile)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{HOST_FILE}: {error}") from None
        for node in file.nodes.values():
            try:
                int(node.mode or "0", 8)
            except ValueError:
                raise InputError(f'{HOST_FILE}: mode {node.mode!r} is not octal, such as "0660"') from None
        return file


def _refused(path: str, opening: Opening) -> Fact[Any]:
    if opening == "ENOENT":
        return absent(path, "no such file or directory")
    if opening in ("EACCES", "EPERM"):
        return denied(path, os.strerror(getattr(errno, opening)).lower())
    return unknown(f"opening it fails with {opening}", path)


def _kind(mode: int) -> FileKind:
    if stat_bits.S_ISREG(mode):
        return "file"
    if stat_bits.S_ISDIR(mode):
        return "folder"
    if stat_bits.S_ISCHR(mode):
        return "char"
    return "block" if stat_bits.S_ISBLK(mode) else "other"


_OPENINGS: dict[int, Opening] = {
    errno.EACCES: "EACCES",
    errno.EPERM: "EPERM",
    errno.ENOENT: "ENOENT",
    errno.ENXIO: "ENXIO",
    errno.EIO: "EIO",
    errno.EBUSY: "EBUSY",
    errno.ENODEV: "ENODEV",
    errno.EINVAL: "EINVAL",
}


def _opening(error: OSError) -> Opening:
    return _OPENINGS.get(error.errno or 0, "other")


def _read_records(descriptor: int) -> bytes:
    """Every record of /dev/kmsg up to KERNEL_LOG_LIMIT; each read gives one."""
    records: list[bytes] = []
    size = 0
    while size < KERNEL_LOG_LIMIT:
        try:
            record = os.read(descriptor, 1 << 14)
        except BlockingIOError:
            break
        except BrokenPipeError:  # overwritten while it was read: the next read goes on behind the gap
            continue
        if not record:
            break
        records.append(record)
        size += len(record)
    return b"".join(records)


def _try_open(path: str) -> Opening:
    # access(2) asks the mode bits, ACLs and the device cgroup, and does not wake a sleeping card as
    # opening /dev/nvidia0 or a render node does. Only the control nodes are really opened.
    card = path.startswith("/dev/dri/") or path.rstrip("0123456789") == "/dev/nvidia"
    if card and os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return "ok"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError as error:
        return _opening(error)
    return "ok"


def _within(seconds: float, attempt: Any) -> Opening:
    """Run `attempt` in a thread that may be left behind: a driver can hang in open()."""
    import threading

    answer: list[Opening] = []
    thread = threading.Thread(target=lambda: answer.append(attempt()), daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0] if answer else "other"
