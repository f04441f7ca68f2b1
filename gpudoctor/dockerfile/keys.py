"""Where the keys of a service are written, so that a fix can name the line that it adds to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

_MOST = 500
_ENTERED = (
    "deploy", "resources", "reservations", "limits", "requests", "devices", "gpus", "environment", "env",
    "build",
)  # fmt: skip
"""The keys whose values are read, too."""


class Key(Struct, frozen=True):
    line: int
    flow: bool = False
    """Whether its value is written between brackets."""
    listed: bool = False
    """Whether its value is a list."""


def keys_of(service: Any, before: int = 0) -> dict[str, Key]:
    """The keys of a service's node by their paths: "deploy.resources", "environment.CUDA_VISIBLE_DEVICES". An item of
    a list is named by what is before its `=`, by its `name`, or by its number. `before`: the lines before its
    document."""
    return dict(islice(_keys(service, "", before + 1), _MOST))


def _keys(node: Any, above: str, first: int) -> Iterator[tuple[str, Key]]:
    for name, at, value in _parts(node):
        path = f"{above}{name}"
        yield path, Key(at.start_mark.line + first, bool(getattr(value, "flow_style", False)), value.id == "sequence")
        if name in _ENTERED or path == "build.args" or node.id == "sequence":
            yield from _keys(value, f"{path}.", first)


def _parts(node: Any) -> Iterator[tuple[str, Any, Any]]:
    """What a mapping or a list holds: its name, the node where it begins, and its value."""
    if node.id == "mapping":
        yield from ((str(key.value), key, value) for key, value in node.value)
    for number, item in enumerate(node.value if node.id == "sequence" else ()):
        named = item.value.partition("=")[0] if item.id == "scalar" else str(number)
        if item.id == "mapping":
            named = next((str(value.value) for key, value in item.value if key.value == "name"), named)
        yield named, item, item


def added(
    keys: dict[str, Key], path: str, brackets: str, entries: tuple[str, ...]
) -> tuple[Key | None, str, list[str]]:
    """How entries are added below a path: the deepest key of it that is there, its path, and the lines below it."""
    names, depth = path.split("."), path.count(".") + 1
    while depth and ".".join(names[:depth]) not in keys:
        depth -= 1
    there = ".".join(names[:depth])
    key, missing = keys.get(there), names[depth:]
    if not missing and key is not None and not key.flow:
        return key, there, [f"    - {one}" if brackets == "[]" else f"    {one}" for one in entries]
    written = ", ".join(entries)
    if missing:
        written = f"{brackets[0]}{written}{brackets[1]}"
    if key is not None and key.flow:
        for number, name in enumerate(reversed(missing)):
            written = f"{name}: {written}" if number == len(missing) - 1 else f"{{{name}: {written}}}"
        return key, there, [f"    {written}"]
    lines = [f"{'  ' * number}    {name}:" for number, name in enumerate(missing)]
    return key, there, [*lines[:-1], f"{lines[-1]} {written}"]
