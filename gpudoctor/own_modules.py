"""Imports gpudoctor's own modules with half of the work that Python does for a module of anybody: a check needs two
hundred of them, and their imports last as long as all that it reads.

Python asks one finder after the other, and looks at the folder and at the source several times. Here the compiled
file beside the source is read at once. It counts if it is of the source's time and size, which is what Python
compares, too; in every other case Python's own loader does the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, LazyLoader
from marshal import loads
from types import CodeType, ModuleType

_HEAD = MAGIC_NUMBER + bytes(4)
"""Of a compiled file that is compared with its source by time and size."""
_LONGEST = 1 << 16
_LATE = ("msgspec.inspect", "msgspec.json")
"""What msgspec imports with itself, to describe types and to make schemas, and a check for people never uses."""


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        return _compiled(self.path) or super().get_code(fullname)


class OwnModules:
    """A finder for sys.meta_path, before all others."""

    _names: dict[str, frozenset[str]] = {}
    """What lies in each folder."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module or package below gpudoctor; nearly all others are left to the other finders."""
        if name in _LATE:
            return _late(name, path)
        if not path or not name.startswith("gpudoctor."):
            return None
        folder, last = path[0], name.rpartition(".")[2]
        if folder not in cls._names:
            cls._names[folder] = _listed(folder)
        if f"{last}.py" in cls._names[folder]:
            return _spec(name, f"{folder}{os.sep}{last}.py")
        if last not in cls._names[folder]:
            return None
        spec = _spec(name, f"{folder}{os.sep}{last}{os.sep}__init__.py")
        spec.submodule_search_locations = [f"{folder}{os.sep}{last}"]
        return spec


def install() -> None:
    """For the rest of this process."""
    if sys.implementation.cache_tag and not sys.flags.optimize and not sys.pycache_prefix:
        sys.meta_path.insert(0, OwnModules)


def _late(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """A module that is not executed before something of it is asked for."""
    spec = PathFinder.find_spec(name, path)
    if spec is not None and spec.loader is not None:
        spec.loader = LazyLoader(spec.loader)
    return spec


def _listed(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:  # it lies in an archive
        return frozenset()


def _spec(name: str, source: str) -> ModuleSpec:
    spec = ModuleSpec(name, _Loader(name, source), origin=source)
    spec.has_location = True
    spec.cached = _cached(source)
    return spec


def _cached(source: str) -> str:
    folder, _, name = source.rpartition(os.sep)
    return f"{folder}{os.sep}__pycache__{os.sep}{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"


def _compiled(source: str) -> CodeType | None:
    """The code of a source that was not changed since it was compiled, at the place where it lies."""
    try:
        descriptor = os.open(_cached(source), os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            content = os.read(descriptor, _LONGEST)
        finally:
            os.close(descriptor)
        found = os.stat(source)
    except OSError:
        return None
    stamp = b"".join((int(part) & 0xFFFFFFFF).to_bytes(4, "little") for part in (found.st_mtime, found.st_size))
    if content[:16] != _HEAD + stamp or len(content) == _LONGEST:
        return None
    code = loads(content[16:])
    return code if isinstance(code, CodeType) and code.co_filename == source else None
