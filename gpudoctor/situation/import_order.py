"""What a variable or a start file puts before the packages of the examined environment."""

from __future__ import annotations

import posixpath

from gpudoctor.situation import Situation


def from_pythonpath(situation: Situation, path: str) -> bool:
    """Whether Python finds a file in a folder of PYTHONPATH that is none of the environment's own."""
    environment = situation.environment
    own = environment.site_packages if environment else ()
    folders = (posixpath.normpath(part) for part in (situation.variable("PYTHONPATH") or "").split(":") if part)
    return any(path.startswith(f"{folder.rstrip('/')}/") for folder in folders if folder not in own)
