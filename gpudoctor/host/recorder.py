"""A host that remembers what is asked of it: what `snapshot --files` writes down.

It answers as the written folder will: as a recording, which starts nothing but the commands whose output it keeps.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpudoctor.host.base import TEXT_LIMIT, CommandResult, FileStat, Host, Uname
from gpudoctor.host.open_file import OpenFile
from gpudoctor.host.recorded_host import absolute, follow_links
from gpudoctor.machine import DeviceNode, Fact, Opening, User, known, unknown

COMMAND_SECONDS = 20.0
LOG = "/var/log/dmesg"
"""Where the kernel's message buffer of a running system is written down."""
_LOGS = "/var/log/"
_OWN_PROCESS = ("/proc/self", "/proc/thread-self")
"""Links of a running system that a recording has as folders."""
_OF_INIT = r"/proc/1/(?:mountinfo|mounts|limits)"
"""Files of the examined process; on a running system they are read of the process itself."""


class Reads:
    """What was read of one file, by offset."""

    def __init__(self) -> None:
        self.size: int | None = None
        """The size of the file, if its end was seen."""
        self.whole = False
        """Whether it was handed out to be read by other means."""
        self._pieces: dict[int, bytes] = {}

    def add(self, offset: int, asked: int, content: bytes) -> None:
        """Remember that of `asked` bytes these were there."""
        if len(content) > len(self._pieces.get(offset, b"")):
            self._pieces[offset] = content
        if len(content) < asked:
            self.size = offset + len(content)

    def pieces(self) -> list[tuple[int, bytes]]:
        """The pieces in order. Pieces that touch or overlap are joined."""
        merged: list[tuple[int, bytearray]] = []
        for offset, content in sorted(self._pieces.items()):
            if merged and offset <= (end := merged[-1][0] + len(merged[-1][1])):
                merged[-1][1].extend(content[end - offset :])
            elif content:
                merged.append((offset, bytearray(content)))
        return [(offset, bytes(content)) for offset, content in merged]


class RecordingHost(Host):
    """Wraps a host and keeps every answer. Paths are kept as they are called once links are followed."""

    live = False

    def __init__(self, source: Host, environ: Mapping[str, str], *, commands: bool = True) -> None:
        """`environ`: the variables to record; `commands`: whether the drivers' tools may be started."""
        self.source = source
        self.links: dict[str, str] = {}
        self.reads: dict[str, Reads] = {}
        self.stats: dict[str, FileStat] = {}
        self.folders: dict[str, tuple[str, ...]] = {}
        self.refused: dict[str, Opening] = {}
        self.nodes: dict[str, DeviceNode] = {}
        self.commands: dict[str, CommandResult] = {}
        self._environ = dict(environ)
        self._may_run = commands
        self._targets: dict[str, str | None] = {}
        log = source.kernel_messages() if source.live else unknown("not asked")
        self._log = None if log.value is None else _as_dmesg(log.value)

    # --- answers that need no file ---------------------------------------------------------------------

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    def uname(self) -> Fact[Uname]:
        return self.source.uname()

    def user(self) -> User:
        return self.source.user()

    def place(self, path: str) -> str | None:
        return self.source.place(path)

    def open_node(self, path: str) -> DeviceNode:
        node = self.source.open_node(path)
        if node.opened == "ENOENT":
            self._note(path, self.source.stat(path))
        else:
            self.nodes[absolute(path)] = node
        return node

    def run(self, argv: Sequence[str], seconds: float) -> Fact[CommandResult]:
        command = " ".join((posixpath.basename(argv[0]), *argv[1:]))
        if not self._may_run:
            return unknown("not in this recording", command)
        if command not in self.commands:
            found = self.source.run(argv, max(seconds, COMMAND_SECONDS))
            if found.value is None:
                return unknown("not in this recording", command)
            self.commands[command] = found.value
        return known(self.commands[command], f"{command} (recorded)")

    # --- files -----------------------------------------------------------------------------------------

    def data(self, path: str, limit: int = TEXT_LIMIT, offset: int = 0) -> Fact[bytes]:
        if (other := self._other(path)) is not None:
            return other
        if self._log is not None and path == LOG:
            found: Fact[bytes] = known(self._log[offset : offset + limit], LOG)
        else:
            found = self.source.data(path, limit, offset)
        if found.value is not None:
            self._reads_of(path).add(offset, limit, found.value)
        return self._note(path, found)

    def names(self, path: str) -> Fact[tuple[str, ...]]:
        found = self._other(path) or self.source.names(path)
        if found.value is not None:
            self.folders[self._real(path)] = found.value
        return self._note(path, found)

    def stat(self, path: str) -> Fact[FileStat]:
        if (other := self._other(path)) is not None:
            return other
        if self._log is not None and path == LOG:
            return known(FileStat(kind="file", mode=0o640, uid=0, gid=0, size=len(self._log)), LOG)
        found = self.source.stat(path)
        if found.value is not None:
            self.stats[self._real(path)] = found.value
        elif found.state == "denied":  # of its folder
            self.refused[absolute(posixpath.dirname(path))] = "EACCES"
            return found
        return self._note(path, found)

    def resolve(self, path: str) -> str | None:
        if self._other(path) is not None:
            return None
        return self._real(path) if self.stat(path).known else None

    def link(self, path: str) -> str | None:
        folder, name = posixpath.split(absolute(path))
        place = posixpath.join(self._real(folder), name)
        return self._target(place)

    def missing(self, path: str) -> Fact[Any]:
        found = self.source.missing(path)
        return found if self.source.exists(path) else self._note(path, found)

    def open_binary(self, path: str) -> OpenFile | None:
        file = self.source.open_binary(path)
        if file is None:
            self.data(path, 1)
            return None
        self.stat(path)
        return _ListeningFile(file, self._reads_of(path))

    def _other(self, path: str) -> Fact[Any] | None:
        """The answer for a path of a running system that the recording will not have."""
        if not self.source.live:
            return None
        hidden = self._log is not None and path.startswith(_LOGS) and path != LOG
        return unknown("not in this recording", path) if hidden or re.fullmatch(_OF_INIT, path) else None

    def _reads_of(self, path: str) -> Reads:
        return self.reads.setdefault(self._real(path), Reads())

    def _note(self, path: str, found: Fact[Any]) -> Fact[Any]:
        """Keep which paths are known to be missing, and which exist and refuse to be read."""
        if found.absent:
            place = absolute(path)
            while (folder := posixpath.dirname(place)) != place and not self.source.exists(folder):
                place = folder
            if self.source.stat(place).absent:
                self.refused[place] = "ENOENT"
        elif found.value is None and self.source.exists(path) and found.why != "not a regular file":
            self.stat(path)
            self.refused[absolute(path)] = "EACCES" if found.state == "denied" else "other"
        return found

    # --- links -----------------------------------------------------------------------------------------

    def _real(self, path: str) -> str:
        """Where links lead, each of which is kept; the path may not exist."""
        return follow_links(path, self._target) or absolute(path)

    def _target(self, place: str) -> str | None:
        """The target of a link at a place without links above it."""
        if place not in self._targets:
            own = self.source.live and place in _OWN_PROCESS
            self._targets[place] = None if own else self.source.link(place)
        target = self._targets[place]
        if target is not None:
            self.links[place] = target
        return target


class _ListeningFile(OpenFile):
    """An open file whose reads are kept."""

    def __init__(self, file: OpenFile, reads: Reads) -> None:
        super().__init__(-1)
        self._file = file
        self._reads = reads

    @property
    def size(self) -> int:
        return self._file.size

    def pread(self, length: int, offset: int) -> bytes:
        content = self._file.pread(length, offset)
        self._reads.add(offset, length if offset + length <= self.size else len(content), content)
        return content

    def fileno(self) -> int:
        self._reads.whole = True
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


def _as_dmesg(records: bytes) -> bytes:
    lines = []
    for line in records.split(b"\n"):
        head, found, text = line.partition(b";")
        fields = head.split(b",")
        if found and len(fields) > 2 and fields[2].isdigit():
            lines.append(b"[%12.6f] %s" % (int(fields[2]) / 1e6, text))
    return b"\n".join(lines) + b"\n"
