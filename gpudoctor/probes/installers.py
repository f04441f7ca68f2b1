"""What an install command meets: the tools at hand, their configuration, and whether the place can be written to.

Read only where something is to be installed: a healthy environment needs none of it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from gpudoctor.dependencies import parsed
from gpudoctor.host import Host
from gpudoctor.machine import Fact, Installers, InstallerSettings, PythonEnvironment, known, unknown
from gpudoctor.probes.distributions import JUDGED
from gpudoctor.probes.pip_settings import pip_settings
from gpudoctor.probes.python_layout import layout_of, standard_folders
from gpudoctor.probes.search_path import on_path
from gpudoctor.probes.uv_settings import uv_settings

PROGRAMS = (
    "uv", "poetry", "pdm", "pipenv", "hatch", "pixi", "pip-compile", "conda", "mamba", "micromamba",
)  # fmt: skip
_OF_PIP = "pip._internal.cli.main, pip._internal.commands.install, pip._internal.commands.uninstall"
_PIP_SECONDS = 20.0
_MOST_WHEELS = 5000


def probe_installers(
    host: Host, environment: PythonEnvironment, packages: Collection[str], *, commands: bool
) -> Installers:
    """What installing `packages`, and what these require, meets in an environment; with `commands` its pip is
    tried."""
    environ = host.environ
    folder = environment.project or host.working_folder() or "/"
    names = {*packages, *JUDGED, *_required(environment)}
    pip_fails = _error_of_pip(host, environment) if commands else ""
    return Installers(
        pip=with_wheels(host, pip_settings(host, environ, environment.prefix, folder, names), folder),
        uv=with_wheels(host, uv_settings(host, environ, folder, names), folder),
        programs=_programs(host),
        ensurepip=_ensurepip(host, environment),
        writable=host.may_write(_package_folder(environment)),
        interpreter=_interpreter(host, environment.interpreter),
        pip_fails=pip_fails,
        pip_files=_files_of_pip(host, environment) if pip_fails else (),
        links=_links_to_nowhere(host, environment),
    )


def _error_of_pip(host: Host, environment: PythonEnvironment) -> str:
    """How the import of pip's own modules ends, without what variables and a configuration put in its way."""
    if not host.live or not environment.has_pip or not environment.interpreter or environment.start_faults:
        return ""
    ran = host.run((environment.interpreter, "-I", "-B", "-c", f"import {_OF_PIP}"), _PIP_SECONDS).value
    said = ran.stderr.strip() if ran is not None and ran.rc == 1 else ""
    return said.splitlines()[-1].strip() if re.search(r"/pip/|No module named 'pip", said) else ""


def _files_of_pip(host: Host, environment: PythonEnvironment) -> tuple[str, ...]:
    """Only those in the environment's own folder of packages."""
    folder = _package_folder(environment)
    names = host.names(folder).value or ()
    own = (name for name in names if name == "pip" or re.fullmatch(r"pip-[\d.\w]+\.dist-info", name))
    return tuple(posixpath.join(folder, name) for name in sorted(own))


def _links_to_nowhere(host: Host, environment: PythonEnvironment) -> dict[str, tuple[str, ...]]:
    """For each package of which files are gone, the links in their place and above them that lead nowhere."""
    torch = environment.torch.value
    gone = {one.name: [file.path for file in one.damaged] for one in environment.packages}
    gone["torch"] = [*gone.get("torch", ()), *(file.path for file in (torch.damaged if torch else ()))]
    folder = _package_folder(environment)
    for name in JUDGED & {one.name for one in environment.packages}:
        gone.setdefault(name, []).append(posixpath.join(folder, name, "__init__.py"))
    found = {}
    for name, paths in gone.items():
        places = dict.fromkeys(place for path in paths for place in _places(path, folder))
        if links := tuple(path for path in places if host.link(path) and host.stat(path).absent):
            found[name] = links
    return found


def _places(path: str, folder: str) -> Iterable[str]:
    """The folders between the folder of packages and a file, the outermost first, and the file's own."""
    parts = path.removeprefix(f"{folder}/").split("/") if path.startswith(f"{folder}/") else []
    return (posixpath.join(folder, *parts[:number]) for number in range(1, len(parts) + 1))


def _required(environment: PythonEnvironment) -> set[str]:
    lines = (line for one in environment.packages for line in one.requires)
    return {found.name for line in lines if (found := parsed(line))}


def _package_folder(environment: PythonEnvironment) -> str:
    own = (path for path in environment.site_packages if path.startswith(f"{environment.prefix.rstrip('/')}/"))
    return next(own, environment.prefix)


def _programs(host: Host) -> Fact[tuple[str, ...]]:
    if not host.live:
        return unknown("a recording does not tell")
    return known(tuple(name for name in PROGRAMS if on_path(host, name)), "PATH")


def _ensurepip(host: Host, environment: PythonEnvironment) -> Fact[bool]:
    layout = layout_of(host, environment.interpreter) if environment.interpreter else None
    if layout is None or layout.python is None:
        return unknown("the interpreter's library was not found")
    folders = standard_folders(layout.base_prefix, layout.python)
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


def with_wheels(host: Host, settings: InstallerSettings, folder: str) -> InstallerSettings:
    """The settings with the wheels in the folders that they name."""
    if not settings.find_links and not settings.no_index:
        return settings
    return replace(settings, wheels=_wheels(host, settings.find_links, folder))


def _wheels(host: Host, places: Iterable[str], folder: str) -> tuple[str, ...] | None:
    found: list[str] = []
    for place in places:
        names = host.names(posixpath.join(folder, place.removeprefix("file://"))) if "://" not in place[5:] else None
        if names is None or names.value is None:
            return None
        found += [name for name in names.value if name.endswith(".whl")]
    return tuple(found) if len(found) <= _MOST_WHEELS else None
