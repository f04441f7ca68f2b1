"""Virtual environments of an image: which one a command makes, or installs into."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence

from gpudoctor.dockerfile.commands import Command

_OWN = ("/", "/usr", "/usr/local")
"""Prefixes whose Python is the image's own."""
CONDAS = ("conda", "mamba", "micromamba")
CONDA_ROOT = "/opt/conda"
"""The root of conda in the images of conda-forge, Anaconda and micromamba."""
_NAME = re.compile(r"(^|/)\.?\w*(v?env|conda|python)\d*$|/envs/[^/]+$")
"""The names that people give to environments."""
_FRONT = 20
"""Folders of PATH that are looked at."""
_WITHOUT_PYTHON = re.compile(
    r"/(cuda|nvidia|rocm|hip|llvm|cmake|go|node|mpi|openmpi|ucx|hpcx|tensorrt|\.cargo|\.local)[\w.-]*$"
)
"""Prefixes of other programs, whose bin folders hold no Python."""
_YES = ("1", "true", "yes", "on")
_PROJECTS = {"poetry": "POETRY_VIRTUALENVS_IN_PROJECT", "pipenv": "PIPENV_VENV_IN_PROJECT", "pdm": "", "pixi": ""}
"""Tools that make an environment for a project, with the variable that puts it there."""
_WITH_VALUE = ("--python", "-p", "--prompt", "--directory", "--project")


def environment_of(command: Command, folder: str, activated: str, known: Collection[str]) -> str | None:
    """The environment that a command makes or installs into; "" if it is none, but Python's own; None if unknown.
    `folder` is the working directory ("": unknown), `activated` the environment that was activated, `known` are
    those made so far."""
    found = _environment(command, folder, activated, known)
    return "" if found in _OWN else found


def _environment(command: Command, folder: str, activated: str, known: Collection[str]) -> str | None:
    made = made_by(command.argv)
    if made:
        return _whole(made, folder)
    place, name = posixpath.split(command.argv[0])
    if place.endswith("bin") and name != "uv":
        return _whole(posixpath.dirname(place), folder)
    if name in _PROJECTS:
        return _of_project(name, command, folder, activated)
    if name == "uv":
        return _of_uv(command, folder, activated, known)
    return activated or _first_on_path(command, known)


def _first_on_path(command: Command, known: Collection[str]) -> str | None:
    """The environment in front on PATH; "" for none, None where a folder in front may be one."""
    for folder in command.variables.get("PATH", "").split(":", _FRONT)[:_FRONT]:
        prefix = posixpath.dirname(posixpath.normpath(folder)) if folder.endswith(("/bin", "/bin/")) else ""
        if prefix in known or _NAME.search(prefix):
            return prefix
        if prefix and prefix not in _OWN and not _WITHOUT_PYTHON.search(prefix):
            return None
    return ""


def made_by(argv: Sequence[str]) -> str:
    """The folder of the environment that a command makes: `python -m venv DIR`, `virtualenv DIR`, `uv venv [DIR]`,
    `conda create -n NAME`."""
    name = posixpath.basename(argv[0])
    words = list(argv[1:])
    if re.fullmatch(r"python[\d.]*", name) and words[:1] == ["-m"] and words[1:2] in (["venv"], ["virtualenv"]):
        return next(iter(_plain(words[2:])), "")
    if name == "virtualenv":
        return next(iter(_plain(words)), "")
    if name == "uv" and _plain(words)[:1] == ["venv"]:
        return next(iter(_plain(words)[1:]), ".venv")
    if name in CONDAS and "create" in words[:2]:
        place, called = _values(words, "-p", "--prefix"), _values(words, "-n", "--name")
        return next(iter((*place, *(f"{CONDA_ROOT}/envs/{one}" for one in called))), "")
    return ""


def makes_one(argv: Sequence[str]) -> bool:
    """Whether a command makes an environment, itself or for a project: `uv sync`, `poetry install`."""
    verb = next(iter(_plain(argv[1:])), "")
    name = posixpath.basename(argv[0])
    of_project = (name in _PROJECTS and verb in ("install", "sync")) or (name == "uv" and verb in ("sync", "add"))
    return of_project or bool(made_by(argv))


def _of_project(name: str, command: Command, folder: str, activated: str) -> str | None:
    """The environment that poetry and its like make for a project; None if their settings may say otherwise."""
    if activated:
        return activated
    if name == "pixi":
        return _whole(".pixi/envs/default", folder)
    inside = command.variables.get(_PROJECTS[name], "").lower()
    return _whole(".venv", folder) if name == "pdm" or inside in _YES else None


def _of_uv(command: Command, folder: str, activated: str, known: Collection[str]) -> str | None:
    words = list(command.argv[1:])
    verb = _plain(words)[:1]
    if verb == ["pip"]:
        python = next((value for value in _values(words, "--python", "-p")), "")
        if "/" in python:
            return _whole(re.sub(r"/bin/python[\d.]*$", "", python), folder)
        if "--system" in words or command.variables.get("UV_SYSTEM_PYTHON", "").lower() in _YES:
            return _first_on_path(command, known)
        return None if python else activated or command.variables.get("VIRTUAL_ENV") or _whole(".venv", folder)
    if verb in (["sync"], ["add"], ["run"]) and not any(_values(words, "--directory", "--project")):
        active = activated or command.variables.get("VIRTUAL_ENV") if "--active" in words else ""
        return active or _whole(command.variables.get("UV_PROJECT_ENVIRONMENT") or ".venv", folder)
    return None


def _values(words: Sequence[str], *names: str) -> list[str]:
    pairs = zip(words, [*words[1:], ""], strict=True)
    return [word.partition("=")[2] or after for word, after in pairs if word.partition("=")[0] in names]


def _plain(words: Sequence[str]) -> list[str]:
    """The words that are no options, and no values of options."""
    pairs = zip(["", *words], words, strict=False)
    return [word for before, word in pairs if word[:1] != "-" and before not in _WITH_VALUE]


def _whole(path: str, folder: str) -> str | None:
    if "$" in path or "~" in path or not (folder or path.startswith("/")):
        return None
    return posixpath.normpath(posixpath.join(folder, path))
