"""Which folders and files the steps of a fix can change: they are recorded before the steps run."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from gpudoctor.fix.account import account, me
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.run import UNDO_FOLDER, Run
from gpudoctor.host.child import run_limited
from gpudoctor.step import RunStep

PROJECT_FILES = (
    *("pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock", "pixi.toml", "pixi.lock", "environment.yml"),
    *("Pipfile", "Pipfile.lock", "requirements.in", "requirements.txt"),
)
"""Files and folders of a project, beside its environment, that the project's own tools write."""

_OF_A_VENV = ("pyvenv.cfg", "bin", "include", "lib", "lib64", "share", "etc", "CACHEDIR.TAG", ".gitignore", ".lock")
"""Folders that installers write into. A venv may be a project's own folder, where other work goes on."""

_OF_OTHERS = ("pkgs", "envs")
"""Below a conda prefix: the package cache and the other environments."""

_PACKAGES = r"(.*)/lib[^/]*(?:/python[^/]*)?/(?:site|dist)-packages"

_ASK = """
import json, site, sysconfig
paths = sysconfig.get_paths()
print(json.dumps([paths["data"], [paths[k] for k in ("purelib", "platlib", "scripts")] + site.getsitepackages()]))
"""


class Target(Struct, frozen=True):
    """The environment and the files that a fix changes."""

    prefix: str
    """Folder of the environment; "" where the steps touch none."""
    python: str
    files: tuple[str, ...] = ()
    """Files outside the prefix that steps may change or make: pyproject.toml, uv.lock."""


class Scope(Struct, frozen=True):
    """Absolute paths; links to the environment's own folder are followed."""

    roots: tuple[bytes, ...]
    files: tuple[bytes, ...] = ()
    """A person's own files: what they wrote there since the run is never removed."""
    made: tuple[bytes, ...] = ()
    """New environments that steps make; they were not there before."""
    without: tuple[bytes, ...] = ()

    @property
    def everything(self) -> tuple[bytes, ...]:
        """Every path that is recorded."""
        return (*self.roots, *self.made, *self.files)


def scope_of(target: Target, steps: Iterable[RunStep]) -> Scope:
    """What `steps` can change in `target`. RepairError where this is unknown."""
    made = [folder for step in steps if (folder := venv_made(step))]
    files = tuple(map(os.fsencode, map(_real_file, target.files)))
    prefix = os.path.realpath(target.prefix) if target.prefix else ""
    roots, without = _roots(prefix, target.python) if prefix else ((), ())
    there = tuple(root for root in map(os.fsencode, made) if os.path.lexists(root))
    return Scope(
        roots=(*roots, *there),
        files=files,
        made=tuple(root for root in map(os.fsencode, made) if root not in there),
        without=without,
    )


def _real_file(path: str) -> str:
    """A project file, behind links. RepairError for a link to /dev/null and its like, which nobody may put back."""
    real = os.path.realpath(path)
    if os.path.lexists(real) and not os.path.isfile(real):
        raise RepairError(f"{real} is no regular file, so nothing was changed: put the project file there first.")
    return real


def venv_made(step: RunStep) -> str:
    """The folder of the venv that a step makes ("python -m venv DIR", "uv venv DIR"), else ""."""
    made = step.argv[1:3] == ("-m", "venv") or step.argv[:2] == ("uv", "venv")
    if not made or step.argv[-1].startswith("-"):
        return ""
    return os.path.realpath(os.path.join(step.cwd or os.getcwd(), step.argv[-1]))


def _roots(prefix: str, python: str) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    if not os.path.isdir(prefix):
        raise RepairError(f"{prefix} is no folder: there is no environment to fix.")
    if os.path.isdir(f"{prefix}/conda-meta"):
        return (os.fsencode(prefix),), tuple(os.fsencode(f"{prefix}/{name}") for name in _OF_OTHERS)
    if os.path.exists(f"{prefix}/pyvenv.cfg"):
        roots = [f"{prefix}/{name}" for name in _OF_A_VENV]
        return tuple(map(os.fsencode, (*roots, *_packages_elsewhere(prefix)))), ()
    return _roots_of_a_system_python(python), ()


def _packages_elsewhere(prefix: str) -> list[str]:
    """Package folders that the environment has behind a link."""
    real = {os.path.realpath(path) for path in glob.glob(f"{glob.escape(prefix)}/lib*/python*/site-packages")}
    return [path for path in sorted(real) if not path.startswith(f"{prefix}/")]


def _roots_of_a_system_python(python: str) -> tuple[bytes, ...]:
    """Only the folders where its own installer writes: the prefix holds a whole system."""
    answer = run_limited([python, "-I", "-c", _ASK], 30)
    try:
        data, folders = msgspec.json.decode(answer.value.stdout if answer.value else "", type=tuple[str, list[str]])
    except msgspec.DecodeError as error:
        raise RepairError(
            f"{python} does not say where it keeps packages, so nothing could be undone: {answer.why or error}"
        ) from error
    # /usr/share belongs to the whole distribution. Manual pages that a wheel adds there stay after an undo.
    shared = [] if data == "/usr" else [f"{data}/share", f"{data}/etc"]
    return tuple(os.fsencode(os.path.realpath(path)) for path in dict.fromkeys((*folders, *shared)))


# --- a recorded scope --------------------------------------------------------------------------------


def recorded_scope(run: Run) -> Scope:
    """What a run could change, as its journal says."""
    begun = run.begun
    return Scope(
        roots=tuple(map(os.fsencode, begun.roots)),
        files=tuple(map(os.fsencode, begun.files)),
        made=tuple(map(os.fsencode, begun.made)),
        without=tuple(map(os.fsencode, begun.without)),
    )


def check_recorded(run: Run) -> None:
    """Check that every recorded path is one that a fix of this environment can change. RepairError otherwise."""
    begun, prefix = run.begun, run.prefix
    made = {folder for step in begun.steps for folder in _possible_venvs(step)}
    projects = {os.path.dirname(prefix), *(step.cwd for step in begun.steps if step.cwd)}
    own = {f"{prefix}/{name}" for name in (UNDO_FOLDER, *_OF_OTHERS)}
    new = {path for path in made if _is_new_venv(path)}
    strange = [
        *(path for path in begun.roots if path not in new and not _is_root_of(prefix, begun.roots, path)),
        *(path for path in begun.made if path not in new),
        *(path for path in begun.files if not _is_project_file(path, projects)),
        *(path for path in begun.without if path not in own),
    ]
    if strange:
        raise RepairError(
            f"{run.folder} says that {strange[0]} was changed, which no fix of {prefix or 'this system'} does: "
            "nothing was undone. Move that folder away."
        )
    check_owner(prefix, recorded_scope(run))


def _is_root_of(prefix: str, roots: Iterable[str], path: str) -> bool:
    if not prefix:
        return False
    if path == prefix or path.startswith(f"{prefix}/"):
        return True
    if os.path.lexists(f"{prefix}/pyvenv.cfg") or os.path.lexists(f"{prefix}/conda-meta"):
        return path in _packages_elsewhere(prefix)
    # A system's Python installs beside its own packages.
    bases = {found[1] for root in roots if (found := re.fullmatch(_PACKAGES, root))}
    return re.fullmatch(_PACKAGES, path) is not None or path in {
        f"{base}/{name}" for base in bases for name in ("bin", "share", "etc")
    }


def _is_project_file(path: str, projects: Iterable[str]) -> bool:
    return any(path in _possible_paths(f"{folder}/{name}") for folder in projects for name in PROJECT_FILES)


def _possible_venvs(step: RunStep) -> tuple[str, ...]:
    """The possible paths of the venv that a step makes, before and after it was made."""
    if not venv_made(step):
        return ()
    return _possible_paths(os.path.normpath(os.path.join(step.cwd or os.getcwd(), step.argv[-1])))


def _possible_paths(path: str) -> tuple[str, ...]:
    """The possible records of a path that is or was a link."""
    folder, name = os.path.split(path)
    return (os.path.realpath(path), os.path.join(os.path.realpath(folder), name))


def _is_new_venv(folder: str) -> bool:
    """Whether it is missing, or holds only what a venv holds; it may be incomplete."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return "pyvenv.cfg" in names or set(names) <= {*_OF_A_VENV, UNDO_FOLDER}


def check_owner(prefix: str, scope: Scope) -> None:
    """RepairError for root where anything in the scope belongs to another account. That account could neither change
    nor remove what root's pip leaves in its environment or cache."""
    if os.geteuid() != 0:
        return
    for path in filter(None, (os.fsencode(prefix), *scope.everything)):
        uid = _owner(path)
        if uid != 0:
            raise RepairError(
                f"{os.fsdecode(path)} belongs to {account(uid)}: start gpudoctor as {account(uid)}, not as {me()}; "
                "nothing was changed."
            )


def _owner(path: bytes) -> int:
    """The owner of a path, or of the folder in which it would be made."""
    while path:
        try:
            return os.lstat(path).st_uid
        except (FileNotFoundError, NotADirectoryError):
            path = os.path.dirname(path) if path != b"/" else b""
    return 0
