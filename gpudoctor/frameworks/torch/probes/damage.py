"""Finds files of torch that are missing or truncated, by comparing them with the installer's RECORD.

It looks only at files that `import torch` needs, about 200 of 15,000: torch/*.py, the first file of each of its
packages, the extension modules, and the libraries in torch/lib. It compares sizes, not contents: hashing a gigabyte
would take seconds. Test data, headers and static libraries may be deleted to save room.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from gpudoctor.host import FileStat, Host
from gpudoctor.machine import DamagedFile, Fact
from gpudoctor.probes.folder_listing import FolderNames
from gpudoctor.probes.record import ends_early, locked_programs, programs_in, record_pieces

_LOOKED_AT = (
    rb"\n((?:torch|functorch)/"
    rb"(?:lib/[^/,\n]+\.so(?:\.[\d.]+)?|[^/,\n]+(?:\.py|\.so|/__init__\.py))),[^,\n]*,([1-9]\d{0,15})\b"
)
_HEADERS = b"\ntorch/include/"
_MOST_FILES = 2000
_MOST_REPORTED = 20


def damaged_files(host: Host, site: str, record: str | None) -> tuple[DamagedFile, ...]:
    """Damage of the torch in `site`, whose .dist-info is `record` (None: not installed from a wheel): at most 20
    files, and the programs that nobody may execute."""
    pieces = record_pieces(host, record) if record else None
    if pieces is None:
        return _cut_libraries(host, posixpath.join(site, "torch/lib"))
    looked_at: list[tuple[bytes, bytes]] = []
    locked: list[DamagedFile] = []
    for piece in map(_without_headers, pieces):
        looked_at += re.findall(_LOOKED_AT, piece)
        locked += locked_programs(host, site, programs_in(piece))
    return (*islice(_damage(host, site, looked_at[:_MOST_FILES]), _MOST_REPORTED), *locked)


def _without_headers(piece: bytes) -> bytes:
    """The lines, each behind a line feed, without torch's headers, two of its three: no program needs them, and a
    folder's files stand together."""
    lines = b"\n" + piece
    first = lines.find(_HEADERS)
    if first < 0:
        return lines
    _, _, after = lines[lines.rfind(_HEADERS) + 1 :].partition(b"\n")
    return b"\n".join((lines[:first], after))


def _damage(host: Host, site: str, looked_at: Iterable[tuple[bytes, bytes]]) -> Iterator[DamagedFile]:
    listing = FolderNames(host)
    for name, size in looked_at:
        problem = _problem(host, listing, posixpath.join(site, name.decode("utf-8", "replace")), int(size))
        if problem is not None:
            yield problem


def _problem(host: Host, listing: FolderNames, path: str, size: int) -> DamagedFile | None:
    found = host.stat(path)
    if found.value is None:
        return DamagedFile(path=path, problem="missing") if _is_gone(listing, path, found) else None
    if found.value.kind != "file":
        return DamagedFile(path=path, problem="missing")
    actual = found.value.size
    if actual == 0:
        return DamagedFile(path=path, problem="truncated")
    if path.endswith(".py"):
        return None if actual == size else DamagedFile(path=path, problem="changed")
    if actual < size and ends_early(host, path):
        return DamagedFile(path=path, problem="truncated")
    return None if actual == size else DamagedFile(path=path, problem="changed")


def _is_gone(listing: FolderNames, path: str, found: Fact[FileStat]) -> bool:
    """Whether a file that was not found is certainly missing, by the listing of its folder."""
    folder, name = posixpath.split(path)
    names = listing.names(folder)
    if names is None:
        return False
    if name in names:
        return found.absent  # a link that leads nowhere
    return not (name.endswith(".py") and name + "c" in names)  # an image that ships bytecode only


def _cut_libraries(host: Host, folder: str) -> tuple[DamagedFile, ...]:
    """Libraries that end before what their own header promises, where there is no RECORD."""
    names = (name for name in host.names(folder).value or () if ".so" in name)
    paths = (posixpath.join(folder, name) for name in names)
    return tuple(DamagedFile(path=path, problem="truncated") for path in paths if ends_early(host, path))[
        :_MOST_REPORTED
    ]
