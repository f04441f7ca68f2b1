"""Versions of rpm packages, from rpm's own SQLite database."""

from __future__ import annotations

import re
import struct
from contextlib import closing
from typing import TYPE_CHECKING

from gpudoctor.host import Host
from gpudoctor.machine import Fact, absent, known, unknown

if TYPE_CHECKING:
    from sqlite3 import Connection

DATABASES = ("/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite")
_OTHERS = ("/var/lib/rpm/Packages", "/var/lib/rpm/Packages.db", "/usr/lib/sysimage/rpm/Packages.db")
"""Older forms of the database, which only rpm itself reads."""

_VERSION, _RELEASE = 1001, 1002
_STRING = 6
_MOST_ENTRIES = 10_000
_MOST_WORK = 50_000_000
"""Instructions of SQLite's machine: a database may come from a stranger."""


def rpm_version(host: Host, pattern: str) -> Fact[str]:
    """Version and release of the first installed package whose name matches `pattern` (a regular expression)."""
    for path in DATABASES:
        file = host.open_binary(path)
        if file is None:
            continue
        with file:
            return _from_database(path, file.fileno(), pattern)
    other = next((path for path in _OTHERS if host.exists(path)), None)
    if other:
        return unknown("only rpm itself reads this form of its database", other)
    return unknown("no rpm database")


def _from_database(path: str, descriptor: int, pattern: str) -> Fact[str]:
    import sqlite3

    # The open file, so that a recorded folder is read, and no journal is written beside it.
    address = f"file:/proc/self/fd/{descriptor}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.set_progress_handler(lambda: True, _MOST_WORK)
            return _version_in(database, path, pattern)
    except (sqlite3.Error, struct.error, TypeError, ValueError) as error:
        return unknown(f"cannot be read: {error}", path)


def _version_in(database: Connection, path: str, pattern: str) -> Fact[str]:
    for name, number in database.execute("SELECT key, hnum FROM Name ORDER BY key"):
        if isinstance(name, str) and re.fullmatch(pattern, name):
            (header,) = database.execute("SELECT blob FROM Packages WHERE hnum = ?", (number,)).fetchone()
            fields = _strings(header)
            return known(f"{fields[_VERSION]}-{fields[_RELEASE]}", path)
    return absent(path, "not installed")


def _strings(header: bytes) -> dict[int, str]:
    """Version and release of a header: counts, index entries (tag, type, offset, count), data."""
    entries, size = struct.unpack_from(">II", header)
    if entries > _MOST_ENTRIES:
        raise ValueError("a header with too many entries")
    start = 8 + 16 * entries
    data = header[start : start + size]
    found = {}
    for number in range(entries):
        tag, kind, offset, _ = struct.unpack_from(">IIII", header, 8 + 16 * number)
        if tag in (_VERSION, _RELEASE) and kind == _STRING:
            found[tag] = data[offset : data.index(b"\0", offset)].decode("ascii", "replace")
    if len(found) < 2:
        raise ValueError("a header without version and release")
    return found
