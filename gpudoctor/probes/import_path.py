"""The folders that an interpreter imports from, in order, as CPython's `site` puts them together.

The current folder and the standard library are left out: neither holds installed packages.
"""

from __future__ import annotations

import posixpath
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.machine import Fact
from gpudoctor.probes.python_layout import Layout, layers_of

_DEBIAN = "/usr/lib/python3/dist-packages"
_PTH_LIMIT = 256 << 10
_MOST_PTH_LINES = 500
_HOOKS = ("__editable___torch_", "__editable__torch_")
"""Modules that installers write for an editable install of torch (and `_torch_editable.py`)."""


class Folder(Struct, frozen=True):
    """One folder of sys.path and its content; `via` is PYTHONPATH, user site, site, system site or .pth."""

    path: str
    via: str
    names: frozenset[str]


class ImportPath(Struct, frozen=True):
    """All folders in order; `unreadable` are those that exist and could not be listed."""

    folders: tuple[Folder, ...]
    unreadable: tuple[Fact[tuple[str, ...]], ...] = ()
    archives: tuple[str, ...] = ()
    """Files of sys.path: Python imports from them what they hold (zipped eggs, .zip)."""
    undecodable: tuple[str, ...] = ()
    """.pth files that are not UTF-8: Python ends at its start with an error."""

    @property
    def site_packages(self) -> tuple[str, ...]:
        """The folders that installers write to."""
        return tuple(folder.path for folder in self.folders if folder.via in ("site", "user site", "system site"))


def import_path(host: Host, layout: Layout, environ: Mapping[str, str]) -> ImportPath:
    """sys.path of a process with these variables."""
    walk = _Walk(host)
    for part in environ.get("PYTHONPATH", "").split(":"):
        if part.startswith("/"):  # relative ones depend on where a process is started
            walk.add(part, "PYTHONPATH")
    for path, via in site_folders(host, layout, environ):
        walk.add_site(path, via)
    return ImportPath(
        folders=walk.folders,
        unreadable=tuple(walk.unreadable),
        archives=tuple(dict.fromkeys(walk.archives)),
        undecodable=tuple(dict.fromkeys(walk.undecodable)),
    )


def site_folders(host: Host, layout: Layout, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Folders whose .pth files count, in order: a venv's own, then the user's, then those of the base."""
    if layout.python is None:
        if layout.prefix == "/usr":  # the one folder whose name does not tell the version
            yield _DEBIAN, "site"
        return
    if layout.kind == "venv":
        for path in _site_packages(host, layout.prefix, layout.python):
            yield path, "site"
        if not layout.system_site:
            return
    user = _user_site(host, layout, environ)
    if user:
        yield user, "user site"
    via = "system site" if layout.kind == "venv" else "site"
    for path in _base_folders(host, layout.base_prefix, layout.python):
        yield path, via


def _site_packages(host: Host, prefix: str, python: str) -> list[str]:
    folders = [posixpath.join(prefix, lib, f"python{python}", "site-packages") for lib in ("lib64", "lib")]
    same = host.resolve(folders[0]) in (None, host.resolve(folders[1]))  # a venv's lib64 is a link to its lib
    return folders[1:] if same else folders


def _base_folders(host: Host, prefix: str, python: str) -> list[str]:
    """Debian's own Python reads only dist-packages, Fedora's reads /usr/local first; all others read their prefix."""
    if prefix != "/usr":
        return _site_packages(host, prefix, python)
    if host.exists(_DEBIAN):
        return [f"/usr/local/lib/python{python}/dist-packages", _DEBIAN, f"/usr/lib/python{python}/dist-packages"]
    return [*_site_packages(host, "/usr/local", python), *_site_packages(host, prefix, python)]


def _user_site(host: Host, layout: Layout, environ: Mapping[str, str]) -> str | None:
    if environ.get("PYTHONNOUSERSITE"):
        return None
    base = environ.get("PYTHONUSERBASE")
    if not base:
        home = environ.get("HOME") or ("/root" if host.user().uid == 0 else "")
        base = home and posixpath.join(home, ".local")
    return posixpath.join(base, "lib", f"python{layout.python}", "site-packages") if base else None


class _Walk:
    """Collects each folder once, in order, and follows the path lines of .pth files."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._found: dict[str, Folder] = {}
        self.unreadable: list[Fact[tuple[str, ...]]] = []
        self.archives: list[str] = []
        self.undecodable: list[str] = []

    @property
    def folders(self) -> tuple[Folder, ...]:
        return tuple(self._found.values())

    def add(self, path: str, via: str) -> Folder | None:
        """Look into a folder, unless it was seen before; None if there is none."""
        real = self._host.resolve(path)
        if real is None or real in self._found:
            return self._found.get(real or "")
        names = self._host.names(path)
        if names.value is not None:
            folder = Folder(path=posixpath.normpath(path), via=via, names=frozenset(names.value))
            self._found[real] = folder
            return folder
        if names.state == "denied":
            self.unreadable.append(names)
        elif (file := self._host.stat(path).value) is not None and file.kind == "file":
            self.archives.append(posixpath.normpath(path))
        return None

    def add_site(self, path: str, via: str) -> None:
        """Add a folder whose .pth files count; it keeps its place if PYTHONPATH named it too."""
        folder = self.add(path, via)
        if folder is None:
            return
        if folder.via == "PYTHONPATH":
            real = self._host.resolve(path) or path
            self._found[real] = Folder(path=folder.path, via=via, names=folder.names)
        for name in sorted(folder.names):
            if name.endswith(".pth") and not name.startswith("."):
                text = self._pth(posixpath.join(path, name))
                for line in pth_paths(text):
                    self.add(posixpath.join(path, line), ".pth")
                for layer in layers_of(text):
                    self.add(layer, ".pth")

    def _pth(self, path: str) -> str:
        content = (self._host.data(path, _PTH_LIMIT).value or b"").removeprefix(BOM_UTF8)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            if error.start < _PTH_LIMIT - 8:  # not a character that the limit cut
                self.undecodable.append(path)
            return content.decode("utf-8", "replace")


def pth_paths(text: str) -> tuple[str, ...]:
    """The path lines of a .pth file; its `import` lines are programs and are ignored."""
    lines = (line.rstrip() for line in text.splitlines()[:_MOST_PTH_LINES])
    return tuple(line for line in lines if line and not line.startswith(("#", "import ", "import\t")))


def editable_torch(host: Host, path: ImportPath) -> str | None:
    """The torch folder that an editable install's import hook names, read from the hook's text."""
    for folder in path.folders:
        for name in folder.names:
            if name == "_torch_editable.py" or (name.startswith(_HOOKS) and name.endswith("_finder.py")):
                text = host.text(posixpath.join(folder.path, name)).value or ""
                found = re.search(r"""['"]torch['"]\s*:\s*['"](/[^'"\n]+)['"]""", text)
                if found:
                    return found.group(1).removesuffix("/__init__.py")
    return None
