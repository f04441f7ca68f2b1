"""Which project files ask for torch beside an environment, and which tool owns a conda prefix."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from gpudoctor.host import Host
from gpudoctor.machine import TorchAsked
from gpudoctor.privacy import without_secrets

CondaTool = Literal["conda", "mamba", "micromamba"]

# No patterns compiled in advance: most folders hold none of these files.
_TORCH = r"(?i)torch\s*(\[[a-z0-9, -]*\]\s*)?([<>=!~;@(].*)?$"
_REQUIREMENTS = r"(requirements|constraints)[\w.-]*\.txt"
_LIMIT = 1 << 20
_MOST_MEMBERS = 200
_MOST_ASKED = 200
_LONGEST = 200


def conda_tool(host: Host, prefix: str) -> CondaTool:
    """The tool of the last command in a prefix's history; conda if it names none."""
    history = host.text(posixpath.join(prefix, "conda-meta/history"), _LIMIT).value or ""
    for line in reversed(history.splitlines()):
        if line.startswith("# cmd: "):
            name = posixpath.basename(line.removeprefix("# cmd: ").split(" ", 1)[0])
            return "micromamba" if name == "micromamba" else "mamba" if name == "mamba" else "conda"
    return "conda"


def torch_asked(host: Host, folder: str) -> tuple[TorchAsked, ...]:
    """The lines of a project's pyproject.toml and requirements files that ask for torch."""
    names = host.names(folder).value or ()
    lists = [name for name in sorted(names) if name.endswith(".txt") and re.fullmatch(_REQUIREMENTS, name)]
    lines = (line for name in lists for line in _listed(host, folder, name))
    declared = _declared(host, folder) if "pyproject.toml" in names else ()
    return tuple(itertools.islice(itertools.chain(declared, lines), _MOST_ASKED))


def _listed(host: Host, folder: str, name: str) -> Iterator[TorchAsked]:
    text = host.text(posixpath.join(folder, name), _LIMIT).value or ""
    for line in text.splitlines():
        requirement = line.partition("#")[0].strip().rstrip("\\").strip()
        if re.match(_TORCH, requirement):
            yield TorchAsked(file=name, requirement=_shown(requirement), hashed="--hash=" in text)


def _declared(host: Host, folder: str) -> Iterator[TorchAsked]:
    text = host.text(posixpath.join(folder, "pyproject.toml"), _LIMIT).value or ""
    project = _toml(text)
    yield from _asked_in(project, "pyproject.toml")
    left = _LIMIT
    for member in itertools.islice(dict.fromkeys(_members(host, folder, project)), _MOST_MEMBERS):
        file = f"{member}/pyproject.toml"
        text = host.text(posixpath.join(folder, file), _LIMIT).value or ""
        if "torch" in text.lower() and (left := left - len(text)) >= 0:
            yield from _asked_in(_toml(text), file)


def _toml(text: str) -> dict[str, Any]:
    """A TOML text as a table; empty if it is invalid."""
    from gpudoctor.bounded_toml import TomlError, read_toml

    try:
        return read_toml(text)
    except (ImportError, TomlError):
        return {}


def _members(host: Host, folder: str, project: dict[str, Any]) -> Iterator[str]:
    """Folders of a uv workspace: their requirements are locked together with the project's own."""
    listed = _table(_table(_table(project, "tool"), "uv"), "workspace").get("members")
    for pattern in listed if isinstance(listed, list) else ():
        if not isinstance(pattern, str):
            continue
        parent, _, last = pattern.strip("/").rpartition("/")
        if last == "*" and "*" not in parent:
            names = host.names(posixpath.join(folder, parent)).value or ()
            yield from (posixpath.join(parent, name) for name in sorted(names)[:_MOST_MEMBERS])
        elif "*" not in pattern and ".." not in pattern:
            yield posixpath.join(parent, last)


def _asked_in(project: dict[str, Any], file: str) -> Iterator[TorchAsked]:
    table = _table(project, "project")
    yield from _asking(table.get("dependencies"), file)
    for extra, lines in _table(table, "optional-dependencies").items():
        yield from _asking(lines, file, extra=extra)
    for group, lines in _table(project, "dependency-groups").items():
        yield from _asking(lines, file, group=group)


def _table(parent: Any, name: str) -> dict[str, Any]:
    found = parent.get(name) if isinstance(parent, dict) else None
    return found if isinstance(found, dict) else {}


def _asking(lines: Iterable[Any] | None, file: str, *, group: str = "", extra: str = "") -> Iterator[TorchAsked]:
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, str) and re.match(_TORCH, line.strip()):
            yield TorchAsked(file=file, requirement=_shown(line.strip()), group=group, extra=extra)


def _shown(requirement: str) -> str:
    """Shortened for display; secrets are removed first, since half a secret is still a secret."""
    return without_secrets(requirement)[:_LONGEST]
