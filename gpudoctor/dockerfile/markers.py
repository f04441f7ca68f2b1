"""Markers of requirements, on the Linux of an image."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.markers import Marker

PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
_LONGEST, _NESTED, _PARENTHESES = 4_000, 8, 500


def applies(marker: str, machine: str, extra: str = "") -> bool | None:
    """Whether a marker holds on Linux; None if that depends on the Python, or is unknown. `machine` is x86_64 or
    aarch64."""
    if not marker.strip():
        return True
    parsed = _parsed(marker)
    if parsed is None:
        return None
    own = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": machine}
    try:
        answers = {
            parsed.evaluate({**own, "extra": extra, "python_version": one, "python_full_version": f"{one}.0"})
            for one in (PYTHONS if "python" in marker else PYTHONS[-1:])
        }
    except (ValueError, KeyError, RecursionError):
        return None
    return answers.pop() if len(answers) == 1 else None


@lru_cache
def _parsed(marker: str) -> Marker | None:
    from packaging.markers import InvalidMarker, Marker

    if len(marker) > _LONGEST or "(" * _NESTED in marker or marker.count("(") > _PARENTHESES:
        return None
    try:
        return Marker(marker)
    except (InvalidMarker, ValueError, RecursionError):
        return None
