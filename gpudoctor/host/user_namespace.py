"""User namespaces, in which not every user and group has its own number: rootless containers live in one."""

from __future__ import annotations

UID_MAP = "/proc/self/uid_map"
_EVERYBODY = "0 0 4294967295"


def maps_everybody(uid_map: str) -> bool:
    """Whether the process with this map of numbers lives outside of any such namespace."""
    return " ".join(uid_map.split()) == _EVERYBODY
