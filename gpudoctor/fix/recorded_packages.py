"""Which packages a recorded environment holds, read from the names of their records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from gpudoctor.dependencies import normalised
from gpudoctor.fix.open_folders import OpenFolders, read_whole, regular
from gpudoctor.fix.recorded_tree import Tree
from gpudoctor.fix.run import Package
from gpudoctor.host.open_file import closing
from gpudoctor.privacy import without_secrets

_RECORD_LIMIT = 1 << 20


class _DirectUrl(Struct):
    url: str = ""


def packages(tree: Tree) -> tuple[Package, ...]:
    """The distributions of a tree that is there now, each with the tool that installed it."""
    with OpenFolders() as folders:
        found = [_package(folders, path) for path in records(tree)]
    return tuple(sorted(found, key=lambda package: (package.name, package.version)))


def records(tree: Tree) -> tuple[bytes, ...]:
    """Paths of the .dist-info folders, and of conda's records of packages that are not Python's."""
    conda = (path for path in tree if path.rpartition(b"/")[0].endswith(b"/conda-meta") and path.endswith(b".json"))
    return (*(path for path, entry in tree.items() if entry.kind == "folder" and _is_dist_info(path)), *conda)


def behind_links(tree: Tree, roots: Sequence[bytes]) -> list[str]:
    """Folders of installed packages that lie elsewhere, behind a link."""
    names = {name_of(record) for record in records(tree)}
    found = []
    for path, entry in tree.items():
        folder, _, link = path.rpartition(b"/")
        if entry.kind != "link" or not folder.endswith((b"/site-packages", b"/dist-packages")):
            continue
        real, name = os.path.realpath(path), os.fsdecode(link).lower().replace("_", "-")
        own = any(one == name or one.startswith(f"{name}-") for one in names)
        if own and os.path.isdir(real) and not any(real == root or real.startswith(root + b"/") for root in roots):
            found.append(os.fsdecode(path))
    return sorted(found)


def _is_dist_info(path: bytes) -> bool:
    """Whether it is a record of the environment: setuptools has some of its own in setuptools/_vendor."""
    folder, _, name = path.rpartition(b"/")
    installed = folder.endswith((b"/site-packages", b"/dist-packages"))
    return installed and name.endswith(b".dist-info") and not name.startswith(b"~")


def name_of(record: bytes) -> str:
    """The normalised name of the package that a record describes."""
    return _name_and_version(record)[0]


def _name_and_version(record: bytes) -> tuple[str, str]:
    stem = os.fsdecode(record).rpartition("/")[2]
    stem = stem.removesuffix(".dist-info")
    if stem.endswith(".json"):
        name, version, _ = (*stem.removesuffix(".json").rsplit("-", 2), "", "")[:3]
    else:
        name, _, version = stem.partition("-")
    return normalised(name), version


def _content(folders: OpenFolders, record: bytes, name: bytes) -> bytes:
    with closing(regular(folders.at(record), name)) as descriptor:
        return read_whole(descriptor, _RECORD_LIMIT)


def _package(folders: OpenFolders, record: bytes) -> Package:
    name, version = _name_and_version(record)
    if record.endswith(b".json"):
        return Package(name=name, version=version, installer="conda")
    installer = url = ""
    with suppress(OSError):
        installer = _content(folders, record, b"INSTALLER").decode("utf-8", "replace").strip()[:40]
    with suppress(OSError, msgspec.DecodeError, RecursionError):
        url = msgspec.json.decode(_content(folders, record, b"direct_url.json"), type=_DirectUrl).url
    return Package(name=name, version=version, installer=installer, url=without_secrets(url))
