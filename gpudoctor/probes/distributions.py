"""Installed distributions, listed by their folder names; only the relevant ones are opened.

Reading the METADATA of 120 packages costs more than reading everything else in an environment. The folder name
already holds name and version (PEP 376, the "Recording installed projects" specification).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.host import Host
from gpudoctor.machine import Distribution, InterruptedInstall, PythonEnvironment
from gpudoctor.matrix.rows.packages import VersionFile
from gpudoctor.probes.import_path import Folder
from gpudoctor.probes.record import share_present

S = TypeVar("S", bound=Struct)

JUDGED = frozenset({
    "torch", "torchvision", "torchaudio", "triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm",
    "xformers", "flash-attn", "vllm", "bitsandbytes", "cuda-toolkit",
})  # fmt: skip
"""Distributions whose requirements and installer matter to a check."""

_EGG = r"([^-]+)-([^-]+)(?:-py[\d.]+)?(?:-[\w.-]+)?\.egg"
_STATED = r"""(?m)^(?:__version__|_version|version)(?::[ ]*str)? = ['"](\d[\w.+-]{0,60})['"]"""
_VERSION_FILE_LIMIT = 64 << 10
_METADATA_LIMIT = 256 << 10
_MOST_REQUIRES = 500
_HEADERS = ("Name", "Version", "Requires-Dist")
_HEADER_LIMIT = 1000
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "torchtriton": "triton"}
_CONDA_WANTED = r"(?:lib)?(?:torch|pytorch|triton|cuda|cudnn|cublas|nccl|magma|rocm|hip|numpy|xformers)"


def distributions_in(
    host: Host, folders: tuple[Folder, ...], archives: tuple[str, ...] = ()
) -> tuple[Distribution, ...]:
    """All distributions, sorted by name; if two have one name, the one in the earlier folder. `archives` are files
    that are imported from: a zipped egg is one distribution."""
    found: dict[str, Distribution] = {}
    for folder in folders:
        here: dict[str, list[Distribution]] = {}
        for distribution in _list_folder(host, folder):
            here.setdefault(distribution.name, []).append(distribution)
        for name, several in here.items():
            if name not in found:
                found[name] = several[0] if len(several) == 1 else _best_record(host, several)
    for archive in archives:
        egg = re.fullmatch(_EGG, posixpath.basename(archive))
        if egg is not None:
            found.setdefault(normalised(egg[1]), Distribution(name=normalised(egg[1]), version=egg[2]))
    return tuple(
        with_details(host, distribution) if name in JUDGED and distribution.path else distribution
        for name, distribution in sorted(found.items())
    )


def interrupted_installs(
    folders: tuple[Folder, ...], packages: Collection[str], installed: Collection[str]
) -> tuple[InterruptedInstall, ...]:
    """Of `packages` that are not installed, what pip renamed and did not remove: it writes ~ for the first letter."""
    found = []
    for folder in folders:
        for entry in sorted(name for name in folder.names if name.startswith("~") and name.endswith(".dist-info")):
            tail, _, version = entry[1:].removesuffix(".dist-info").partition("-")
            name = next((one for one in sorted(packages) if one[1:] == normalised(tail)), "torch")
            if name != "torch" and name not in installed:  # torch has a check of its own
                path = posixpath.join(folder.path, entry)
                found.append(InterruptedInstall(name=name, version=version, path=path))
    return tuple(found)


def with_all_requirements(host: Host, environment: PythonEnvironment) -> PythonEnvironment:
    """What all packages require: a fix asks which others need the one that it replaces."""
    listed = environment.distributions
    if listed.value is None:
        return environment
    opened = (one if one.name in JUDGED or not one.path else with_details(host, one) for one in listed.value)
    return replace(environment, distributions=replace(listed, value=tuple(opened)))


def _list_folder(host: Host, folder: Folder) -> Iterator[Distribution]:
    if "EGG-INFO" in folder.names:  # an egg that was not zipped is a folder of its own on the path
        path = posixpath.join(folder.path, "EGG-INFO")
        head = metadata_head(host, path)
        if "Name" in head:
            yield Distribution(name=normalised(head["Name"][0]), version=head.get("Version", [""])[0], path=path)
    for entry in sorted(folder.names):
        stem, dot, kind = entry.rpartition(".")
        if not dot or kind not in ("dist-info", "egg-info") or stem.startswith("~"):
            continue
        path = posixpath.join(folder.path, entry)
        if kind == "egg-info":
            stem = re.sub(r"-py\d+(\.\d+)*$", "", stem)
        name, dash, version = stem.rpartition("-") if kind == "dist-info" else stem.partition("-")
        if not dash or "_" in version or not version[:1].isdigit():
            head = metadata_head(host, path)
            name, version = head.get("Name", [name or stem])[0], head.get("Version", [""])[0]
        if name:
            yield Distribution(name=normalised(name), version=version, path=path)


def _best_record(host: Host, several: list[Distribution]) -> Distribution:
    """The record whose files lie there, among several of one name in one folder; else the newest one. Other whole
    records are its twins, those without RECORD its strays."""
    from packaging.version import InvalidVersion, Version

    present = {one.path: share_present(host, one.path) for one in several}

    def order(distribution: Distribution) -> tuple[float, Version]:
        try:
            version = Version(distribution.version)
        except InvalidVersion:
            version = Version("0")
        share = present[distribution.path]
        return -1.0 if share is None else share, version

    first, *others = sorted(several, key=order, reverse=True)
    whole = (one for one in others if present[one.path] is not None and one.version != first.version)
    strays = tuple(one.path for one in others if present[one.path] is None)
    return replace(first, twins=tuple(with_details(host, one) for one in whole), strays=strays)


def unrecorded(
    host: Host, folders: tuple[Folder, ...], rows: Iterable[VersionFile], known: Collection[str]
) -> tuple[Distribution, ...]:
    """Packages that lie in a folder of the path without a record, with the version that a file of theirs states.
    `known` are the names that have a record."""
    found: dict[str, Distribution] = {}
    for row in rows:
        top = row.file.partition("/")[0]
        for folder in folders if row.package not in known else ():
            if row.package in found or top not in folder.names:
                continue
            text = host.text(posixpath.join(folder.path, row.file), _VERSION_FILE_LIMIT).value or ""
            stated = re.search(_STATED, text)
            if stated is not None:
                path = posixpath.join(folder.path, top)
                version, lacks = stated[1], ("METADATA", "RECORD")
                found[row.package] = Distribution(name=row.package, version=version, path=path, lacks=lacks)
    return tuple(found.values())


def with_details(host: Host, distribution: Distribution) -> Distribution:
    """A distribution with its requirements, its installer and its origin."""
    head = metadata_head(host, distribution.path)
    installer = host.text(posixpath.join(distribution.path, "INSTALLER"), 1024).value or ""
    return replace(
        distribution,
        version=head.get("Version", [distribution.version])[0] or distribution.version,
        installer=installer.split("\n")[0].strip().lower(),
        requires=tuple(head.get("Requires-Dist", ())[:_MOST_REQUIRES]),
        direct_url=_direct_url(host, distribution.path),
        lacks=distribution.lacks or _lacks(host, distribution.path),
        runtimes=_runtimes(host, distribution),
        built_for_torch=_built_for_torch(host, distribution),
    )


def _lacks(host: Host, path: str) -> tuple[str, ...]:
    """What an interrupted install did not write, or a full disk left empty: RECORD comes last. distutils wrote one
    file and no list of what it installed."""
    if not path.endswith(".dist-info"):
        record = host.stat(path).value
        return ("RECORD",) if path.endswith(".egg-info") and record and record.kind == "file" else ()
    files = {name: host.stat(posixpath.join(path, name)) for name in ("METADATA", "RECORD")}
    return tuple(name for name, file in files.items() if file.absent or (file.value and file.value.size == 0))


def _runtimes(host: Host, distribution: Distribution) -> tuple[str, ...]:
    """Runtimes in the names of its libraries: cuda121 of libbitsandbytes_cuda121.so."""
    if distribution.name != "bitsandbytes":
        return ()
    names = host.names(posixpath.join(posixpath.dirname(distribution.path), distribution.name)).value or ()
    stems = (name.partition(".")[0].rpartition("_")[2] for name in names if name.startswith("libbitsandbytes_"))
    return tuple(stem for stem in stems if stem.startswith(("cuda", "rocm")))


def _built_for_torch(host: Host, distribution: Distribution) -> str:
    """What xformers wrote of its own build: {"version": {"torch": "2.5.1+cu121", "cuda": 1201 ...}, ...}."""
    if distribution.name != "xformers":
        return ""
    path = posixpath.join(posixpath.dirname(distribution.path), "xformers", "cpp_lib.json")
    torch = _decoded(host, path, _BuildRecord).version.torch
    return torch if re.fullmatch(r"\d[\w.+-]{0,60}", torch) else ""


class _BuiltWith(Struct, frozen=True):
    torch: str = ""


class _BuildRecord(Struct, frozen=True):
    version: _BuiltWith = _BuiltWith()


def metadata_head(host: Host, path: str) -> dict[str, list[str]]:
    """The header fields Name, Version and Requires-Dist of a .dist-info or .egg-info."""
    for name in ("METADATA", "PKG-INFO", ""):  # an .egg-info may be the file itself
        content = host.data(posixpath.join(path, name) if name else path, _METADATA_LIMIT)
        if content.value is not None:
            break
    text = content.value or b""
    ends = (text.find(blank) for blank in (b"\n\n", b"\n\r\n"))
    head = b"\n" + text[: min((end for end in ends if end >= 0), default=len(text))]  # a whole README follows
    fields: dict[str, list[str]] = {}
    for name in _HEADERS:
        for begun in head.split(f"\n{name}:".encode())[1:]:
            if stated := begun.partition(b"\n")[0].decode("utf-8", "replace")[:_HEADER_LIMIT].strip():
                fields.setdefault(name, []).append(stated)
    return fields


def _direct_url(host: Host, path: str) -> str:
    """The URL of direct_url.json (PEP 610) without user, password, query and fragment."""
    url = _decoded(host, posixpath.join(path, "direct_url.json"), _DirectUrl).url
    place = url.partition("?")[0].partition("#")[0]
    return re.sub(r"^([a-z+]+://)[^/@]*@", r"\1", place) if "@" in place else place


class _DirectUrl(Struct):
    url: str = ""


def _decoded(host: Host, path: str, kind: type[S]) -> S:
    """A JSON file as a record; an empty one where it is no such file."""
    content = host.data(path, 64 << 10).value
    try:
        return msgspec.json.decode(content, type=kind) if content else kind()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return kind()


class CondaPackage(Struct, frozen=True):
    """A record below conda-meta."""

    name: str
    version: str
    path: str


def conda_packages(host: Host, prefix: str) -> tuple[CondaPackage, ...]:
    """All packages of a conda prefix, by the names of their records."""
    folder = posixpath.join(prefix, "conda-meta")
    found = []
    for entry in host.names(folder).value or ():
        parts = entry.removesuffix(".json").rsplit("-", 2)
        if entry.endswith(".json") and len(parts) == 3:
            found.append(CondaPackage(name=parts[0], version=parts[1], path=posixpath.join(folder, entry)))
    return tuple(found)


def with_conda(
    distributions: tuple[Distribution, ...], packages: tuple[CondaPackage, ...]
) -> tuple[Distribution, ...]:
    """The list with those of conda's packages for GPU work that left no .dist-info."""
    names = {distribution.name for distribution in distributions}
    added: dict[str, Distribution] = {}
    for package in packages:
        name = _CONDA_NAMES.get(package.name, normalised(package.name))
        if name not in names and re.match(_CONDA_WANTED, package.name):
            added[name] = Distribution(name=name, version=package.version, path=package.path, installer="conda")
    return tuple(sorted((*distributions, *added.values()), key=lambda distribution: distribution.name))


def conda_torch(packages: tuple[CondaPackage, ...]) -> CondaPackage | None:
    """The record of the package that holds torch's Python files."""
    return next((package for package in packages if package.name in ("pytorch", "torch")), None)


def channel_of(host: Host, package: CondaPackage) -> str:
    """The channel a conda package came from: conda-forge, pytorch, defaults ..."""
    head = host.text(package.path, 4 << 20).value or ""
    found = re.search(r'"channel"\s*:\s*"([^"]{1,300})"', head)
    return re.sub(r"/(linux-\w+|noarch)/?$", "", found.group(1)).rpartition("/")[2] if found else ""
