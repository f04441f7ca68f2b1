"""The torch that `uv sync`, `poetry install` and their like install: that of their lock file, or what their project
requires."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.installs import PipInstall, install_of, split_options
from gpudoctor.dockerfile.markers import applies
from gpudoctor.dockerfile.other_locks import (
    LockedTorch,
    of_pdm,
    of_pipenv,
    of_pipfile,
    of_pixi,
    of_pixi_manifest,
    requirements_of,
)
from gpudoctor.dockerfile.projects import Choice
from gpudoctor.dockerfile.requirements import Read, Requirement, RequirementCollector
from gpudoctor.dockerfile.variables import OF_THE_MACHINE, OVERRIDE_CUDA
from gpudoctor.frameworks.package_spec import PACKAGE_INDEX

_FOLDER = ("--project", "--directory", "-C", "-P", "--manifest-path")
_WITH_VALUE = frozenset({
    *_FOLDER, "--extra", "--group", "--python", "-p", "--link-mode", "--cache-dir", "-E", "--extras", "--with",
    "--without", "--only", "--no-group", "-G", "-L", "--lockfile", "-e", "--environment", "--platform",
})  # fmt: skip
_VERBS = {"uv": ("sync",), "poetry": ("install", "sync"), "pdm": ("install", "sync"), "pipenv": ("install", "sync"),
          "pixi": ("install",)}  # fmt: skip
_LOCK_FILES = {"pipenv": "Pipfile.lock"}
_OTHER_CHOICE = ("--all-extras", "--package", "--only-group", "--all-packages", "--only-dev", "--no-sources",
                 "--no-install-package", "--no-extra", "--script", "--index", "--index-url", "--torch-backend",
                 "--upgrade", "-U", "--upgrade-package", "-P")  # fmt: skip
"""Options of `uv sync` that install something else than the lock file's lists, or from elsewhere."""
_ENTRY = re.compile(
    r'\s*\{ name = "(?P<name>[^"]+)"(?:, version = "(?P<version>[^"]+)")?'
    r'(?:, source = \{ registry = "(?P<registry>[^"]+)" \})?'
    r'(?:, extra = \[[^\]]*\])?(?:, marker = "(?P<marker>[^"]*)")? \},?'
)
_MOST_TORCHES = 50


class _Package(Struct, frozen=True):
    """A package that the lock file names."""

    name: str
    version: str
    registry: str
    line: int
    marker: str = ""


class _Locked(Struct):
    """What a uv.lock says: every torch, what each package requires, and what the project itself requires by list or
    extra."""

    torches: list[_Package] = []
    graph: dict[str, list[_Package]] = {}
    required: dict[str, list[_Package]] = {}
    project: str = ""


class _Call(Struct, frozen=True):
    """A `uv sync`, `poetry install` or the like, with what it chooses."""

    tool: str
    folder: str
    choice: Choice
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    environment: str = "default"
    unlocked: bool = False
    """Whether it ignores the lock file."""


def project_install(
    command: Command, read: Read, lock: Callable[[str], str | None], bounds: Bounds, machine: str
) -> PipInstall | None:
    """What a `uv sync`, `poetry install` or the like installs; None for another command, or if its files leave it
    open. `read` and `lock` give a file of the image, `machine` is x86_64 or aarch64. Of a lock file only torch is
    read."""
    call = _call(command)
    if call is None:
        return None
    path = os.path.join(call.folder, _LOCK_FILES.get(call.tool, f"{call.tool}.lock"))
    text = None if call.unlocked else lock(path)
    if text is None and call.tool in ("uv", "poetry", "pdm"):
        return _unlocked(command, call, RequirementCollector(read, bounds, machine, call.choice))
    if call.tool in ("pdm", "pipenv", "pixi"):
        return _of_others(command, call, text, path, read, machine)
    assert text is not None
    if call.tool == "uv":
        torch = _of_uv(_read(text), call, machine)
    else:
        collected = RequirementCollector(read, bounds, machine, call.choice)
        collected.table(os.path.join(call.folder, "pyproject.toml"), call.choice)
        exact = next((one.exact for one in collected.requirements() if one.name == "torch"), "")
        torch = _of_poetry(text, call, machine, exact)
    if torch is None:
        return None
    requirement = Requirement("torch", f"=={torch.version}", file=f"{read.shown(path)}:{torch.line}")
    urls = () if torch.registry in ("", PACKAGE_INDEX) else (torch.registry,)
    return PipInstall(call.tool, (requirement,), index_urls=urls, locked=True)


def _of_others(
    command: Command, call: _Call, text: str | None, path: str, read: Read, machine: str
) -> PipInstall | None:
    """What pdm, pipenv or pixi install: the torch of the lock file, or of a Pipfile or pixi.toml without one."""
    development = call.choice.development
    torch: LockedTorch | None = None
    if call.tool == "pdm":
        blocks = {_value(block, "name"): block for block in _blocks(text or "") if _in_groups(block, call)}
        torch = of_pdm(blocks, read(os.path.join(call.folder, "pyproject.toml")))
    elif text is not None:
        torch = of_pixi(text, call.environment, machine) if call.tool == "pixi" else of_pipenv(text, development)
    else:
        path = os.path.join(call.folder, "pixi.toml" if call.tool == "pixi" else "Pipfile")
        manifest = read(path) or ""
        pixi = call.tool == "pixi"
        torch = of_pixi_manifest(manifest, call.environment, machine) if pixi else of_pipfile(manifest, development)
    overridden = command.variables.get(OVERRIDE_CUDA) not in (None, "", OF_THE_MACHINE)
    if torch is None or (torch.of_conda and text is None and overridden):
        return None
    requirements = requirements_of(torch, read.shown(path))
    if torch.of_conda:
        return PipInstall(call.tool, requirements, backend="cpu", channel="conda-forge", locked=text is not None)
    urls = () if torch.index.rstrip("/") in ("", PACKAGE_INDEX) else (torch.index,)
    locked = text is not None
    return PipInstall(call.tool, requirements, index_urls=urls, locked=locked)


def _in_groups(block: list[tuple[int, str]], call: _Call) -> bool:
    """Whether a package of pdm.lock is in the groups that a command installs."""
    groups = set(re.findall(r'"([^"]+)"', _line(block, "groups"))) or {"default"}
    return bool(groups & {"default", *call.choice.groups}) if not call.choice.development else True


def _unlocked(command: Command, call: _Call, collected: RequirementCollector) -> PipInstall:
    """What pyproject.toml requires: without a lock file the tool makes one while the image is built."""
    collected.table(os.path.join(call.folder, "pyproject.toml"), call.choice)
    return install_of(call.tool, collected, command)


def _call(command: Command) -> _Call | None:
    tool, words = os.path.basename(command.argv[0]), command.argv[1:]
    plain, options, flags = split_options(words, _WITH_VALUE)
    if not plain or plain[0] not in _VERBS.get(tool, ()) or "$" in command.text:
        return None

    def given(*names: str) -> tuple[str, ...]:
        values = (value for name in names for value in options.get(name, ()))
        return tuple(part for value in values for part in re.split(r"[ ,]+", value) if part)

    folder = next(iter(given(*_FOLDER)), "")
    if tool == "uv":
        if set(_OTHER_CHOICE) & set(flags):
            return None
        development = not {"--no-dev", "--no-default-groups"} & set(flags)
        choice = Choice(given("--extra"), given("--group"), all_groups="--all-groups" in flags,
                        development=development, sources="uv")  # fmt: skip
        return _Call(tool, folder, choice, without=given("--no-group"))
    if tool in ("pdm", "pipenv", "pixi"):
        if plain[1:] or {"--categories", "--all", "-a", "--skip", "-L", "--lockfile", "--no-default"} & set(flags):
            return None
        production = bool({"--prod", "--production"} & set(flags))
        development = not production if tool == "pdm" else bool({"--dev", "-d"} & set(flags))
        folder = folder or next(iter(given("-p")), "") if tool == "pdm" else folder
        folder = os.path.dirname(folder) if folder.endswith(".toml") else folder
        choice = Choice((), (*given("-G", "--group", "--with"),), development=development)
        return _Call(tool, folder, choice, without=given("--without"),
                     environment=next(iter(given("-e", "--environment")), "default"),
                     unlocked="--skip-lock" in flags)  # fmt: skip
    only = given("--only") or (("main",) if {"--no-dev", "--only-root"} & set(flags) else ())
    choice = Choice(given("-E", "--extras"), (*given("--with"), *only), all_extras="--all-extras" in flags,
                    project=not only or "main" in only, development=not only, sources="poetry")  # fmt: skip
    return _Call(tool, folder, choice, only, given("--without"))


def _of_uv(lock: _Locked, call: _Call, machine: str) -> _Package | None:
    """The one torch that the lists of these extras and groups leave; None if there are none or several."""
    extras = call.choice.extras
    lists = ("", *extras, *call.choice.groups, *(("dev",) if call.choice.development else ()))
    own = [one for name in lists for one in lock.required.get(name, ())]
    if len(lock.torches) == 1:
        return lock.torches[0] if _reaches_torch(lock, own, machine) else None
    entries = [one for one in own if one.name == "torch" and one.version]
    active = {f"extra-{len(lock.project)}-{lock.project}-{extra}" for extra in extras}
    if len(entries) > _MOST_TORCHES:
        return None
    # Of extras that exclude each other one is active: with several, each entry may be the one.
    extra = next(iter(active), "")
    chosen = [one for one in entries if len(active) > 1 or applies(one.marker, machine, extra) is not False]
    versions = {(one.version, one.registry) for one in chosen}
    return chosen[0] if len(versions) == 1 else None


def _reaches_torch(lock: _Locked, own: list[_Package], machine: str) -> bool:
    """Whether requirements of the project bring torch, itself or through other packages. Extras of these are left
    out."""
    seen: set[str] = set()
    open_ = own
    while open_:
        names = {one.name for one in open_ if one.name not in seen and applies(one.marker, machine) is not False}
        seen |= names
        open_ = [one for name in names for one in lock.graph.get(name, ())]
    return "torch" in seen


def _of_poetry(text: str, call: _Call, machine: str, exact: str) -> _Package | None:
    """The one torch of a poetry.lock that these groups and extras leave; None if there are none or several. `exact`
    is the version that pyproject.toml pins for them: the lock file does not tell which extra a torch is for."""
    found: list[_Package] = []
    for block in _blocks(text):
        if _value(block, "name") != "torch" or len(found) > _MOST_TORCHES:
            continue
        groups = set(re.findall(r'"([^"]+)"', _line(block, "groups"))) or {"main"}
        wanted = set(call.only) & groups if call.only else groups - set(call.without)
        extra = bool(call.choice.extras) or call.choice.all_extras
        if not wanted or ("true" in _line(block, "optional") and not extra):
            continue
        marker = _line(block, "markers").strip("\"'").replace('\\"', '"')
        if not marker.startswith("{") and "extra" not in marker and applies(marker, machine) is False:
            continue
        version, url = _value(block, "version"), _line(block, "url").strip('"')
        found.append(_Package("torch", version, url, block[0][0]))
    pinned = [one for one in found if one.version == exact] or found
    return pinned[0] if len({(one.version, one.registry) for one in pinned}) == 1 else None


def _line(block: list[tuple[int, str]], key: str) -> str:
    """What follows "key = " in a block; "" if nothing does."""
    return next((line.partition(" = ")[2] for _, line in block if line.startswith(f"{key} = ")), "")


@lru_cache(maxsize=4)
def _read(text: str) -> _Locked:
    """What a uv.lock says. uv writes one entry a line."""
    found = _Locked()
    for block in _blocks(text):
        name = _value(block, "name")
        source = next((line for _, line in block if line.startswith("source = ")), "")
        if name == "torch":
            registry = re.search(r'registry = "([^"]+)"', source)
            url = registry[1] if registry else ""
            found.torches.append(_Package(name, _value(block, "version"), url, block[0][0]))
        lists = _lists(block)
        if re.search(r'(virtual|editable) = "\."', source):
            found.project, found.required = name, lists
        found.graph.setdefault(name, []).extend(lists.get("", ()))
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


def _lists(block: list[tuple[int, str]]) -> dict[str, list[_Package]]:
    """The lists of a package: "" for its dependencies, else the name of the extra or group."""
    lists: dict[str, list[_Package]] = {}
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
                _Package(
                    entry["name"], entry["version"] or "", entry["registry"] or "", number, entry["marker"] or ""
                )
            )
    return lists
