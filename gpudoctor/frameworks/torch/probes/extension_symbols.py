"""Symbols of torch that compiled extensions need, and that the installed torch does not define."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from gpudoctor.codeobjects.symbols import SymbolHash, needed_symbols, symbol_hash
from gpudoctor.dependencies import parsed
from gpudoctor.frameworks.torch.nvidia_wheels import stem_of
from gpudoctor.host import Host
from gpudoctor.machine import Distribution, Torch
from gpudoctor.probes.elf_files import ask_elf
from gpudoctor.probes.library_search import Asker

_OF_TORCH = re.compile(r"_Z(?:T[ITVS])?N?[KVR]*(?:3c10|2at|5torch|6caffe2)\d|_Z\d+THP|(?:aoti_)?torch_[a-z]")
"""Names in torch's namespaces, of its Python objects and of its C interface."""
_MOST_NAMED = 3


def undefined_symbols(
    host: Host, torch: Torch, prefix: str, askers: Iterable[Asker], packages: tuple[Distribution, ...]
) -> dict[str, tuple[str, ...]]:
    """The symbols of torch that a library needs and torch does not define, by the path of the library. A package that
    pins this very torch is left out: it was built for it."""
    built_for_it = {one.name for one in packages if _pins(one, torch)}
    tables = _Tables(host, torch, prefix)
    suspects = (asker for asker in askers if asker.of_torch and asker.package not in built_for_it)
    return {asker.path: lacking for asker in suspects if (lacking := tables.lacking(asker))}


def _pins(package: Distribution, torch: Torch) -> bool:
    asked = (parsed(line) for line in package.requires)
    return any(one.specifier == f"=={torch.release}" for one in asked if one and one.name == "torch")


class _Tables:
    """The hash tables of torch's libraries, each read once."""

    def __init__(self, host: Host, torch: Torch, prefix: str) -> None:
        self._host = host
        self._folders = (posixpath.join(torch.path, "lib"), posixpath.join(prefix, "lib"))
        self._read: list[SymbolHash] | None = None

    def lacking(self, asker: Asker) -> tuple[str, ...]:
        """A few of the symbols that are defined nowhere; none if a table could not be read."""
        needed = self._needed(asker.path)
        tables = self._tables() if needed else []
        lacking = [name for name in needed if tables and not _defined(name, tables)]
        if lacking:
            others = list(self._others(asker))
            lacking = [name for name in lacking if not _defined(name, others)]
        return tuple(sorted(lacking)[:_MOST_NAMED])

    def _needed(self, path: str) -> list[str]:
        needed = ask_elf(self._host, path, lambda elf: list(needed_symbols(elf)))
        return [name for name in needed or () if _OF_TORCH.match(name)]

    def _tables(self) -> list[SymbolHash]:
        """The symbols of all of torch's libraries, in the wheel or in the prefix of conda; empty if one of them is
        unreadable."""
        if self._read is None:
            self._read = []
            for folder in self._folders:
                names = [name for name in self._host.names(folder).value or () if _is_of_torch(name)]
                tables = [self._table(posixpath.join(folder, name)) for name in names]
                if names:
                    found = [table for table in tables if table]
                    # Most symbols are in the largest one.
                    self._read = sorted(found, key=lambda one: -one.size) if len(found) == len(tables) else []
                    break
        return self._read

    def _others(self, asker: Asker) -> Iterator[SymbolHash]:
        """Libraries of its own package that it names: they may define such symbols, too."""
        folder = posixpath.dirname(asker.path)
        for name in asker.needed:
            if not _is_of_torch(name) and (table := self._table(posixpath.join(folder, name))):
                yield table

    def _table(self, path: str) -> SymbolHash | None:
        return ask_elf(self._host, path, SymbolHash)


def _is_of_torch(name: str) -> bool:
    return stem_of(name).startswith(("libtorch", "libc10")) and ".so" in name


def _defined(name: str, tables: list[SymbolHash]) -> bool:
    hashed = symbol_hash(name)
    return any(table.has(hashed) for table in tables)
