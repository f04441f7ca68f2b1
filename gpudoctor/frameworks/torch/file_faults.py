"""What is wrong with a file that an import needs, as a reason with its fix: its owner is repaired.

Holds no checks itself.
"""

from __future__ import annotations

import posixpath
import shlex

from msgspec import Struct

from gpudoctor.finding import Fix, ReplacePackage, by_hand
from gpudoctor.frameworks.torch.reinstall import reinstall_all, reinstall_torch
from gpudoctor.machine import EMPTY, Distribution, SuspectFile
from gpudoctor.situation import Situation

REQUIREMENTS, DAMAGED = "requirements-incomplete", "torch-install-damaged"
FRAMEWORK_DAMAGED = "framework-install-damaged"
OTHER_PYTHON = "packages-for-another-python"
UNLINKED = "package-links-lead-nowhere"

CREATE_AGAIN = by_hand(
    "Create the environment again",
    "Create the environment again with a Python that exists (`python3 -m venv --clear`, `uv venv --clear`, "
    "or your project's tool), and install its packages again.",
    "replaces",
)


class ImportFault(Struct, frozen=True):
    """Why an import failed: `why` is a sentence or empty; `causes` are slugs of what may have been found already."""

    why: str
    fixes: tuple[Fix, ...]
    causes: tuple[str, ...] = ()


def of_file(situation: Situation, suspect: SuspectFile) -> ImportFault | None:
    """What a file's problem means; None if nothing is wrong with it."""
    if suspect.problem == "not-installed":
        return _not_installed(suspect)
    if not suspect.problem:
        return None
    whose = f", of {named(suspect)}," if suspect.owner else ""
    if suspect.problem == "unreadable":
        text = f"Give this user the right to read {suspect.path} and the folders above it, or run as its owner."
        return ImportFault(f"This user may not read {suspect.path}.", (by_hand("Give this user access", text),))
    if suspect.problem == "noexec":
        text = (
            "Move the environment to a file system that is not mounted noexec, or mount this one again with exec "
            f"(`findmnt -T {shlex.quote(suspect.path)}` shows which)."
        )
        why = f"{suspect.path} lies on a file system that is mounted noexec: no library can be loaded from there."
        return ImportFault(why, (by_hand("Use a file system without noexec", text),))
    if suspect.problem == "stale":
        text = f"Remove the file; Python makes it anew: rm {shlex.quote(suspect.path)}"
        why = f"{suspect.path} was compiled from an older file, and Python does not compare it with its source."
        return ImportFault(why, (by_hand("Remove the compiled file", text),))
    if suspect.problem == "remainder":
        name = posixpath.basename(suspect.path)
        text = f"rm -r {shlex.quote(suspect.path)}\nWhere programs use {name}, install it again."
        why = f"{suspect.path} is left of a package that is not installed, and Python takes the folder for {name}."
        return ImportFault(why, (by_hand(f"Remove what is left of {name}", text, "replaces"),))
    if suspect.problem in ("other-python", "other-processor"):
        return _for_another(situation, suspect)
    if not suspect.owner:
        return None
    gone = suspect.problem == "missing" or suspect.detail == EMPTY
    owners = (DAMAGED,) if suspect.owner == "torch" else (REQUIREMENTS, FRAMEWORK_DAMAGED)
    causes = (*owners, UNLINKED) if gone else ()
    state = f"is {suspect.detail or suspect.problem}" if gone else "is not the file that was installed"
    return ImportFault(f"{suspect.path}{whose} {state}.", (_again(situation, suspect),), causes)


def _not_installed(suspect: SuspectFile) -> ImportFault:
    package = ReplacePackage(suspect.owner, suspect.detail, why="the import needs it")
    why = f"{suspect.owner} is required and not installed."
    return ImportFault(why, (Fix(f"Install {suspect.owner}", (package,)),), (REQUIREMENTS,))


def _for_another(situation: Situation, suspect: SuspectFile) -> ImportFault:
    """A file that was made for another Python or processor: whatever came with it has to be installed by this one."""
    here = f"Python {situation.python}" if suspect.problem == "other-python" else situation.machine.system.arch.value
    why = f"{suspect.path} is for {suspect.detail}, and this is {here or 'another'}."
    if not suspect.owner:
        return ImportFault(why, (CREATE_AGAIN,))
    causes = (OTHER_PYTHON, *((DAMAGED,) if suspect.owner == "torch" else ()))
    return ImportFault(why, (_again(situation, suspect),), causes)


def _again(situation: Situation, suspect: SuspectFile) -> Fix:
    """The owner of a file once more: the same version, and nothing that it requires."""
    if suspect.owner == "torch" and situation.torch is not None:
        return reinstall_torch(situation, situation.torch)
    package = Distribution(suspect.owner, suspect.version)
    return Fix(
        f"Install {named(suspect)} again", reinstall_all(situation, (package,), "its files are not as installed")
    )


def named(suspect: SuspectFile) -> str:
    """The owner and its version."""
    return f"{suspect.owner} {suspect.version}".strip()
