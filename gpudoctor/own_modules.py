"""Imports gpudoctor's own modules with half of the work that Python does for a module of anybody: a check needs two
hundred of them, and their imports last as long as all that it reads.

Python asks one finder after the other, and looks at the folder and at the source several times. Here the compiled
file beside the source is read at once. It counts if it is of the source's time and size, which is what Python
compares, too; in every other case Python's own finders do the work.
"""

from __future__ import annotations

import os
import sys
import typing
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, LazyLoader
from marshal import loads
from types import CodeType, ModuleType

_HEAD = MAGIC_NUMBER + bytes(4)
"""The flags of a compiled file that Python compares with its source by time and size."""
_LONGEST, _WORD = 1 << 16, 0xFFFFFFFF
_LATE = ("msgspec.inspect", "msgspec.json")
"""What msgspec imports with itself, to describe types and to make schemas, and a check for people never uses."""
_STAND_INS = {
    "datetime": {name: value for name, value in vars(import_module("_datetime")).items() if name[0] != "_"},
    "decimal": {"Decimal": type("Decimal", (), {})},
    "uuid": {"UUID": type("UUID", (), {}), "SafeUUID": type("SafeUUID", (), {"unknown": None})},
}
"""What msgspec asks of three modules, for types that no record of ours has. With all that they import in turn they
last as long as a twentieth of a static check."""


class _OwnModule(ModuleType):
    """Says without an exception what it lacks. Each `from ... import` asks for `__path__`, fifteen hundred times in a
    check, and Python 3.11 and older write a message for every module that has none."""

    __getattribute__ = object.__getattribute__


class _Loader(SourceFileLoader):
    def __init__(self, name: str, source: str, code: CodeType) -> None:
        super().__init__(name, source)
        self._code = code

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None if "__getattr__" in self._code.co_names else _OwnModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, vars(module))
        del self._code  # what it holds beside functions and classes is never asked for again


class OwnModules:
    """A finder for sys.meta_path, before all others."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A compiled module or package below gpudoctor; all others are left to the other finders."""
        if name in _LATE:
            return _late(name, path)
        if not path or not name.startswith("gpudoctor."):
            return None
        place = f"{path[0]}{os.sep}{name.rpartition('.')[2]}"
        return _spec(name, f"{place}.py") or _spec(name, f"{place}{os.sep}__init__.py", folders=[place])


def install() -> None:
    """For the rest of this process."""
    if sys.implementation.cache_tag and not sys.flags.optimize and not sys.pycache_prefix:
        sys.meta_path.insert(0, OwnModules)
    _import_msgspec()


class _StandIn(ModuleType):
    """Takes the place of a module while msgspec is imported, and asks the module itself for what it lacks."""

    def __getattr__(self, name: str) -> object:
        del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _import_msgspec() -> None:
    absent = _STAND_INS.keys() - sys.modules.keys()
    stand_ins = {name: _StandIn(name) for name in absent}
    for name, stand_in in stand_ins.items():
        vars(stand_in).update(_STAND_INS[name])
    sys.modules.update(stand_ins)
    forward_ref = typing.ForwardRef
    # msgspec makes one to try whether it takes `is_class`, which it does not in Python 3.10.0 to 3.10.2. With the
    # first text that is compiled, Python makes all classes of `ast`.
    if "is_class" in (forward_ref.__init__.__kwdefaults__ or {}):
        vars(typing).update(ForwardRef=lambda *_, **__: None)
    try:
        import_module("msgspec")
    finally:  # whoever imports them later gets the modules themselves
        vars(typing).update(ForwardRef=forward_ref)
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


def _late(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """A module that is not executed before something of it is asked for."""
    spec = PathFinder.find_spec(name, path)
    if spec is not None and spec.loader is not None:
        spec.loader = LazyLoader(spec.loader)
    return spec


def _spec(name: str, source: str, folders: list[str] | None = None) -> ModuleSpec | None:
    code = _compiled(source)
    if code is None:
        return None
    spec = ModuleSpec(name, _Loader(name, source, code), origin=source)
    spec.has_location = True
    spec.cached = _cached(source)
    spec.submodule_search_locations = folders
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
    stamp = (int(found.st_mtime) & _WORD) | (found.st_size & _WORD) << 32
    if content[:16] != _HEAD + stamp.to_bytes(8, "little") or len(content) == _LONGEST:
        return None
    code = loads(memoryview(content)[16:])
    return code if isinstance(code, CodeType) and code.co_filename == source else None
