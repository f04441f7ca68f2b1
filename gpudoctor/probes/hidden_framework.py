"""A framework near an environment that has none: installed where its Python does not look."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gpudoctor.probes.import_path import site_folders
from gpudoctor.probes.python_layout import layout_of, lib_folders, pips_of_others
from gpudoctor.probes.surroundings import Surroundings

_NO_USER_SITE = "PYTHONNOUSERSITE"


def hidden_framework(around: Surroundings, modules: Iterable[str]) -> str:
    """What keeps Python from the first of these modules that is there; empty if none is."""
    names = tuple(modules)
    for folder, why in _folders(around):
        for name in names:
            path = posixpath.join(folder, name.replace(".", "/"))
            if around.host.exists(posixpath.join(path, "__init__.py")):
                return f"{path} is not imported: {why}"
    return ""


def _folders(around: Surroundings) -> Iterator[tuple[str, str]]:
    """Folders where packages may lie, and why Python does not look there."""
    yield from _without_user_site(around)
    yield from _of_other_pythons(around)
    yield from _outside_the_venv(around)
    yield from _of_another_pip(around)


def _without_user_site(around: Surroundings) -> Iterator[tuple[str, str]]:
    known = {folder.path for folder in around.path.folders}
    for folder, via in site_folders(around.host, around.layout, {**around.environ, _NO_USER_SITE: ""}):
        if via == "user site" and folder not in known:
            yield folder, f"{_NO_USER_SITE} is set, so Python does not look there"


def _of_other_pythons(around: Surroundings) -> Iterator[tuple[str, str]]:
    layout = around.layout
    for version in lib_folders(around.host, layout.prefix):
        if version != layout.python:
            folder = posixpath.join(layout.prefix, "lib", f"python{version}", "site-packages")
            yield folder, f"it is for Python {version}, and this is Python {layout.python}"


def _outside_the_venv(around: Surroundings) -> Iterator[tuple[str, str]]:
    layout = around.layout
    if layout.kind != "venv" or layout.system_site:
        return
    seeing = replace(layout, config={**layout.config, "include-system-site-packages": "true"})
    for folder, via in site_folders(around.host, seeing, around.environ):
        if via != "site":
            yield folder, "pyvenv.cfg says include-system-site-packages = false"


def _of_another_pip(around: Surroundings) -> Iterator[tuple[str, str]]:
    known = {folder.path for folder in around.path.folders}
    for program, named in pips_of_others(around.host, around.layout):
        if (other := layout_of(around.host, named)) is None:
            continue
        for folder, via in site_folders(around.host, other, around.environ):
            if via == "site" and folder not in known:
                yield folder, f"{program} starts {other.interpreter}, and installs there"
