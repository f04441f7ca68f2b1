"""The driver's libcuda: in a folder where the loader does not look, or part of a container image."""

from __future__ import annotations

import posixpath

from gpudoctor.finding import Fix, SetVariable
from gpudoctor.machine import Library
from gpudoctor.situation import Situation


def beside_the_path(situation: Situation) -> Library | None:
    """A libcuda.so.1 outside the load path, if none is on it."""
    return next(iter(situation.machine.load_path.beside), None)


def put_on_path(situation: Situation, library: Library) -> Fix:
    """The fix that lets the loader look in the library's folder."""
    folder = posixpath.dirname(library.path)
    folders = ":".join(filter(None, (folder, situation.variable("LD_LIBRARY_PATH"))))
    variable = SetVariable("LD_LIBRARY_PATH", folders, why=f"{posixpath.basename(library.path)} is in this folder")
    return Fix(f"Put {folder} on the load path", (variable,))


def same_version(one: str, other: str) -> bool:
    """Whether two driver versions agree as far as both go ("580.95" and "580.95.05" may be the same)."""
    mine, theirs = one.split("."), other.split(".")
    shorter = min(len(mine), len(theirs))
    return one == other or (
        shorter > 1
        and [int(n[:9]) if n.isdecimal() else n for n in mine[:shorter]]
        == [int(n[:9]) if n.isdecimal() else n for n in theirs[:shorter]]
    )


def baked_in(situation: Situation) -> Library | None:
    """A driver library that is part of the container's image, not mounted, and has another version than the loaded
    module."""
    module = situation.machine.nvidia.module.value
    if not situation.in_container or module is None:
        return None
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        library = situation.machine.load_path.first(name)
        if library is None or library.version is None or library.kind not in ("driver", "image"):
            continue
        if (library.kind == "image" or library.mounted is False) and not same_version(
            library.version, module.version
        ):
            return library
    return None
