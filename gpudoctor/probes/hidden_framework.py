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
                return f"{path}: {why}"
    return ""


def _folders(around: Surroundings) -> Iterator[tuple[str, str]]:
    layout, known = around.layout, {folder.path for folder in around.path.folders}
    without = {**around.environ, _NO_USER_SITE: ""}
    for folder, via in site_folders(around.host, layout, without):
        if via == "user site" and folder not in known:
            yield folder, f"{_NO_USER_SITE} is set, so Python does not look there"
    for version in lib_folders(around.host, layout.prefix):
        if version != layout.python:
            folder = posixpath.join(layout.prefix, "lib", f"python{version}", "site-packages")
            yield folder, f"it is for Python {version}, and this is Python {layout.python}"
    if layout.kind == "venv" and not layout.system_site:
        seeing = replace(layout, config={**layout.config, "include-system-site-packages": "true"})
        for folder, via in site_folders(around.host, seeing, around.environ):
            if via != "site":
                yield folder, "pyvenv.cfg says include-system-site-packages = false"
    for program, named in pips_of_others(around.host, layout):
        if (other := layout_of(around.host, named)) is None:
            continue
        for folder, via in site_folders(around.host, other, around.environ):
            if via == "site" and folder not in known:
                yield folder, f"{program} starts {other.interpreter}, and installs there"
