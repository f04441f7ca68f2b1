"""What the steps of a repair can change: the folders and files that are recorded before they run."""

from __future__ import annotations

import glob
import os
import subprocess
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from gpudoctor.fix.journal import RepairError
from gpudoctor.fix.steps import RunStep

_OF_A_VENV = ("pyvenv.cfg", "bin", "include", "lib", "lib64", "share", "etc", "CACHEDIR.TAG", ".gitignore", ".lock")
"""What installers write into. A venv may be a project's own folder, with work going on beside these."""

_OF_OTHERS = ("pkgs", "envs")
"""Below a conda prefix: the package cache and the other environments."""

_ASK = """
import json, site, sysconfig
paths = sysconfig.get_paths()
print(json.dumps([paths["data"], [paths[k] for k in ("purelib", "platlib", "scripts")] + site.getsitepackages()]))
"""


class Target(Struct, frozen=True):
    """What is repaired."""

    prefix: str
    """Folder of the environment; "" where the steps touch none."""
    python: str
    files: tuple[str, ...] = ()
    """Files outside the prefix that steps may change or make: pyproject.toml, uv.lock."""


class Scope(Struct, frozen=True):
    """Absolute paths, links of the environment's own folder followed."""

    roots: tuple[bytes, ...]
    files: tuple[bytes, ...] = ()
    """A person's own files: what they wrote there since is never taken away."""
    made: tuple[bytes, ...] = ()
    """New environments that steps make; not there before."""
    without: tuple[bytes, ...] = ()

    @property
    def everything(self) -> tuple[bytes, ...]:
        """All that is recorded."""
        return (*self.roots, *self.made, *self.files)


def scope_of(target: Target, steps: Iterable[RunStep]) -> Scope:
    """What `steps` can change in `target`. RepairError where that cannot be told."""
    made = [folder for step in steps if (folder := venv_made(step))]
    files = tuple(os.fsencode(os.path.realpath(path)) for path in target.files)
    prefix = os.path.realpath(target.prefix) if target.prefix else ""
    roots, without = _roots(prefix, target.python) if prefix else ((), ())
    there = tuple(root for root in map(os.fsencode, made) if os.path.lexists(root))
    return Scope(
        roots=(*roots, *there),
        files=files,
        made=tuple(root for root in map(os.fsencode, made) if root not in there),
        without=without,
    )


def venv_made(step: RunStep) -> str:
    """The folder of the venv that a step makes ("python -m venv DIR", "uv venv DIR"), else ""."""
    made = step.argv[1:3] == ("-m", "venv") or step.argv[:2] == ("uv", "venv")
    if not made or step.argv[-1].startswith("-"):
        return ""
    return os.path.realpath(os.path.join(step.cwd or os.getcwd(), step.argv[-1]))


def _roots(prefix: str, python: str) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    if not os.path.isdir(prefix):
        raise RepairError(f"{prefix} is no folder: there is no environment to repair.")
    if os.path.isdir(f"{prefix}/conda-meta"):
        return (os.fsencode(prefix),), tuple(os.fsencode(f"{prefix}/{name}") for name in _OF_OTHERS)
    if os.path.exists(f"{prefix}/pyvenv.cfg"):
        roots = [f"{prefix}/{name}" for name in _OF_A_VENV]
        # The packages may lie elsewhere, behind a link.
        real = (os.path.realpath(path) for path in glob.glob(f"{glob.escape(prefix)}/lib*/python*/site-packages"))
        roots += [path for path in sorted(set(real)) if not path.startswith(f"{prefix}/")]
        return tuple(map(os.fsencode, roots)), ()
    return _roots_of_a_system_python(python), ()


def _roots_of_a_system_python(python: str) -> tuple[bytes, ...]:
    """Only where its own installer writes: the prefix holds a whole system."""
    try:
        answer = subprocess.run([python, "-I", "-c", _ASK], capture_output=True, timeout=30, check=True).stdout
        data, folders = msgspec.json.decode(answer, type=tuple[str, list[str]])
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise RepairError(
            f"{python} does not say where it keeps packages, so nothing could be taken back: {error}"
        ) from error
    # /usr/share belongs to the whole distribution; manual pages that a wheel adds there stay after an undo.
    shared = [] if data == "/usr" else [f"{data}/share", f"{data}/etc"]
    return tuple(os.fsencode(os.path.realpath(path)) for path in dict.fromkeys((*folders, *shared)))
