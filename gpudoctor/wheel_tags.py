"""The tags of a wheel: which Python, processor and C library it is for (PEP 425)."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from gpudoctor.matrix.versions import figures

_LIBRARIES = {"many": "Linux with glibc", "musl": "Linux with musl (Alpine)"}
"""The C library that a tag of Linux stands for."""
_CPYTHON = r"cp(\d)(\d+)"
_LINUX = r"(many|musl)?linux(?:\d+|_\d+_\d+)?_(\w+)"
_ARCHS = {"i686": "i386", "armv6l": "32-bit ARM", "armv7l": "32-bit ARM", "ppc64": "ppc64le"}
"""What a program's own header calls them, where that is another name."""
_LONGEST = 1000
_FILE = r"(?:[^/]*/)*(?P<name>[^-/]+)-(?P<version>[^-/]+)(?:-\d[^-/]*)?-(?P<tags>[^-/]+-[^-/]+-[^-/]+)\.whl"


class WheelFile(Struct, frozen=True):
    """What the name of a wheel file says."""

    name: str
    version: str
    tags: tuple[str, str, str]


def wheel_file(path: str) -> WheelFile | None:
    """The wheel that a path or an address names; None for any other file."""
    found = re.fullmatch(_FILE, path.partition("#")[0]) if len(path) < _LONGEST else None
    if found is None:
        return None
    python, abi, platforms = found["tags"].split("-")
    return WheelFile(found["name"], found["version"].replace("%2B", "+"), (python, abi, platforms))


@lru_cache(maxsize=256)  # most packages have the same few tags
def misfit(python_tag: str, abi: str, platforms: str, *, python: str, machine: str, musl: bool) -> str:
    """What one tag is for, if that is not this Python on this machine. A tag may join several with dots."""
    others = [_other_platform(one, machine, musl) for one in platforms.split(".")]
    if all(others):
        return others[0]
    named = [re.fullmatch(_CPYTHON, one) for one in python_tag.split(".")]
    if abi in ("none", "") or not named[0] or not all(named):
        return ""  # for every Python, or for PyPy
    least = min((int(one[1]), int(one[2])) for one in named if one)
    free_threaded, own = python.endswith("t"), figures(python.removesuffix("t"))
    if abi == "abi3":
        return f"Python {least[0]}.{least[1]} and newer" if own < least else ""
    matches = [f"{one[1]}.{one[2]}{'t' if abi.endswith('t') else ''}" for one in named if one]
    return "" if python in matches and abi.endswith("t") == free_threaded else f"Python {matches[0]}"


def _other_platform(tag: str, machine: str, musl: bool) -> str:
    """The platform that a tag names, if it is not this one."""
    if tag == "any":
        return ""
    if tag.startswith(("macosx", "ios")):
        return "macOS"
    if tag.startswith("win"):
        return "Windows"
    found = re.fullmatch(_LINUX, tag)
    if found is None or not machine:
        return ""
    library, processor = found.groups()
    if _ARCHS.get(processor, processor) != machine:
        return processor
    return _LIBRARIES[library] if library and (library == "musl") != musl else ""
