"""Which Python a command will run, as far as its words and files tell: that environment is judged. Nothing is run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from gpudoctor.host import LiveHost
from gpudoctor.preflight.handover import place_of
from gpudoctor.probes.project_files import upward
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
_WITH_VALUE = (
    "-n", "--name", "-p", "--prefix", "-r", "--root-prefix", "--cwd", "--directory", "--project", "-C", "-e",
    "--environment", "--manifest-path", "--python", "--with", "--with-editable", "--with-requirements", "--extra",
    "--group", "--no-group", "--only-group", "--package", "--env-file", "--index", "--default-index", "--cache-dir",
)  # fmt: skip
"""Options of tools that run a command, whose value is the next word."""
_SPLIT = re.compile(r"(-v?S|--split-string=?)(.*)", re.DOTALL)
_SECURE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH behind sudo, by the sudoers of distributions."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SIGNS = re.compile(r"[;&|()<>`\n]|\$\(")
_SHEBANG, _SCRIPT, _PROJECT, _DEPTH = 512, 4096, 65536, 8


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
    if not os.path.isfile(place):
        return None
    name, rest = os.path.basename(words[0]), words[1:]
    if _PYTHON.match(name):
        return place
    if name in _WRAPPERS:
        if name == "env":
            rest, environ = _with_env(rest, environ)
        elif name == "sudo":
            environ = {**environ, "PATH": _SECURE}
        return _python_of(_started(rest, environ), environ, depth - 1)
    if name in _SHELLS:
        return _of_shell(rest, environ, depth)
    if name in (*_CONDA, *_PROJECTS):
        before, after = _options(rest)
        options, started = _options(after[1:])
        if after[:1] != ["run"]:
            return None
        if started and "/" in started[0] and _PYTHON.match(os.path.basename(started[0])):
            return started[0]
        if name in _CONDA:
            return _of_conda(place, [*before, *options], environ)
        return _of_project(name, [*before, *options], started, environ)
    return _of_script(place, environ, depth)


def _with_env(words: list[str], environ: Mapping[str, str]) -> tuple[list[str], Mapping[str, str]]:
    """The words of `env` with the text of -S split, and the variables that it gives to its command."""
    import shlex

    for at, word in enumerate(words):
        split = _SPLIT.fullmatch(word)
        if split is not None:
            text, after = (
                (split[2], words[at + 1 :]) if split[2] else (" ".join(words[at + 1 : at + 2]), words[at + 2 :])
            )
            try:
                words = [*words[:at], *shlex.split(text), *after]
            except ValueError:
                return [], environ
            break
        if word[:1] != "-" and not _ASSIGNMENT.match(word):
            break
    given: dict[str, str] = {}
    for word in words:
        if word in ("-i", "-", "--ignore-environment"):
            environ = {}
        elif _ASSIGNMENT.match(word):
            name, _, given[name] = word.partition("=")
        elif word[:1] != "-":
            break
    return words, {**environ, **given}


def _started(words: list[str], environ: Mapping[str, str]) -> list[str]:
    """The command after the options of a wrapper: from the first word that is a program."""
    for at, word in enumerate(words):
        if word[:1] != "-" and not _ASSIGNMENT.match(word) and os.path.isfile(place_of(word, environ)):
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
    if inner and inner[0].startswith("~/"):
        inner[0] = environ.get("HOME", "") + inner[0][1:]
    return _python_of(inner[inner[:1] == ["exec"] :], {**environ, **own}, depth - 1)


def _of_script(place: str, environ: Mapping[str, str], depth: int) -> str | None:
    """The interpreter that the first line of a script names; that of a wrapper for long paths is on its second."""
    lines = os.fsdecode(_beginning(place, _SHEBANG)).split("\n")
    if not lines[0].startswith("#!"):
        return None
    words = lines[0][2:].strip().split(None, 1)  # the kernel passes all else as one word
    if words[:1] == ["/bin/sh"] and (long := re.match(r"'''exec' \"?(/[^\"\s]+)", "".join(lines[1:2]))):
        words = [long[1]]
    if words and os.path.basename(words[0]) in _SHELLS:
        return None
    return _python_of(words, environ, depth - 1)


def _of_conda(place: str, options: list[str], environ: Mapping[str, str]) -> str | None:
    """The prefix of `conda run -n NAME` or `-p PREFIX`."""
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


def _of_project(tool: str, options: list[str], started: list[str], environ: Mapping[str, str]) -> str | None:
    """The environment of the project that `uv run` and its like find from the working folder upward."""
    active = environ.get("VIRTUAL_ENV")
    if tool == "uv" and (
        any(word in ("--isolated", "--script", "-s") for word in options) or _has_requirements(started)
    ):
        return None
    if active and (tool in ("poetry", "pdm", "pipenv") or "--active" in options):
        return active
    start = os.path.abspath(_option(options, "--directory", "--project", "-C", "--manifest-path") or ".")
    inner = (environ.get("UV_PROJECT_ENVIRONMENT") if tool == "uv" else "") or ".venv"
    if tool == "pixi":
        inner = f".pixi/envs/{_option(options, '-e', '--environment') or 'default'}"
    projects = [] if "--no-project" in options else list(filter(_is_project, upward(start)))
    if not projects and tool == "uv":
        return active or next(filter(os.path.isdir, (os.path.join(one, ".venv") for one in upward(start))), None)
    # The members of uv's workspace share its environment.
    shared = [one for one in projects[1:] if _is_workspace(one)] if tool == "uv" else []
    places = (os.path.join(one, inner) for one in (*projects[:1], *shared))
    return next(filter(os.path.isdir, places), None)


def _is_project(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, file)) for file in ("pyproject.toml", "pixi.toml", "Pipfile"))


def _is_workspace(folder: str) -> bool:
    return b"[tool.uv.workspace]" in _beginning(os.path.join(folder, "pyproject.toml"), _PROJECT)


def _has_requirements(started: list[str]) -> bool:
    """Whether the command is a script that names its requirements: uv makes an environment for it alone."""
    script = next(iter(started), "")
    return script.endswith(".py") and b"# /// script" in _beginning(script, _SCRIPT)


def _beginning(file: str, length: int) -> bytes:
    """The beginning of a file; b"" where there is none."""
    if not os.path.isfile(file):
        return b""  # a named pipe would wait for a writer
    try:
        with open(file, "rb") as opened:
            return opened.read(length)
    except (OSError, ValueError):
        return b""


def _options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options in front, with their values, and the words after them."""
    at = 0
    while at < len(words) and words[at][:1] == "-" and words[at] != "--":
        at += 2 if words[at] in _WITH_VALUE else 1
    return list(words[:at]), list(words[at + (words[at : at + 1] == ["--"]) :])


def _option(options: Sequence[str], *names: str) -> str:
    for at, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else next(iter(options[at + 1 :]), "")
    return ""
