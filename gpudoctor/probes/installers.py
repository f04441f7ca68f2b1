"""What an install command meets: the tools at hand, their configuration, and whether the place can be written to.

Read only where something is to be installed: a healthy environment needs none of it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from gpudoctor.dependencies import parsed
from gpudoctor.host import Host
from gpudoctor.machine import Fact, Installers, InstallerSettings, PythonEnvironment, known, unknown
from gpudoctor.probes.distributions import JUDGED
from gpudoctor.probes.pip_settings import pip_settings
from gpudoctor.probes.python_layout import layout_of
from gpudoctor.probes.uv_settings import uv_settings

PROGRAMS = (
    "uv", "poetry", "pdm", "hatch", "pixi", "pip-compile", "conda", "mamba", "micromamba",
)  # fmt: skip
_WHEELS = ("torch", "torchvision", "torchaudio")
_MOST_WHEELS = 500


def probe_installers(host: Host, environment: PythonEnvironment, packages: Collection[str]) -> Installers:
    """What installing `packages`, and what these require, meets in an environment."""
    environ = host.environ
    folder = environment.project or host.working_folder() or "/"
    names = {*packages, *JUDGED, *_required(environment)}
    return Installers(
        pip=_with_wheels(host, pip_settings(host, environ, environment.prefix, folder, names), folder),
        uv=_with_wheels(host, uv_settings(host, environ, folder, names), folder),
        programs=_programs(host, environ.get("PATH", "")),
        ensurepip=_ensurepip(host, environment),
        writable=host.may_write(_package_folder(environment)),
        interpreter=_interpreter(host, environment.interpreter),
    )


def _required(environment: PythonEnvironment) -> set[str]:
    lines = (line for one in environment.distributions.value or () for line in one.requires)
    return {found.name for line in lines if (found := parsed(line))}


def _package_folder(environment: PythonEnvironment) -> str:
    own = (path for path in environment.site_packages if path.startswith(f"{environment.prefix.rstrip('/')}/"))
    return next(own, environment.prefix)


def _programs(host: Host, path: str) -> Fact[tuple[str, ...]]:
    if not host.live:
        return unknown("a recording does not tell")
    folders = [folder for folder in path.split(":") if folder.startswith("/")]
    return known(tuple(name for name in PROGRAMS if any(_runs(host, folder, name) for folder in folders)), "PATH")


def _runs(host: Host, folder: str, name: str) -> bool:
    found = host.stat(posixpath.join(folder, name)).value
    return found is not None and found.kind == "file" and bool(found.mode & 0o111)


def _ensurepip(host: Host, environment: PythonEnvironment) -> Fact[bool]:
    layout = layout_of(host, environment.interpreter) if environment.interpreter else None
    if layout is None or layout.python is None:
        return unknown("the interpreter's library was not found")
    folders = (posixpath.join(layout.base_prefix, lib, f"python{layout.python}") for lib in ("lib", "lib64"))
    path = next((folder for folder in folders if host.exists(posixpath.join(folder, "os.py"))), None)
    if path is None:
        return unknown("the interpreter's library was not found", layout.base_prefix)
    # Debian ships the package without the wheels that it installs, or leaves it out.
    path = posixpath.join(path, "ensurepip/__init__.py")
    return known(host.exists(path), path)


def _interpreter(host: Host, path: str) -> Fact[bool]:
    """Only of a live system: a recording need not hold it."""
    if not host.live or not path:
        return unknown("a recording does not tell")
    return known(host.resolve(path) is not None, path)


def _with_wheels(host: Host, settings: InstallerSettings, folder: str) -> InstallerSettings:
    if not settings.find_links and not settings.no_index:
        return settings
    return replace(settings, wheels=_wheels(host, settings.find_links, folder))


def _wheels(host: Host, places: Iterable[str], folder: str) -> tuple[str, ...] | None:
    found: list[str] = []
    for place in places:
        names = host.names(posixpath.join(folder, place.removeprefix("file://"))) if "://" not in place[5:] else None
        if names is None or names.value is None:
            return None
        found += [name for name in names.value if name.endswith(".whl") and name.partition("-")[0] in _WHEELS]
    return tuple(found[:_MOST_WHEELS])
