"""Modules that Python imports in place of those that a framework needs: a queue.py of one's own, a folder triton/.

sys.path begins with the folder of the program (or the working folder), then PYTHONPATH; the standard library and the
installed packages follow. Only the names of files are compared. A package with a record beside it is another install,
which other checks judge.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from gpudoctor.dependencies import normalised
from gpudoctor.host import Host
from gpudoctor.machine import WORKING_FOLDER, Fact, FrameworkFiles, ShadowingModule, Torch
from gpudoctor.matrix.rows.packages import ImportedModules
from gpudoctor.matrix.versions import package_matches
from gpudoctor.probes.import_path import Folder
from gpudoctor.probes.python_layout import standard_folders
from gpudoctor.probes.surroundings import Surroundings

_MOST = 20


def shadowing_modules(
    around: Surroundings, torch: Fact[Torch], others: Iterable[FrameworkFiles], rows: Iterable[ImportedModules]
) -> tuple[ShadowingModule, ...]:
    """The first 20 of them, in the order of sys.path, each for the first framework that loads it."""
    frameworks = [*(("torch",) if torch.value else ()), *(one.name for one in others)]
    wanted: dict[str, ImportedModules] = {}
    tried: dict[str, ImportedModules] = {}
    for row in sorted(rows, key=lambda row: frameworks.index(row.framework) if row.framework in frameworks else 0):
        fits = row.framework in frameworks and not (
            row.torch and torch.value and not package_matches(row.torch, torch.value.version)
        )
        for name in row.modules if fits else ():
            (tried if row.tried else wanted).setdefault(name, row)
    if not frameworks:
        return ()
    return tuple(one for one, _ in zip(_found(around, wanted, tried), range(_MOST), strict=False))


def _found(
    around: Surroundings, wanted: dict[str, ImportedModules], tried: dict[str, ImportedModules]
) -> Iterator[ShadowingModule]:
    folders = (*_working_folder(around), *around.path.folders)
    first = around.environ.get("PYTHONPATH", "").split(":")
    for place, folder in enumerate(folders):
        stems = {name.partition(".")[0] for name in folder.names}
        names = stems & (wanted.keys() | tried.keys())
        before_library = folder.via in (WORKING_FOLDER, "PYTHONPATH") or folder.path in first
        for name in sorted(names):
            row = wanted.get(name) or tried[name]
            if row.standard and not before_library:
                continue
            path = provider(around.host, folder, name)
            if path is None:
                continue
            further = folders[place + 1 :]
            hidden = (
                _in_standard_library(around, folder, name)
                if row.standard
                else _behind(around, folder, further, name, row.package or name)
            )
            if hidden is None and name in tried and before_library and _is_own(around, folder, further, name):
                row, hidden = tried[name], ""
            if hidden is not None:
                yield ShadowingModule(
                    name=name,
                    path=path,
                    via=folder.via,
                    hides=hidden,
                    standard=row.standard,
                    at_import=row.at_import,
                    framework=row.framework,
                )


def _working_folder(around: Surroundings) -> tuple[Folder, ...]:
    """Where programs are likely to be started: PYTHONSAFEPATH keeps Python from importing from there."""
    here = around.host.working_folder()
    known = {folder.path for folder in around.path.folders}
    if here is None or here in known or around.environ.get("PYTHONSAFEPATH"):
        return ()
    names = around.host.names(here).value
    return (Folder(path=here, via=WORKING_FOLDER, names=frozenset(names)),) if names else ()


def provider(host: Host, folder: Folder, name: str) -> str | None:
    """What Python imports by that name from a folder; a folder without __init__.py gives way to any module."""
    if name in folder.names:
        package = posixpath.join(folder.path, name)
        if any(host.exists(posixpath.join(package, begin)) for begin in ("__init__.py", "__init__.pyc")):
            return package
    for ending in (".py", ".pyc", ".so", ".abi3.so"):
        if name + ending in folder.names:
            return posixpath.join(folder.path, name + ending)
    return None


def _in_standard_library(around: Surroundings, folder: Folder, name: str) -> str | None:
    """The module's file there; None if it is compiled into the interpreter, which takes precedence over any file."""
    for library in _standard_folders(around):
        if around.host.resolve(library) == around.host.resolve(folder.path):
            return None
        for path in (f"{library}/{name}.py", f"{library}/{name}/__init__.py"):
            if around.host.exists(path):
                return path
        compiled = f"{library}/lib-dynload"
        for entry in around.host.names(compiled).value or ():
            if entry.startswith(f"{name}.") and entry.endswith(".so"):
                return posixpath.join(compiled, entry)
    return None


def _standard_folders(around: Surroundings) -> Iterator[str]:
    """Below the prefix that pyvenv.cfg names, which may be gone, and below that of the interpreter itself."""
    real = around.host.resolve(around.layout.interpreter)
    own = (posixpath.dirname(posixpath.dirname(real)),) if real else ()
    for prefix in dict.fromkeys((around.layout.base_prefix, *own)):
        yield from standard_folders(prefix, around.layout.python)


def _is_own(around: Surroundings, folder: Folder, further: tuple[Folder, ...], name: str) -> bool:
    """Whether a module that no installed package has is somebody's own file: no install, and no checkout of that
    package."""
    installed = any(normalised(one.partition("-")[0]) == normalised(name) for one in folder.names if "-" in one)
    checkout = name in folder.names and not folder.names.isdisjoint(("pyproject.toml", "setup.py"))
    elsewhere = any(provider(around.host, later, name) for later in further)
    return not (installed or checkout or elsewhere)


def _behind(around: Surroundings, folder: Folder, further: tuple[Folder, ...], name: str, package: str) -> str | None:
    """The installed package that a module stands before; None if it was installed itself."""
    records = (record.partition("-")[0] for record in folder.names if record.endswith((".dist-info", ".egg-info")))
    if not further or normalised(package) in {normalised(record.removesuffix(".egg")) for record in records}:
        return None
    return next((path for later in further if (path := provider(around.host, later, name))), None)
