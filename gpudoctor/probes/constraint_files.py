"""Constraint files of pip and uv: the lines about packages that matter here, each with its place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gpudoctor.dependencies import parsed
from gpudoctor.host import Host
from gpudoctor.machine import Constraint
from gpudoctor.privacy import without_secrets

_INCLUDE = r"(?:-[cr]\s*|--(?:constraint|requirement)[\s=]\s*)(\S+)"
_COMMENT = r"(?:^|\s)#.*$"
_LIMIT = 1 << 20
_MOST_FILES = 20
_MOST_LINES = 20_000
_LONGEST = 300


class Constraints(NamedTuple):
    """What constraint files say, those that could not be read, and those that are not there."""

    lines: tuple[Constraint, ...]
    unread: tuple[str, ...]
    lost: tuple[str, ...]


def read_constraints(host: Host, paths: Iterable[str], folder: str, names: Collection[str]) -> Constraints:
    """The lines about `names` in these files and in those that they include; paths are relative to `folder`."""
    found: list[Constraint] = []
    unread: list[str] = []
    lost: list[str] = []
    waiting = [_absolute(path, folder) for path in paths]
    for number, path in enumerate(waiting):
        text = host.text(path, _LIMIT) if number < _MOST_FILES and path.startswith("/") else None
        if text is None or text.value is None:
            (lost if text is not None and text.absent else unread).append(without_secrets(path)[:_LONGEST])
            continue
        for line, content in _logical_lines(host.data(path, _LIMIT).value or b""):
            if included := re.match(_INCLUDE, content):
                inner = _absolute(included[1], posixpath.dirname(path))
                if inner not in waiting:
                    waiting.append(inner)
            elif (constraint := constraint_of(content, f"{path}, line {line}")) and matters(constraint.name, names):
                found.append(constraint)
    return Constraints(tuple(found), tuple(dict.fromkeys(unread)), tuple(dict.fromkeys(lost)))


def matters(name: str, names: Collection[str]) -> bool:
    """Whether a constraint of this package can keep a GPU build from being installed."""
    return name in names or name.startswith("nvidia-")


def constraint_of(line: str, source: str) -> Constraint | None:
    """A line of a constraint file; None if it limits nothing."""
    requirement = re.split(r"\s--?[a-z]", line, maxsplit=1)[0].strip()  # --hash=..., --config-settings ...
    found = parsed(requirement)
    if found is None:
        return None
    specifier = found.specifier
    if "@" in (head := requirement.partition(";")[0]):
        specifier = f"@ {without_secrets(head.partition('@')[2].strip())[:_LONGEST]}"
    return Constraint(found.name, specifier, found.marker, source) if specifier else None


def _absolute(path: str, folder: str) -> str:
    path = path.removeprefix("file://")
    return path if "://" in path else posixpath.normpath(posixpath.join(folder, path))


def _logical_lines(content: bytes) -> Iterator[tuple[int, str]]:
    """Lines without comments; those that a backslash joins are one, with the number of the first."""
    begun, pending = 0, ""
    for number, raw in enumerate(content.decode("utf-8", "replace").splitlines()[:_MOST_LINES], 1):
        line = re.sub(_COMMENT, "", raw)
        begun = begun if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        if text := (pending + line).strip():
            yield begun, text
        pending = ""
    if pending.strip():
        yield begun, pending.strip()
