"""The torch that `uv sync` installs: that of uv.lock, for the extras of the command."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.installs import PipInstall, Requirement

if TYPE_CHECKING:
    from packaging.markers import Marker

_PACKAGE_INDEX = "https://pypi.org/simple"
_WITH_VALUE = ("--extra", "--group", "--python", "-p", "--link-mode", "--project", "--directory", "--cache-dir")
_OTHER_CHOICE = ("--all-extras", "--package", "--only-group", "--all-packages", "--only-dev", "--no-sources",
                 "--no-install-package", "--no-extra", "--script", "--index", "--index-url", "--torch-backend",
                 "--upgrade", "-U", "--upgrade-package", "-P")  # fmt: skip
_ENTRY = re.compile(
    r'\s*\{ name = "torch"(?:, version = "(?P<version>[^"]+)")?(?:, source = \{ registry = "(?P<registry>[^"]+)" \})?'
    r'(?:, extra = \[[^\]]*\])?(?:, marker = "(?P<marker>[^"]*)")? \},?'
)
_PYTHONS = ("3.10", "3.11", "3.12", "3.13")
_LONGEST_MARKER, _NESTED, _MOST_TORCHES = 4_000, 8, 50


class _Torch(Struct, frozen=True):
    """A torch that the lock file names."""

    version: str
    registry: str
    line: int
    marker: str = ""


class _Locked(Struct):
    """What the lock file says of torch: its packages, and what the project itself requires by list or extra."""

    packages: list[_Torch] = []
    required: dict[str, list[_Torch]] = {}
    project: str = ""


def uv_sync(command: Command, read: Callable[[str], str | None], machine: str) -> PipInstall | None:
    """The torch that a `uv sync` installs; None for another command, or if the lock file leaves it open. `read` gives
    a file of the image, `machine` is x86_64 or aarch64."""
    words = list(command.argv)
    if os.path.basename(words[0]) != "uv" or "sync" not in words[1:4] or "$" in command.text:
        return None
    if any(word.partition("=")[0] in _OTHER_CHOICE for word in words):
        return None
    options: dict[str, list[str]] = {}
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _WITH_VALUE:
            options.setdefault(name, []).append(value if equals else next(rest, ""))
    folder = next(iter((*options.get("--project", ()), *options.get("--directory", ()))), "")
    path = os.path.join(folder, "uv.lock")
    text = read(path)
    torch = _chosen(_read(text), options.get("--extra", []), options.get("--group", []), machine) if text else None
    if torch is None:
        return None
    requirement = Requirement("torch", f"=={torch.version}", file=f"{path}:{torch.line}")
    urls = () if torch.registry == _PACKAGE_INDEX else (torch.registry,)
    return PipInstall("uv", (requirement,), index_urls=urls, executable=words[0], locked=True)


def _chosen(lock: _Locked, extras: list[str], groups: list[str], machine: str) -> _Torch | None:
    """The one torch that the lists of these extras and groups leave; None if there are none or several."""
    if len(lock.packages) == 1 and lock.required:
        return lock.packages[0]
    lists = ("", *extras, *groups, "dev")
    entries = [one for name in lists for one in lock.required.get(name, ()) if one.version]
    active = {f"extra-{len(lock.project)}-{lock.project}-{extra}" for extra in extras}
    if len(entries) > _MOST_TORCHES:
        return None
    chosen = [one for one in entries if _applies(one.marker, active, machine)]
    versions = {(one.version, one.registry) for one in chosen}
    return chosen[0] if len(versions) == 1 else None


def _applies(marker: str, active: set[str], machine: str) -> bool:
    """Whether a marker holds on Linux, for some Python. Of extras that exclude each other one is active."""
    if not marker:
        return True
    if len(marker) > _LONGEST_MARKER or "(" * _NESTED in marker or len(active) > 1:
        return True  # it may: then several are left, and none is chosen
    own = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": machine}
    extra = next(iter(active), "")
    parsed = _parsed(marker)
    try:
        return parsed is None or any(
            parsed.evaluate({**own, "extra": extra, "python_version": one, "python_full_version": f"{one}.0"})
            for one in (_PYTHONS if "python" in marker else _PYTHONS[:1])
        )
    except (ValueError, KeyError, RecursionError):
        return True


@lru_cache
def _parsed(marker: str) -> Marker | None:
    from packaging.markers import InvalidMarker, Marker

    try:
        return Marker(marker)
    except (InvalidMarker, ValueError, RecursionError):
        return None


@lru_cache(maxsize=4)
def _read(text: str) -> _Locked:
    """The packages named torch, and the requirements of the project itself. uv writes one entry a line."""
    found = _Locked()
    for block in _blocks(text):
        name = _value(block, "name")
        source = next((line for _, line in block if line.startswith("source = ")), "")
        if name == "torch":
            registry = re.search(r'registry = "([^"]+)"', source)
            found.packages.append(_Torch(_value(block, "version"), registry[1] if registry else "", block[0][0]))
        elif re.search(r'(virtual|editable) = "\."', source):
            found.project = name
            found.required.update(_lists(block))
    return found


def _blocks(text: str) -> Iterator[list[tuple[int, str]]]:
    """The lines of each package, with their numbers."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line == "[[package]]":
            yield block
            block = []
        block.append((number, line))
    yield block


def _value(block: list[tuple[int, str]], key: str) -> str:
    found = (re.fullmatch(rf'{key} = "([^"]*)"', line) for _, line in block[:6])
    return next((one[1] for one in found if one), "")


def _lists(block: list[tuple[int, str]]) -> dict[str, list[_Torch]]:
    """The torches of each list of the project: "" for its dependencies, else the name of the extra or group."""
    lists: dict[str, list[_Torch]] = {}
    name = None
    for number, line in block:
        if opened := re.fullmatch(r"([\w-]+) = \[", line):
            name = "" if opened[1] == "dependencies" else opened[1]
        elif line.startswith(("]", "[package.metadata")):
            name = None
            if line.startswith("[package.metadata"):
                break
        elif name is not None and (entry := _ENTRY.fullmatch(line)):
            lists.setdefault(name, []).append(
                _Torch(entry["version"] or "", entry["registry"] or "", number, entry["marker"] or "")
            )
    return lists
