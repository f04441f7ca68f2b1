"""A framework near an environment that has none: installed where its Python does not look."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.probes.import_path import site_folders
from gpudoctor.probes.python_layout import Layout, layout_of, lib_folders
from gpudoctor.probes.surroundings import Surroundings

_NO_USER_SITE = "PYTHONNOUSERSITE"
_SHEBANG = r"""#!\s*(/\S+/python[\w.]*)|#!/bin/sh\n'''exec' "?(/[^"\n]+/python[\w.]*)"""
"""The line that names the interpreter; the second form is for long paths, and those with spaces."""


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
    for program, other in _of_another_python(around.host, layout):
        for folder, via in site_folders(around.host, other, around.environ):
            if via == "site" and folder not in known:
                yield folder, f"{program} starts {other.interpreter}, and installs there"


def _of_another_python(host: Host, layout: Layout) -> Iterator[tuple[str, Layout]]:
    """The pip of a folder that was copied or renamed: it starts the Python of the folder that it was made in."""
    for name in ("pip", "pip3"):
        program = posixpath.join(layout.prefix, "bin", name)
        named = re.match(_SHEBANG, host.text(program).value or "")
        other = layout_of(host, named[1] or named[2]) if named else None
        if other is not None and other.prefix != layout.prefix:
            yield program, other
