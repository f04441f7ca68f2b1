"""The files that a distribution's RECORD lists, found by a part of their names; and whether a library is whole."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import islice, pairwise

from gpudoctor.codeobjects.elf import NotReadable, open_elf
from gpudoctor.host import FileStat, Host
from gpudoctor.host.open_file import OpenFile
from gpudoctor.machine import DamagedFile

_RECORD_LIMIT = 16 << 20
_PIECE = 1 << 16
_BIN = b"/bin/"
_MOST_COMPARED = 100
_MOST_PROGRAMS = 2000
_REST = re.compile(rb'((?:\.\d+)*)"?,?[^,\n]*,(\d{1,15})(?:\r?\n|$)')


class Record:
    """A RECORD, which several probes ask the same."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def files(self, mark: bytes) -> Iterator[tuple[bytes, int]]:
        """As `listed_files`."""
        return listed_files(self.content, mark)

    @cached_property
    def libraries(self) -> tuple[tuple[bytes, int], ...]:
        return tuple(self.files(b".so"))

    @cached_property
    def programs(self) -> tuple[bytes, ...]:
        """Files in the bin folders of packages, such as torch/bin/protoc; not the commands of the environment."""
        return tuple(programs_in(self.content))


def read_record(host: Host, folder: str) -> Record | None:
    """The RECORD of a .dist-info."""
    path = posixpath.join(folder, "RECORD")
    return _record(host, path, host.stat(path).value)


@lru_cache(maxsize=64)
def _record(host: Host, path: str, as_it_is: FileStat | None) -> Record | None:
    content = host.data(path, _RECORD_LIMIT).value
    return None if content is None else Record(content)


def record_pieces(host: Host, folder: str) -> Iterator[bytes] | None:
    """The record in pieces of whole lines: it takes longer to get memory for a megabyte than to read it."""
    handle = host.open_binary(posixpath.join(folder, "RECORD"))
    return None if handle is None else _whole_lines(handle)


def _whole_lines(handle: OpenFile) -> Iterator[bytes]:
    rest: list[bytes] = []
    size = 0
    with handle, suppress(OSError):
        while size < _RECORD_LIMIT and (piece := handle.read(_PIECE)):
            size += len(piece)
            lines, ended, begun = piece.rpartition(b"\n")
            if ended:
                yield b"".join((*rest, lines))
                rest.clear()
            rest.append(begun)
    yield b"".join(rest)


def listed_files(content: bytes, mark: bytes) -> Iterator[tuple[bytes, int]]:
    """Path and size of each file whose path ends in `mark`, or in it and a number (".so", ".so.12"). A mark may hold
    the comma behind the path. Splitting there is many times faster than to look at every line: most are of no
    interest."""
    pieces = content.split(mark)
    for before, after in pairwise(pieces):
        begin = before[before.rfind(b"\n") + 1 :].removeprefix(b'"')  # some tools quote every path
        rest = _REST.match(after)
        if rest is not None and begin and b"," not in begin and b'"' not in begin:
            yield begin + mark.rstrip(b",") + rest[1], int(rest[2])


def locked_programs(host: Host, site: str, programs: Iterable[bytes]) -> Iterator[DamagedFile]:
    """Programs of a distribution in `site` that nobody may execute, of those that its RECORD lists."""
    for program in islice(programs, _MOST_PROGRAMS):
        path = posixpath.join(site, program.decode("utf-8", "replace"))
        if _is_locked(host, path):
            yield DamagedFile(path=path, problem="not-executable")


def programs_in(content: bytes) -> Iterator[bytes]:
    """As `Record.programs`, of a part of a record."""
    for before, after in pairwise(content.split(_BIN)):
        folder = before[before.rfind(b"\n") + 1 :].removeprefix(b'"')
        name = after[: after.find(b",")].removesuffix(b'"')
        plain = folder and b"," not in folder and b'"' not in folder
        if plain and not folder.startswith(b"..") and b"\n" not in name:
            yield folder + _BIN + name


def _is_locked(host: Host, path: str) -> bool:
    found = host.stat(path).value if host.live else None  # a recording may not keep the permissions
    if found is None or found.kind != "file" or found.mode & 0o111:
        return False
    head = host.data(path, 4).value or b""
    return head.startswith((b"\x7fELF", b"#!"))


def damage(host: Host, path: str, size: int) -> DamagedFile | None:
    """What is wrong with a file that a RECORD lists with that size."""
    found = host.stat(path)
    if found.value is not None:
        actual = found.value.size
        # A recording may hold the beginning of a library only.
        if actual == 0 or (actual < size and host.live and not path.endswith(".py") and ends_early(host, path)):
            return DamagedFile(path=path, problem="truncated")
        return None
    if found.state == "denied" and host.live:
        return DamagedFile(path=path, problem="unreadable")
    if not found.absent or (path.endswith(".py") and host.exists(f"{path}c")):
        return None  # an image may ship bytecode only
    return DamagedFile(path=path, problem="missing")


def share_present(host: Host, record: str) -> float | None:
    """Of the libraries and packages that a record lists, the share that lies there in the listed size; None if it has
    no RECORD."""
    found = read_record(host, record)
    if found is None or not found.content:
        return None
    site = posixpath.dirname(record)
    listed = [*found.libraries, *found.files(b"/__init__.py,")][:_MOST_COMPARED]
    stats = ((host.stat(posixpath.join(site, path.decode("utf-8", "replace"))).value, size) for path, size in listed)
    return sum(stat is not None and stat.size == size for stat, size in stats) / len(listed) if listed else 0.0


def ends_early(host: Host, path: str) -> bool:
    """Whether an ELF file ends before its last segment. (`strip` also shrinks a library, but keeps it whole.)"""
    handle = host.open_binary(path)
    if handle is None:
        return False
    with handle:
        try:
            elf = open_elf(handle)
            return any(segment.offset + segment.size > elf.file.size for segment in elf.segments)
        except NotReadable as error:
            return error.reason.startswith("truncated")
