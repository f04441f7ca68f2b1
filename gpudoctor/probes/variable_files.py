"""The file that sets a variable: a person who is told to unset it has to find it first."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

import msgspec

from gpudoctor.host import Host

_LIMIT = 64 << 10
_MOST_FILES = 50
_SYSTEM = ("/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/etc/bashrc")
_OF_SHELLS = (".profile", ".bash_profile", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".config/fish/config.fish")
_SETS = (
    r"(?:^|[\s;&])([A-Z][A-Z0-9_]*)=(\"[^\"]*\"|'[^']*'|[^\s;&#]*)"
    r"|\bset\s+-(?:gx|xg|Ux|x)\s+([A-Z][A-Z0-9_]*)\s+(\S+)"
)
"""In a line of sh, zsh or /etc/environment; or of fish."""
_OF_CONDA = "conda-meta/state"
_MARKERS = ("CONDA_", "VIRTUAL_ENV", "SLURM_", "RAY_", "container")
"""Beginnings of names that activation, a batch system or a container sets, and that nobody is told to unset."""


def files_that_set(host: Host, prefix: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The file, with the line, that sets a variable to its value when a shell starts or the environment in `prefix`
    is activated; the last one, where several do."""
    wanted = {name: value for name, value in variables.items() if value and not name.startswith(_MARKERS)}
    found: dict[str, str] = {}
    for path in _files(host, prefix) if wanted else ():
        text = (host.data(path, _LIMIT).value or b"").decode("utf-8", "replace")
        if path.endswith(_OF_CONDA):
            found |= {name: path for name, value in _of_conda(text).items() if value == wanted.get(name)}
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for name, value in _set_in(line):
                if name in wanted and ("$" in value or value == wanted[name]):
                    found[name] = f"{path}, line {number}"
    return found


def _files(host: Host, prefix: str) -> Iterator[str]:
    """Those that count last come at the end."""
    yield from (*_SYSTEM, *_names(host, "/etc/profile.d"))
    home, working = host.environ.get("HOME", ""), host.working_folder()
    yield from (posixpath.join(home, name) for name in _OF_SHELLS if home.startswith("/"))
    if working:
        yield posixpath.join(working, ".envrc")
    if prefix:
        yield from (posixpath.join(prefix, name) for name in (_OF_CONDA, "bin/activate"))
        yield from _names(host, posixpath.join(prefix, "etc/conda/activate.d"))


def _names(host: Host, folder: str) -> list[str]:
    names = sorted(name for name in host.names(folder).value or () if name.endswith(".sh"))
    return [posixpath.join(folder, name) for name in names[:_MOST_FILES]]


def _set_in(line: str) -> Iterator[tuple[str, str]]:
    """Names and values that a line of a shell's file sets."""
    if "=" in line or "set" in line:
        for found in re.finditer(_SETS, line) if not line.lstrip().startswith("#") else ():
            name, value = (found[1], found[2]) if found[1] else (found[3], found[4])
            yield name, value.strip("\"'")


class _State(msgspec.Struct):
    env_vars: dict[str, str] = {}


def _of_conda(text: str) -> dict[str, str]:
    """Variables of `conda env config vars`."""
    try:
        return msgspec.json.decode(text, type=_State).env_vars if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
