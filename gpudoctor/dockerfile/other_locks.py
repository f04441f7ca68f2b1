"""The torch in the lock files of pdm, pipenv and pixi, in a Pipfile and in a pixi.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.bounded_toml import TomlError, read_toml
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.machine.torch import COMPANIONS, TORCH_AND_COMPANIONS

_WHEEL = re.compile(
    r"(?P<index>https?://\S+/whl/(?:nightly/|test/)?(?:cu\d+|rocm[\d.]+|cpu)/?)?\S*?torch-(?P<version>[^/-]+)-cp"
)
_ENTRY = re.compile(r'\s*"?torch"?\s*[:=]')
_INDEX = re.compile(r"https?://\S*/whl/")
_CONDA_WHEEL = re.compile(r"      - conda: \S+/conda-forge/[\w-]+/pytorch-(?P<version>[\d.]+)-cpu_\S+")
_PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}


class LockedTorch(Struct, frozen=True):
    """The one torch that a file names, and the index that it comes from ("": that of the tool)."""

    specifier: str
    line: int
    index: str = ""
    companions: tuple[tuple[str, str], ...] = ()
    """torchvision and torchaudio beside it, with what the file requires of them."""
    of_conda: bool = False
    """Whether it is a build of conda-forge for CPUs."""


def of_pdm(blocks: dict[str, list[tuple[int, str]]], project: str | None) -> LockedTorch | None:
    """The torch of the blocks of pdm.lock, by their names. The index is that of its files, or the source of
    pyproject.toml for torch."""
    block = blocks.get("torch")
    if block is None:
        return None
    version, *companions = (_pinned(blocks[name]) for name in TORCH_AND_COMPANIONS if name in blocks)
    wheel = next((found for _, line in block if (found := _WHEEL.search(line)) and found["index"]), None)
    index = wheel["index"] if wheel else next(_sources(project), "")
    beside = tuple(zip((name for name in COMPANIONS if name in blocks), companions, strict=True))
    return LockedTorch(version, block[0][0], index, beside)


def _pinned(block: list[tuple[int, str]]) -> str:
    return next((f"=={line.split(chr(34))[1]}" for _, line in block if line.startswith('version = "')), "")


def _sources(project: str | None) -> Iterator[str]:
    """The sources of pdm for torch that are indexes of torch."""
    try:
        document = read_toml(project or "")
    except TomlError:
        return
    tool = document.get("tool")
    pdm = tool.get("pdm") if isinstance(tool, dict) else None
    sources = pdm.get("source") if isinstance(pdm, dict) else None
    for one in sources if isinstance(sources, list) else ():
        url, packages = (one.get("url"), one.get("include_packages")) if isinstance(one, dict) else (None, None)
        named = not isinstance(packages, list) or any(name in ("torch", "torch*") for name in packages)
        if isinstance(url, str) and _INDEX.match(url) and named:
            yield url


def of_pipenv(text: str, development: bool) -> LockedTorch | None:
    """The torch of a Pipfile.lock."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    meta = document.get("_meta")
    urls = _urls(meta.get("sources") if isinstance(meta, dict) else None)
    return _of_tables(text, [document.get("default"), document.get("develop") if development else None], urls)


def of_pipfile(text: str, development: bool) -> LockedTorch | None:
    """The torch of a Pipfile."""
    try:
        document = read_toml(text)
    except TomlError:
        return None
    tables = [document.get("packages"), document.get("dev-packages") if development else None]
    return _of_tables(text, tables, _urls(document.get("source")))


def _urls(sources: Any) -> dict[str, str]:
    rows = [one for one in sources if isinstance(one, dict)] if isinstance(sources, list) else []
    return {str(one.get("name")): one["url"] for one in rows if isinstance(one.get("url"), str)}


def _of_tables(text: str, tables: list[Any], urls: dict[str, str]) -> LockedTorch | None:
    """The torch of tables of packages. Without an index it comes from the first source."""
    packages = {name: one for table in reversed(tables) if isinstance(table, dict) for name, one in table.items()}
    found = {name: _version(packages[name]) for name in TORCH_AND_COMPANIONS if name in packages}
    torch = found.pop("torch", None)
    if torch is None:
        return None
    entry = packages["torch"]
    named = urls.get(str(entry.get("index"))) if isinstance(entry, dict) else None
    lines = (number for number, line in enumerate(text.splitlines(), start=1) if _ENTRY.match(line))
    companions = tuple((name, one) for name, one in found.items() if one is not None)
    return LockedTorch(torch, next(lines, 1), named or next(iter(urls.values()), ""), companions)


def _table(table: Any, name: str) -> dict[str, Any]:
    value = table.get(name) if isinstance(table, dict) else None
    return value if isinstance(value, dict) else {}


def _version(entry: Any) -> str | None:
    """What an entry requires; None if nothing tells."""
    table = entry if isinstance(entry, dict) else {"version": entry}
    address = table.get("file") or table.get("path")
    version = f"@ {address}" if address else table.get("version")
    return ("" if version == "*" else version.strip()) if isinstance(version, str) else None


def of_pixi(text: str, environment: str, machine: str) -> LockedTorch | None:
    """The torch that pip's packages of an environment have in a pixi.lock, or a build of conda-forge for CPUs."""
    name = platform = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if opened := re.fullmatch(r"  ([\w-]+):", line):
            name, platform = opened[1], ""
        elif opened := re.fullmatch(r"      ([\w-]+):", line):
            platform = opened[1]
        elif not line.startswith(" ") and line != "environments:":
            name = ""
        wheel = _WHEEL.search(line) if line.startswith("      - pypi: ") else None
        wanted = platform == _PLATFORMS.get(machine)
        if wheel is not None and name == environment and wanted:
            return LockedTorch(f"=={unquote(wheel['version'])}", number, wheel["index"] or "")
        of_conda = _CONDA_WHEEL.match(line)
        if of_conda is not None and name == environment and wanted:
            return LockedTorch(f"=={of_conda['version']}", number, of_conda=True)
    return None


def of_pixi_manifest(text: str, environment: str, machine: str) -> LockedTorch | None:
    """The torch that a pixi.toml takes from an index of pip for an environment, or from conda-forge: where the file
    declares no CUDA, pixi takes a build for CPUs."""
    try:
        document = read_toml(text)
    except TomlError:
        return None
    chosen = _table(document, "environments").get(environment, [] if environment == "default" else None)
    chosen = chosen if isinstance(chosen, dict) else {"features": chosen}
    features = chosen.get("features", [])
    if not isinstance(features, list):
        return None
    parts = [_table(_table(document, "feature"), str(name)) for name in features]
    parts += [] if chosen.get("no-default-feature") else [document]
    platform = _PLATFORMS.get(machine, "")
    parts = [one for part in parts for one in (_table(_table(part, "target"), platform), part)]
    indexes = (_table(part, "pypi-options").get("index-url") for part in parts)
    tables = [part.get("pypi-dependencies") for part in parts]
    if (of_conda := _of_conda_forge(text, document, parts)) is not None:
        return of_conda
    found = _of_tables(text, tables, {"": next((url for url in indexes if isinstance(url, str)), "")})
    entry = next((table["torch"] for table in tables if isinstance(table, dict) and "torch" in table), None)
    index = entry.get("index") if isinstance(entry, dict) else None
    return replace(found, index=index) if found is not None and isinstance(index, str) else found


def _of_conda_forge(text: str, document: dict[str, Any], parts: list[dict[str, Any]]) -> LockedTorch | None:
    """The torch of conda-forge, where no part of an environment and no platform declares CUDA."""
    workspace = _table(document, "workspace") or _table(document, "project")
    channels, platforms = workspace.get("channels"), workspace.get("platforms")
    spec = next((table["pytorch"] for part in parts if "pytorch" in (table := _table(part, "dependencies"))), None)
    version = spec.get("version") if isinstance(spec, dict) and not {"build", "channel"} & spec.keys() else spec
    if not isinstance(version, str) or channels != ["conda-forge"]:
        return None
    rich = platforms if isinstance(platforms, list) else []
    if any("cuda" in one for one in rich if isinstance(one, dict)):
        return None
    if any("cuda" in _table(part, "system-requirements") for part in parts):
        return None
    lines = (number for number, line in enumerate(text.splitlines(), start=1) if re.match(r"\s*pytorch\s*=", line))
    specifier = "" if version == "*" else version if version[:1] in "<>=!~" else f"=={version}"
    return LockedTorch(specifier, next(lines, 1), of_conda=True)


def requirements_of(torch: LockedTorch, path: str) -> tuple[Requirement, ...]:
    """What the file requires of torch and its companions."""
    every = (("torch", torch.specifier), *torch.companions)
    return tuple(Requirement(name, specifier, file=f"{path}:{torch.line}") for name, specifier in every)
