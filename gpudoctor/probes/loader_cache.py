"""Where the dynamic loader looks besides LD_LIBRARY_PATH: ld.so.cache, ld.so.conf, default folders."""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Iterable
from fnmatch import fnmatchcase

from gpudoctor.host import Host

CACHE = "/etc/ld.so.cache"
CONFIGURATION = "/etc/ld.so.conf"
CACHE_LIMIT = 1 << 24

# Layout from glibc's dl-cache.h: header of 48 bytes, entries of 24 bytes; offsets of names count from the header.
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sIIB3xI12x")
_ENTRY = struct.Struct("<iIIIQ")
_ENTRY_LIMIT = 1 << 18
# Flags of 64-bit libraries by architecture.
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03}
_MAX_INCLUDES = 64

_TRIPLETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


def cached_paths(content: bytes, names: Iterable[str], arch: str | None) -> dict[str, tuple[str, ...]] | None:
    """The cache's paths for these names, first choice first; None if it is no readable cache."""
    start = content.find(_MAGIC)
    if start < 0 or len(content) < start + _HEADER.size:
        return None
    count = _HEADER.unpack_from(content, start)[1]
    first = start + _HEADER.size
    if count > _ENTRY_LIMIT or first + count * _ENTRY.size > len(content):
        return None
    offsets = {offset: name for name in names for offset in _offsets(content, start, name)}
    wanted = _FLAGS.get(arch or "")
    found: dict[str, list[str]] = {}
    entries = memoryview(content)[first : first + count * _ENTRY.size]
    for flags, key, value, _, features in _ENTRY.iter_unpack(entries):
        name = offsets.get(key)
        # Entries that require processor features are left out: drivers have none.
        if name is None or features or (wanted is not None and flags != wanted):
            continue
        path = _text(content, start + value)
        if path.startswith("/"):
            found.setdefault(name, []).append(path)
    return {name: tuple(paths) for name, paths in found.items()}


def _offsets(content: bytes, start: int, name: str) -> list[int]:
    """Every place where that name begins: a name may be the end of a path, so the entries' keys decide."""
    needle = name.encode() + b"\0"
    places: list[int] = []
    place = content.find(needle, start)
    while place >= 0:
        places.append(place - start)
        place = content.find(needle, place + 1)
    return places


def _text(content: bytes, place: int) -> str:
    end = content.find(b"\0", place, place + 4096)
    return content[place:end].decode("utf-8", "replace") if 0 <= place < end else ""


def configured_folders(host: Host) -> tuple[str, ...]:
    """Folders of /etc/ld.so.conf and the files that it includes, in order."""
    folders: list[str] = []
    todo = [CONFIGURATION]
    seen: set[str] = set()
    while todo and len(seen) < _MAX_INCLUDES:
        path = todo.pop(0)
        if path in seen:
            continue
        seen.add(path)
        for line in (host.text(path).value or "").splitlines():
            words = line.partition("#")[0].split()
            if not words or words[0] == "hwcap":
                continue
            if words[0] == "include":
                todo = [file for pattern in words[1:] for file in _glob(host, pattern)] + todo
            else:
                entries = re.split(r"[:,\s]+", line.partition("#")[0].strip())
                folders += [entry.partition("=")[0].rstrip("/") or "/" for entry in entries if entry.startswith("/")]
    return tuple(dict.fromkeys(folders))


def _glob(host: Host, pattern: str) -> list[str]:
    """`include` with a relative pattern counts from /etc; the wildcard is in the last part."""
    folder, last = posixpath.split(posixpath.join("/etc", pattern))
    return [posixpath.join(folder, name) for name in host.names(folder).value or () if fnmatchcase(name, last)]


def default_folders(arch: str | None) -> tuple[str, ...]:
    """The loader's built-in folders: Debian's with the triplet, Red Hat's lib64, everybody's lib."""
    triplets = [_TRIPLETS[arch]] if arch in _TRIPLETS else list(_TRIPLETS.values())
    inner = [f"{top}/lib/{triplet}" for triplet in triplets for top in ("", "/usr")]
    return (*inner, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
