"""Symbols that libraries need of each other, where these are not the ones that torch was built with."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec.structs import replace

from gpudoctor.codeobjects.symbols import provided_symbols, symbols_needed_of
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, stem_of
from gpudoctor.frameworks.torch.probes.libraries import LibraryWalk, read_elf
from gpudoctor.host import Host
from gpudoctor.machine import LoadPath, MissingSymbols
from gpudoctor.probes.elf_files import ask_elf

_MOST_NAMED = 3


def missing_symbols(
    host: Host, walk: LibraryWalk, foreign: LoadPath, mixed: frozenset[str], dispatchers: dict[str, tuple[str, ...]]
) -> tuple[MissingSymbols, ...]:
    """Missing symbols: a library from outside, or one of the wheels in `mixed`, lacks what others need of it, or they
    lack what it needs."""
    return tuple(_Symbols(host, walk, foreign, mixed).missing(dispatchers))


def without_unloadable(
    walk: LibraryWalk, foreign: LoadPath, missing: tuple[MissingSymbols, ...]
) -> tuple[LoadPath, tuple[MissingSymbols, ...]]:
    """The same without libraries that the wheels do not have and that cannot be loaded beside them: nothing takes
    their place."""
    extra = {one.path for one in foreign.found if (asked := walk.of(one.name)) and asked.path is None}
    out = extra.intersection(one.needed_by for one in missing)
    found = tuple(one for one in foreign.found if one.path not in out)
    return replace(foreign, found=found), tuple(one for one in missing if one.needed_by not in out)


class _Symbols:
    def __init__(self, host: Host, walk: LibraryWalk, foreign: LoadPath, mixed: frozenset[str]) -> None:
        self._host = host
        self._walk = walk
        self._mixed = mixed
        self._foreign = {one.name: one.path for one in foreign.found if one.wins}
        self._own = {asked.name: asked.path for asked in walk.asked if asked.path}
        self._chosen = {**self._own, **self._foreign}
        self._late = {asked.name for asked in walk.asked if asked.late}
        self._provided = lru_cache(maxsize=None)(self._read_provided)

    def missing(self, dispatchers: dict[str, tuple[str, ...]]) -> Iterator[MissingSymbols]:
        for path, name in self._pairs():
            if self._is_suspect(name) or self._is_suspect(posixpath.basename(path)):
                yield from self._report(name, path, self._needed(path, name), (name,))
        for name in self._chosen:
            yield from self._undispatched(name, dispatchers.get(stem_of(name), ()))

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Every library that is loaded, with each GPU library that it needs."""
        for path, needs in self._walk.needs.items():
            name = posixpath.basename(path)
            taken = self._foreign.get(name, path)
            heads = read_elf(self._host, taken) if taken != path else None
            for needed in heads.needed if heads else needs:
                if distribution_of(needed) and needed in self._chosen:
                    yield taken, needed
        for name, path in self._foreign.items():
            if name not in self._own:
                heads = read_elf(self._host, path)
                yield from ((path, needed) for needed in (heads.needed if heads else ()) if needed in self._own)

    def _is_suspect(self, name: str) -> bool:
        return name in self._foreign or distribution_of(name) in self._mixed

    def _undispatched(self, name: str, stems: tuple[str, ...]) -> Iterator[MissingSymbols]:
        """Functions that a dispatcher would call and that none of the libraries has."""
        called = [each for each in self._chosen if stem_of(each) in stems]
        replaced = [each for each in called if each in self._foreign]
        if not replaced:
            return
        prefix = stem_of(name).removeprefix("lib")
        own = frozenset(symbol for symbol in self._provided(name) or () if symbol.startswith(prefix))
        first = min(replaced, key=lambda each: stems.index(stem_of(each)))
        yield from self._report(first, self._chosen[name], own, called)

    def _report(
        self, name: str, needed_by: str, needed: frozenset[str], providers: Iterable[str]
    ) -> Iterator[MissingSymbols]:
        """What is needed and none of `providers` has; nothing if one of them could not be read."""
        found = [self._provided(provider) for provider in providers] if needed else []
        lacking = needed.difference(*(symbols for symbols in found if symbols is not None))
        if lacking and None not in found:
            late = name in self._late or posixpath.basename(needed_by) in self._late
            yield MissingSymbols(
                library=name,
                path=self._chosen[name],
                needed_by=needed_by,
                symbols=tuple(sorted(lacking)[:_MOST_NAMED]),
                late=late,
            )

    def _read_provided(self, name: str) -> frozenset[str] | None:
        return ask_elf(self._host, self._chosen[name], provided_symbols)

    def _needed(self, path: str, name: str) -> frozenset[str]:
        return ask_elf(self._host, path, lambda elf: symbols_needed_of(elf, name)) or frozenset()
