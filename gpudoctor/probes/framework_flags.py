"""Flags in variables (XLA_FLAGS) that a framework does not know: its library holds the names of all that it knows."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from gpudoctor.codeobjects.bounded_file import NotReadable
from gpudoctor.codeobjects.elf import Elf
from gpudoctor.frameworks.variable_flags import file_of_flags, flags_in, name_of
from gpudoctor.host import Host
from gpudoctor.machine import RefusedFlag
from gpudoctor.matrix.rows.packages import FrameworkFlags
from gpudoctor.probes.elf_files import ask_elf

_CHUNK = 4 << 20
_MOST_FLAGS = 64
_LONGEST_NAME = 200


def refused_flags(
    host: Host, rows: Iterable[FrameworkFlags], site: str, environ: Mapping[str, str]
) -> tuple[RefusedFlag, ...]:
    """The flags in the variables of these rows that no library below `site` knows; none where it cannot be read."""
    found: list[RefusedFlag] = []
    for row in rows:
        value = environ.get(row.variable) or ""
        if (file := file_of_flags(value)) and (not posixpath.isabs(file) or host.stat(file).absent):
            found.append(RefusedFlag(row.variable, file, ""))
        flags = flags_in(value)[:_MOST_FLAGS]
        names = frozenset(map(name_of, flags))
        libraries = [posixpath.join(site, one) for one in row.libraries] if names else []
        path = next((one for one in libraries if host.exists(one)), None)
        unknown = _unknown(host, path, names) if path else frozenset()
        found += [RefusedFlag(row.variable, name, path or "") for name in sorted(unknown)]
    return tuple(found)


def _unknown(host: Host, path: str, names: Iterable[str]) -> frozenset[str]:
    """The names that do not stand in the constants of a library."""
    return ask_elf(host, path, lambda elf: _not_in(elf, names)) or frozenset()


def _not_in(elf: Elf, names: Iterable[str]) -> frozenset[str]:
    left = {name: re.compile(re.escape(name.encode()) + rb"(?![A-Za-z0-9_])") for name in names}
    for part in _constants(elf):
        left = {name: pattern for name, pattern in left.items() if not pattern.search(part)}
        if not left:
            break
    return frozenset(left)


def _constants(elf: Elf) -> Iterator[bytes]:
    section = elf.section(".rodata")
    if section is None or not section.size:
        raise NotReadable("no constants")
    end = section.offset + section.size
    for at in range(section.offset, end, _CHUNK):
        yield elf.file.read(at, min(_CHUNK + _LONGEST_NAME, end - at))
