"""What steers frameworks beside their own files: Keras's settings in a home folder, and folders that are left."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from gpudoctor.host import Host
from gpudoctor.machine import FileSetting, InterruptedInstall
from gpudoctor.matrix.rows.packages import Framework
from gpudoctor.probes.import_path import ImportPath

_LIMIT = 16 << 10


class _KerasSettings(msgspec.Struct):
    backend: str = ""


def keras_settings(host: Host, environ: Mapping[str, str]) -> tuple[FileSetting, ...]:
    """The backend in keras.json, which Keras 3 writes when it is imported first; KERAS_BACKEND takes precedence."""
    home = environ.get("HOME") or ""
    folder = environ.get("KERAS_HOME") or (posixpath.join(home, ".keras") if home else "")
    path = posixpath.join(folder, "keras.json")
    text = host.text(path, _LIMIT).value if posixpath.isabs(path) else None
    try:
        backend = msgspec.json.decode(text or "{}", type=_KerasSettings).backend
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
    return (FileSetting("KERAS_BACKEND", backend, path),) if backend else ()


def left_folders(
    host: Host, path: ImportPath, rows: Iterable[Framework], installed: AbstractSet[str]
) -> Iterator[InterruptedInstall]:
    """Frameworks that are not installed, and of which a folder without its first file is left: Python imports it as
    an empty module."""
    modules = {row.module.partition(".")[0]: row.packages for row in rows if installed.isdisjoint(row.packages)}
    for site in path.folders:
        for module in modules.keys() & site.names if site.path in path.site_packages else ():
            folder = posixpath.join(site.path, module)
            names = host.names(folder).value
            if names and not any(name.startswith("__init__.") for name in names):
                yield InterruptedInstall(modules[module][0], "", folder)
