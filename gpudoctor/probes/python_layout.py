"""Which interpreter is examined, and how its prefix is laid out, from files and links alone.

An interpreter finds its prefix as CPython's getpath does: a pyvenv.cfg beside the name it was called by makes it a
venv. Without one, links are followed to the real file, and its folder decides.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from gpudoctor.host import Host, InputError
from gpudoctor.machine import EnvironmentKind
from gpudoctor.matrix.versions import figures

_PYTHON_NAME = r"(?:python|pypy)(?:\d+(?:\.\d+)*t?)?$"
_VERSIONED = r"python(\d+\.\d+t?)$"
_NUMBER = r"\d+\.\d+"
_DISTRIBUTION_PYTHONS = ("/usr/local/bin/python3", "/usr/bin/python3", "/usr")
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
_TOOL_MARKS = ("uv-receipt.toml", "pipx_metadata.json")
_LIBS = ("lib", "lib64")
_SHEBANG = r"""#!\s*(/\S+/python[\w.]*)|#!/bin/sh\n'''exec' "?(/[^"\n]+/python[\w.]*)"""
"""The line that names the interpreter; the second form is for long paths, and those with spaces."""
_VERSION_FILE_LIMIT = 4096
_LAYERS = "_uv_ephemeral_overlay.pth"
_LAYER = r"""site\.addsitedir\((?:__import__\("os"\)\.fsdecode\(b)?"(/[^"\\]+)\""""


class Layout(Struct, frozen=True):
    """An interpreter and its prefixes; `python` is "3.12" or "3.13t", None if no file tells."""

    interpreter: str
    prefix: str
    base_prefix: str
    python: str | None
    kind: EnvironmentKind
    config: dict[str, str] = field(default_factory=dict)
    """pyvenv.cfg, keys in lower case."""

    @property
    def system_site(self) -> bool:
        """Whether this is a venv that also sees the packages of its base."""
        return self.config.get("include-system-site-packages", "").lower() == "true"


def find_layout(host: Host, python: str | None, environ: Mapping[str, str]) -> Layout | None:
    """The layout of `python`, or of the host's active environment; None if a host has no Python. Raises InputError if
    `python` is no Python environment."""
    if python is not None:
        return _given_layout(host, python, environ)
    return next((layout for path in _active(host, environ) if (layout := layout_of(host, path))), None)


def _given_layout(host: Host, given: str, environ: Mapping[str, str]) -> Layout:
    path = posixpath.abspath(posixpath.expanduser(given))
    layout = layout_of(host, behind_shim(host, path, environ) or path)
    if layout is not None:
        return layout
    inner = posixpath.join(path, ".venv")
    if host.exists(posixpath.join(inner, "pyvenv.cfg")):
        raise InputError(f"--python {given}: a folder with an environment in it; name {inner}")
    if not host.exists(path):
        raise InputError(f"--python {given}: no such file or folder")
    if versions := _wanted_of_pyenv(host, path, environ):
        raise InputError(
            f"--python {given}: a shim of pyenv, which has no {posixpath.basename(path)} in "
            f"{' or '.join(versions)}; `pyenv versions` lists what it has"
        )
    raise InputError(f"--python {given}: not an interpreter, a venv or a conda prefix")


def gone_active(host: Host, environ: Mapping[str, str]) -> str:
    """The environment that the shell counts as active, where that was deleted, moved or renamed; else ""."""
    named = (environ.get(name, "") for name in _ACTIVE)
    folder = next(filter(None, named), "")
    return folder if posixpath.isabs(folder) and host.stat(folder).absent else ""


def _active(host: Host, environ: Mapping[str, str]) -> Iterator[str]:
    """Places to look at, in order of precedence."""
    for name in _ACTIVE:
        if environ.get(name):
            yield _below_layers(host, environ[name]) or environ[name]
    own = sys.prefix if host.live else ""
    if host.live:
        yield from _of_working_folder(host)
        if not in_tool(host, environ):
            yield sys.executable or own
            return
    # A tool's runner puts the tool's own environment on PATH; the person works with another one.
    yield from (path for path in _on_path(host, environ) if not own or not _inside(path, own))
    yield from _DISTRIBUTION_PYTHONS


def _below_layers(host: Host, prefix: str) -> str:
    """The environment over which `uv run --with` laid others for one run, unless one of these brings torch."""
    below = _read_config(host, posixpath.join(prefix, "pyvenv.cfg")).get("extends-environment", "")
    for python in lib_folders(host, prefix) if below else ():
        text = host.text(posixpath.join(prefix, f"lib/python{python}/site-packages", _LAYERS)).value or ""
        if any(host.exists(posixpath.join(one, "torch")) for one in layers_of(text) if not _inside(one, below)):
            return ""
    return below


def layers_of(line: str) -> list[str]:
    """The folders of packages that a line of uv's own .pth file adds."""
    return re.findall(_LAYER, line) if line.startswith("import site") else []


def _of_working_folder(host: Host) -> Iterator[str]:
    """The project's .venv, as uv and editors use it; root uses none that another account could have written."""
    try:
        path = posixpath.join(os.getcwd(), ".venv")
    except OSError:  # the folder is gone
        return
    config = host.stat(posixpath.join(path, "pyvenv.cfg")).value
    folder = host.stat(path).value
    if config is not None and folder is not None and (os.geteuid() or config.uid == folder.uid == 0):
        yield path


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def in_tool(host: Host, environ: Mapping[str, str]) -> bool:
    """Whether gpudoctor was installed alone (pipx, uv tool, uvx): then its environment is not the examined one."""
    prefix = sys.prefix
    if any(host.exists(posixpath.join(prefix, mark)) for mark in _TOOL_MARKS):
        return True
    caches = environ.get("XDG_CACHE_HOME") or posixpath.join(environ.get("HOME", "/"), ".cache")
    uv = environ.get("UV_CACHE_DIR") or posixpath.join(caches, "uv")
    pipx = environ.get("PIPX_HOME") or posixpath.join(environ.get("HOME", "/"), ".local/pipx")
    return any(_inside(prefix, folder) for folder in (uv, pipx, posixpath.join(caches, "pipx")))


def _on_path(host: Host, environ: Mapping[str, str]) -> Iterator[str]:
    for folder in environ.get("PATH", "").split(":"):
        if folder.startswith("/"):
            for name in ("python3", "python"):
                path = posixpath.join(folder, name)
                if host.stat(path).known or host.link(path):
                    yield behind_shim(host, path, environ) or path


def behind_shim(host: Host, path: str, environ: Mapping[str, str]) -> str | None:
    """The interpreter that a shim of pyenv starts; None for another file, or if pyenv has none of its versions."""
    root, name = posixpath.dirname(posixpath.dirname(path)), posixpath.basename(path)
    for version in _wanted_of_pyenv(host, path, environ):
        there = host.names(posixpath.join(root, "versions")).value or ()
        newest = max((one for one in there if one.startswith(f"{version}.")), key=figures, default="")
        for one in (version, newest):
            real = posixpath.join(root, "versions", one, "bin", name)
            if one and host.exists(real):
                return real
    return None


def _wanted_of_pyenv(host: Host, path: str, environ: Mapping[str, str]) -> list[str]:
    """The versions that a shim of pyenv chooses from: those of the variable, of the working folder or one above it,
    or of all folders. Empty for another file."""
    folder = posixpath.dirname(path)
    if posixpath.basename(folder) != "shims":
        return []
    files = [posixpath.join(one, ".python-version") for one in (_above_working_folder() if host.live else ())]
    files.append(posixpath.join(posixpath.dirname(folder), "version"))
    texts = (environ.get("PYENV_VERSION"), *(host.text(file, _VERSION_FILE_LIMIT).value for file in files))
    wanted = next(filter(None, texts), "")
    return [one for one in re.split(r"[:\s]+", wanted) if one and one != "system" and "/" not in one]


def _above_working_folder() -> Iterator[str]:
    try:
        folder = os.getcwd()
    except OSError:  # it is gone
        return
    while folder not in ("", "/"):
        yield folder
        folder = posixpath.dirname(folder)


def layout_of(host: Host, path: str) -> Layout | None:
    """The layout of an interpreter, a venv or a conda prefix; None if `path` is none of them."""
    path = posixpath.normpath(path)
    found = host.stat(path)
    if found.value is not None and found.value.kind == "folder":
        return _of_prefix(host, path)
    folder, name = posixpath.split(path)
    if found.value is not None and found.value.kind != "file":
        return None
    if not re.match(_PYTHON_NAME, name) or not (found.known or host.link(path)):
        return None
    for place in (posixpath.dirname(folder), folder):
        if host.exists(posixpath.join(place, "pyvenv.cfg")):
            return _venv(host, place, path)
    real = host.resolve(path)
    if real is None:
        return None
    # pyenv, conda and uv link ~/.local/bin/python3.12 and the like to the real one; a Nix wrapper stays itself.
    for candidate in (real, path):
        prefix = posixpath.dirname(posixpath.dirname(candidate))
        if re.match(_PYTHON_NAME, posixpath.basename(candidate)) and _has_library(host, prefix, candidate):
            return _plain(host, prefix, path)
    return None


def _of_prefix(host: Host, prefix: str) -> Layout | None:
    interpreter = _interpreter_in(host, prefix)
    if host.exists(posixpath.join(prefix, "pyvenv.cfg")):
        return _venv(host, prefix, interpreter or posixpath.join(prefix, "bin/python"))
    # A recording need not hold the interpreter: the prefix that it names as its environment counts.
    if (interpreter or not host.live) and _has_library(host, prefix, interpreter or ""):
        return _plain(host, prefix, interpreter or posixpath.join(prefix, "bin/python3"))
    return None


def _has_library(host: Host, prefix: str, interpreter: str) -> bool:
    """Whether Python lives in a prefix: its library is there. A recording may hold only the packages; then an
    interpreter whose name has the version, or Debian's folder of packages, is enough."""
    if lib_folders(host, prefix):
        return True
    named = re.search(_VERSIONED, interpreter) is not None
    return not host.live and (named or host.exists(posixpath.join(prefix, "lib/python3/dist-packages")))


def _interpreter_in(host: Host, prefix: str) -> str | None:
    for name in ("python", "python3"):
        path = posixpath.join(prefix, "bin", name)
        if host.exists(path):
            return path
    return None


def _venv(host: Host, prefix: str, interpreter: str) -> Layout:
    config = _read_config(host, posixpath.join(prefix, "pyvenv.cfg"))
    home = config.get("home", "")
    base = home and posixpath.dirname(posixpath.normpath(home))
    stated = re.match(_NUMBER, config.get("version_info") or config.get("version") or "")
    python = _python_of(host, prefix, interpreter, stated.group() if stated else None)
    if base:
        # The base may itself be a link: uv names cpython-3.12-... for cpython-3.12.7-...
        real = python and host.resolve(posixpath.join(home, f"python{python}"))
        base = posixpath.dirname(posixpath.dirname(real)) if real else base
    return Layout(
        interpreter=interpreter, prefix=prefix, base_prefix=base or prefix, python=python, kind="venv", config=config
    )


def _plain(host: Host, prefix: str, interpreter: str) -> Layout:
    python = _python_of(host, prefix, interpreter, _conda_python(host, prefix))
    kind = _kind(host, prefix)
    return Layout(interpreter=interpreter, prefix=prefix, base_prefix=prefix, python=python, kind=kind)


def _kind(host: Host, prefix: str) -> EnvironmentKind:
    if host.exists(posixpath.join(prefix, "conda-meta")):
        return "conda"
    user = re.match(r"/(?:home/[^/]+|root)/|.*/(?:\.pyenv|\.local)/", prefix + "/")
    return "user" if user else "system"


def _conda_python(host: Host, prefix: str) -> str | None:
    for name in host.names(posixpath.join(prefix, "conda-meta")).value or ():
        found = re.match(r"python-(\d+\.\d+)\.\d[^-]*-(.*)\.json$", name)
        if found:
            return found.group(1) + ("t" if re.search(r"_cp\d+t$", found.group(2)) else "")
    return None


def _python_of(host: Host, prefix: str, interpreter: str, stated: str | None) -> str | None:
    """The version: of the real file that the links lead to, else as stated, else by the links' names, else by the
    folders below lib; the first whose folder exists. A venv keeps the folders of earlier versions."""
    folders = lib_folders(host, prefix)
    real = re.search(_VERSIONED, host.resolve(interpreter) or "")
    named = [real.group(1)] if real else []
    by_links = (match[1] for place in along_links(host, interpreter) if (match := re.search(_VERSIONED, place)))
    for version in (stated, *by_links, stated and stated + "t"):
        if version and version not in named:
            named.append(version)
    fits = [version for version in named if version in folders]
    return next(iter(fits or named), None) or max(folders, key=_order, default=None)


def along_links(host: Host, path: str) -> Iterator[str]:
    """A path, and what each link in turn leads to; the last may not exist."""
    for _ in range(9):
        yield path
        target = host.link(path)
        if target is None:
            return
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def standard_folders(prefix: str, python: str | None) -> tuple[str, ...]:
    """Where the standard library may lie below a prefix; Fedora's Python has it in lib64."""
    return tuple(posixpath.join(prefix, lib, f"python{python}") for lib in _LIBS)


def lib_folders(host: Host, prefix: str) -> list[str]:
    """Versions that have a folder lib/pythonX.Y below the prefix."""
    found = []
    for lib in _LIBS:
        for name in host.names(posixpath.join(prefix, lib)).value or ():
            match = re.match(_VERSIONED, name)
            if match and match.group(1) not in found:
                found.append(match.group(1))
    return found


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.rstrip("t").split("."))


def _read_config(host: Host, path: str) -> dict[str, str]:
    """The `key = value` lines of a pyvenv.cfg."""
    lines = (host.text(path, 64 << 10).value or "").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def pips_of_others(host: Host, layout: Layout) -> Iterator[tuple[str, str]]:
    """(program, Python that it starts) where that is in another folder, there or not. Programs that can be moved
    name no folder, and a link to the environment is no other one."""
    for name in ("pip", "pip3"):
        program = posixpath.join(layout.prefix, "bin", name)
        named = re.match(_SHEBANG, host.text(program, 1 << 10).value or "")
        if named is not None:
            python = named[1] or named[2]
            prefix = posixpath.dirname(posixpath.dirname(python))
            if (host.resolve(prefix) or prefix) != (host.resolve(layout.prefix) or layout.prefix):
                yield program, python
