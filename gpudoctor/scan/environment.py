"""Installed distributions: where an environment keeps them, and which of them owns a library."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.host import Host, InputError
from gpudoctor.machine import Distribution
from gpudoctor.probes.distributions import distributions_in
from gpudoctor.probes.import_path import Folder, import_path
from gpudoctor.probes.python_layout import Layout, find_layout, layout_of
from gpudoctor.scan.library import Library

_RECORD_LIMIT = 16 << 20
_LINE = re.compile(r'^"?([^",\n]+\.(?:so[.\d]*|co|hsaco|hipfb|fatbin|cubin|kpack|dat|\w*db|yaml))"?,', re.MULTILINE)


class Environment(Struct, frozen=True):
    """Folders that hold packages, and what is installed in them."""

    folders: tuple[str, ...]
    distributions: tuple[Distribution, ...]

    def distribution(self, name: str) -> Distribution | None:
        """The distribution of that name, in any spelling."""
        return next((d for d in self.distributions if d.name == normalised(name)), None)


def active(host: Host, python: str | None) -> Environment:
    """The environment of `python`, or the active one. Raises InputError if there is none."""
    layout = find_layout(host, python, host.environ)
    if layout is None:
        raise InputError("no Python environment was found; name one with --python")
    return _environment(host, layout)


def environment_in(host: Host, folder: str) -> Environment | None:
    """The environment in a folder: a venv, a prefix or a site-packages; None if it is none of them."""
    layout = layout_of(host, folder)
    if layout is not None:
        return _environment(host, layout)
    names = host.names(folder).value or ()
    if any(name.endswith((".dist-info", ".egg-info")) for name in names):
        return _of_folders(host, (Folder(path=folder, via="site", names=frozenset(names)),))
    return None


def _environment(host: Host, layout: Layout) -> Environment:
    """Without PYTHONPATH and the user's folder, which are not the environment's own."""
    path = import_path(host, layout, {"PYTHONNOUSERSITE": "1"})
    found = _of_folders(host, path.folders)
    if layout.kind != "conda":
        return found
    return replace(found, folders=(*found.folders, posixpath.join(layout.prefix, "lib")))


def _of_folders(host: Host, folders: tuple[Folder, ...]) -> Environment:
    return Environment(tuple(folder.path for folder in folders), distributions_in(host, folders))


def files_of(distribution: Distribution) -> Iterator[str]:
    """Paths of the libraries and kernels in a distribution's record; without a record, all files below the folder
    of its name."""
    site = posixpath.dirname(distribution.path)
    record = _record(distribution)
    if record is None:
        from gpudoctor.scan.places import below

        for folder in {distribution.name.replace("-", "_"), distribution.name}:
            yield from below(posixpath.join(site, folder))
        return
    for name in record:
        path = posixpath.normpath(posixpath.join(site, name))
        if os.path.lexists(path):
            yield path


def _record(distribution: Distribution) -> list[str] | None:
    """The libraries and kernels among the files of its RECORD, relative to site-packages."""
    try:
        with open(posixpath.join(distribution.path, "RECORD"), "rb") as file:
            text = file.read(_RECORD_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None
    return _LINE.findall(text)


def with_owners(libraries: Iterable[Library], distributions: Iterable[Distribution]) -> list[Library]:
    """The libraries, each with the distribution whose record lists it."""
    libraries = list(libraries)
    owners: dict[str, str] = {}
    if libraries:
        for distribution in distributions:
            owner, site = title(distribution), posixpath.dirname(distribution.path)
            for name in _record(distribution) or ():
                path = posixpath.normpath(posixpath.join(site, name))
                owners.setdefault(path, owner)
                owners.setdefault(posixpath.dirname(path), owner)  # for a folder of kernels
    return [replace(library, owner=_owner(library, owners, distributions)) for library in libraries]


def _owner(library: Library, owners: Mapping[str, str], distributions: Iterable[Distribution]) -> str:
    if library.path in owners:
        return owners[library.path]
    for distribution in distributions:  # installed without a record: the folder's name decides
        folder = posixpath.join(posixpath.dirname(distribution.path), distribution.name.replace("-", "_"))
        if library.path.startswith(folder + "/"):
            return title(distribution)
    return ""


def title(distribution: Distribution) -> str:
    """ "torch 2.9.1"."""
    return f"{distribution.name} {distribution.version}".strip()
