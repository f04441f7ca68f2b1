"""Which Python a command will run, as far as its words and files tell: that environment is judged. Nothing is run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.host import LiveHost
from gpudoctor.preflight.handover import place_of
from gpudoctor.probes.python_layout import behind_shim, layout_of

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?$")
_SHELLS = ("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh")
_WRAPPERS = (
    "env", "exec", "nice", "ionice", "nohup", "setsid", "stdbuf", "time", "timeout", "numactl", "taskset", "chrt",
    "tini", "dumb-init", "catatonit", "gosu", "su-exec", "runuser", "setpriv", "sudo", "xvfb-run", "command",
)  # fmt: skip
"""Programs that become, or start, the program after their options."""
_CONDA = ("conda", "mamba", "micromamba")
_PROJECTS = ("uv", "poetry", "pdm", "pipenv", "pixi")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SIGNS = re.compile(r"[;&|()<>`\n]|\$\(")
_SHEBANG, _SCRIPT, _DEPTH = 512, 4096, 8


def interpreter_of(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The interpreter of the command's Python; None if no file tells, or if it runs none."""
    path = _python_of(list(command), environ, _DEPTH)
    if path is None:
        return None
    host = LiveHost()
    path = behind_shim(host, path, environ) or path
    layout = layout_of(host, os.path.abspath(path))
    return layout.interpreter if layout else None


def _python_of(words: list[str], environ: Mapping[str, str], depth: int) -> str | None:
    """The interpreter, or the prefix of the environment. Each `depth` is a program that starts another."""
    place = place_of(words[0], environ) if words and depth else ""
    if not place:
        return None
    name, rest = os.path.basename(words[0]), words[1:]
    if _PYTHON.match(name):
        return place
    if name in _WRAPPERS:
        given = dict(word.split("=", 1) for word in rest if name == "env" and _ASSIGNMENT.match(word))
        return _python_of(_started(rest, environ), {**environ, **given}, depth - 1)
    if name in _SHELLS:
        return _of_shell(rest, environ, depth)
    if name in (*_CONDA, *_PROJECTS) and "run" in rest:
        at = rest.index("run")
        of_tool = _of_conda if name in _CONDA else _of_project
        return of_tool(place, rest[:at], rest[at + 1 :], environ)
    return _of_script(place, environ, depth)


def _started(words: list[str], environ: Mapping[str, str]) -> list[str]:
    """The command after the options of a wrapper: from the first word that is a program."""
    for at, word in enumerate(words):
        if word[:1] != "-" and not _ASSIGNMENT.match(word) and place_of(word, environ):
            return words[at:]
    return []


def _of_shell(words: list[str], environ: Mapping[str, str], depth: int) -> str | None:
    """What `sh -c "python train.py"` runs. A script, or a text with more than one command, may do anything first."""
    if len(words) < 2 or not re.fullmatch(r"-[aefux]*c", words[0]) or _SIGNS.search(words[1]):
        return None
    import shlex

    try:
        inner = shlex.split(words[1])
    except ValueError:
        return None
    given = 0
    while given < len(inner) and _ASSIGNMENT.match(inner[given]):
        given += 1
    own = dict(word.split("=", 1) for word in inner[:given])
    # "$@" stands for the words after the one that is the shell's name.
    inner = [part for word in inner[given:] for part in (words[3:] if word in ("$@", "$*") else [word])]
    return _python_of(inner[inner[:1] == ["exec"] :], {**environ, **own}, depth - 1)


def _of_script(place: str, environ: Mapping[str, str], depth: int) -> str | None:
    """The interpreter that the first line of a script names; that of a wrapper for long paths is on its second."""
    try:
        with open(place, "rb") as file:
            lines = os.fsdecode(file.read(_SHEBANG)).split("\n")
    except (OSError, ValueError):
        return None
    if not lines[0].startswith("#!"):
        return None
    words = lines[0][2:].split()
    if words[:1] == ["/bin/sh"] and (long := re.match(r"'''exec' \"?(/[^\"\s]+)", "".join(lines[1:2]))):
        words = [long[1]]
    if words and os.path.basename(words[0]) in _SHELLS:
        return None
    if words[:1] and os.path.basename(words[0]) == "env" and words[1:2] == ["-S"]:
        words = [words[0], *words[2:]]
    return _python_of(words, environ, depth - 1)


def _of_conda(place: str, before: list[str], words: list[str], environ: Mapping[str, str]) -> str | None:
    """The prefix of `conda run -n NAME` or `-p PREFIX`."""
    options = [*before, *words]
    prefix = _option(options, "-p", "--prefix")
    if prefix:
        return prefix
    name = _option(options, "-n", "--name")
    roots = (
        environ.get("MAMBA_ROOT_PREFIX"),
        os.path.dirname(os.path.dirname(environ.get("CONDA_EXE", ""))),
        os.path.dirname(os.path.dirname(os.path.realpath(place))),
    )
    if name == "base" or not name:
        return next((root for root in roots if root and os.path.isdir(f"{root}/conda-meta")), None) if name else None
    folders = [f"{root}/envs" for root in roots if root]
    folders += [folder for folder in environ.get("CONDA_ENVS_PATH", "").split(":") if folder]
    folders.append(os.path.join(environ.get("HOME", "/"), ".conda/envs"))
    places = (os.path.join(folder, name) for folder in folders)
    return next((one for one in places if os.path.isdir(one)), None)


def _of_project(place: str, before: list[str], words: list[str], environ: Mapping[str, str]) -> str | None:
    """The environment of the project that `uv run` and its like find from the working folder upward."""
    tool, options, active = os.path.basename(place), [*before, *words], environ.get("VIRTUAL_ENV")
    own = _own_options(words)
    if tool == "uv" and (any(word in ("--isolated", "--script", "-s") for word in own) or _has_requirements(words)):
        return None
    if active and (tool in ("poetry", "pdm", "pipenv") or "--active" in own):
        return active
    start = _option(options, "--directory", "--project", "-C", "--manifest-path") or "."
    inner = (environ.get("UV_PROJECT_ENVIRONMENT") if tool == "uv" else "") or ".venv"
    if tool == "pixi":
        inner = f".pixi/envs/{_option(options, '-e', '--environment') or 'default'}"
    for folder in _upward(os.path.abspath(start)):
        if any(os.path.exists(os.path.join(folder, file)) for file in ("pyproject.toml", "pixi.toml", "Pipfile")):
            found = os.path.join(folder, inner)
            return found if os.path.isdir(found) else None
    return None


def _has_requirements(words: list[str]) -> bool:
    """Whether the command is a script that names its requirements: uv makes an environment for it alone."""
    script = next((word for word in words if word.endswith(".py")), "")
    try:
        with open(script, "rb") as file:
            return b"# /// script" in file.read(_SCRIPT)
    except (OSError, ValueError):
        return False


def _upward(folder: str) -> Iterator[str]:
    yield folder
    while folder != (above := os.path.dirname(folder)):
        folder = above
        yield folder


def _own_options(words: Sequence[str]) -> list[str]:
    """The options before the command."""
    first = next((at for at, word in enumerate(words) if word[:1] != "-" or word == "--"), len(words))
    return list(words[:first])


def _option(words: Sequence[str], *names: str) -> str:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else next(iter(words[at + 1 :]), "")
        if word == "--" or _PYTHON.match(word):
            break
    return ""
