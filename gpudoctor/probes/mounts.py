"""The mount table of the examined process, from /proc (proc_pid_mountinfo(5))."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.machine import Fact, known, unknown

_OCTAL = r"\\([0-7]{3})"


class Mount(Struct, frozen=True):
    """One line of the table. `root` is the mounted path within its own file system."""

    point: str
    root: str
    kind: str
    source: str
    options: tuple[str, ...]


def process_files(host: Host, name: str) -> tuple[str, ...]:
    """Where /proc describes the examined system's own processes, best first.

    Below a root, /proc/self of a mounted procfs would be gpudoctor itself, in another container.
    """
    if host.live:
        return (f"/proc/self/{name}",)
    own = (f"/proc/self/{name}",) if host.resolve("/proc/self") == "/proc/self" else ()
    return (f"/proc/1/{name}", *own)


def read_mounts(host: Host) -> Fact[tuple[Mount, ...]]:
    """All mounts in order; if two have one mount point, the later hides the earlier."""
    for path in process_files(host, "mountinfo"):
        text = host.text(path)
        if text.value:
            return known(tuple(_parse_mountinfo(text.value)), path)
    recorded = () if host.resolve("/proc/mounts") != "/proc/mounts" else ("/proc/mounts",)
    for path in (*process_files(host, "mounts"), *recorded):
        text = host.text(path)
        if text.value:
            return known(tuple(_parse_mounts(text.value)), path)
    return unknown("no mount table", "/proc/self/mountinfo")


def mount_at(mounts: tuple[Mount, ...], point: str) -> Mount | None:
    """The mount at exactly that point."""
    return next((mount for mount in reversed(mounts) if mount.point == point), None)


def mount_below(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    """The mount that a path lies on."""
    covering = [m for m in mounts if m.point in ("/", path) or path.startswith(m.point + "/")]
    return max(reversed(covering), key=lambda mount: len(mount.point), default=None)


def _parse_mountinfo(text: str) -> Iterator[Mount]:
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, super_fields = left.split(), right.split()
        if len(fields) >= 6 and len(super_fields) >= 2:
            options = fields[5].split(",") + (super_fields[2].split(",") if len(super_fields) > 2 else [])
            yield Mount(
                point=_plain(fields[4]),
                root=_plain(fields[3]),
                kind=super_fields[0],
                source=_plain(super_fields[1]),
                options=tuple(map(_plain, options)),
            )


def _parse_mounts(text: str) -> Iterator[Mount]:
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[1].startswith("/"):
            yield Mount(
                point=_plain(fields[1]),
                root="",
                kind=fields[2],
                source=_plain(fields[0]),
                options=tuple(map(_plain, fields[3].split(","))),
            )


def _plain(field: str) -> str:
    """White space and backslashes are written as octal numbers."""
    return re.sub(_OCTAL, lambda match: chr(int(match[1], 8)), field) if "\\" in field else field
