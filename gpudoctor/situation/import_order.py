"""What a variable or a start file puts before the packages of the examined environment."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable

from gpudoctor.finding import SetVariable, UnsetVariable, VariableRemedy
from gpudoctor.machine import PythonEnvironment
from gpudoctor.situation import Situation

NO_USER_SITE = "PYTHONNOUSERSITE"


def from_pythonpath(situation: Situation, path: str) -> bool:
    """Whether Python finds a file in a folder of PYTHONPATH that is none of the environment's own."""
    folders = (posixpath.normpath(part) for part in (situation.variable("PYTHONPATH") or "").split(":") if part)
    return found_in(folders, path, situation.environment.site_packages)


def found_in(folders: Iterable[str], path: str, own: Collection[str]) -> bool:
    """Whether Python finds a file in one of these folders rather than in the environment's own. An environment often
    lies below such a folder, as /project/.venv does: the innermost folder counts."""
    around = [folder for folder in (*folders, *own) if path.startswith(f"{folder.rstrip('/')}/")]
    return bool(around) and max(around, key=len) not in own


def user_site_ahead(environment: PythonEnvironment) -> str:
    """The user's site folder, where Python looks into it before the environment's own folder: it does in a conda
    environment and in a Python that is no venv. "" elsewhere."""
    first, own = environment.site_packages[:1], f"{environment.prefix.rstrip('/')}/"
    return first[0] if first and len(environment.site_packages) > 1 and not first[0].startswith(own) else ""


def remedy_for_path(situation: Situation, path: str, why: str) -> VariableRemedy | None:
    """The variable that keeps Python from finding a file outside of the environment before its own packages."""
    if from_pythonpath(situation, path):
        return UnsetVariable("PYTHONPATH", why=why)
    user = user_site_ahead(situation.environment)
    return SetVariable(NO_USER_SITE, "1", why=why) if user and path.startswith(f"{user}/") else None


def remedy_title(remedy: VariableRemedy) -> str:
    """The title of a fix that lets the environment's own packages through."""
    return "Unset PYTHONPATH" if isinstance(remedy, UnsetVariable) else "Keep Python out of the user's site folder"
