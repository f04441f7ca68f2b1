"""uv's own configuration: uv.toml, [tool.uv] of a project, and UV_* variables."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gpudoctor.host import Host
from gpudoctor.machine import Constraint, InstallerSettings
from gpudoctor.privacy import without_secrets
from gpudoctor.probes.constraint_files import constraint_of, matters, read_constraints
from gpudoctor.probes.project_files import upward

_LIMIT = 256 << 10
_LONGEST = 500
_MOST = 100
_TRUE = ("y", "yes", "t", "true", "on", "1")


def uv_settings(host: Host, environ: Mapping[str, str], folder: str, names: Collection[str]) -> InstallerSettings:
    """What the settings tell `uv pip install`, started in `folder`; constraints of `names` only."""
    found = _Found()
    limits: list[Constraint] = []
    for path, text, table in _tables(host, environ, folder):
        found.add(path, text, table)
        limits += _constraints(path, text, table.get("constraint-dependencies"), names)
    found.variables(environ)
    files = read_constraints(host, environ.get("UV_CONSTRAINT", "").split(), folder, names)
    limits += files.lines
    if any(files):
        found.sources["constraint"] = "UV_CONSTRAINT"
    return InstallerSettings(
        index_url=found.text("index_url"),
        extra_indexes=found.several("extra_indexes"),
        find_links=found.several("find_links"),
        no_index=found.switch("no_index"),
        offline=found.switch("offline"),
        require_hashes=found.switch("require_hashes"),
        no_binary=found.several("no_binary"),
        elsewhere={name: path for name in ("target", "prefix") if (path := found.text(name))},
        torch_backend=found.text("torch_backend"),
        exclude_newer=found.text("exclude_newer"),
        constraints=tuple(limits),
        unread=files.unread,
        lost=files.lost,
        sources=found.sources,
    )


class _Found:
    """Settings as they are found: the first value of a single one stays, lists grow."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.sources: dict[str, str] = {}

    def put(self, name: str, values: object, source: str) -> None:
        listed = values if isinstance(values, list) else [values]
        texts = [_as_text(value) for value in listed[:_MOST] if isinstance(value, (str, bool))]
        if texts := [text for text in texts if text]:
            self.values.setdefault(name, []).extend(texts)
            self.sources.setdefault(name, source)

    def add(self, path: str, text: str, table: Mapping[str, Any]) -> None:
        """The settings of one file; those of [pip] count before its others."""
        own = table.get("pip")
        for part in (own if isinstance(own, dict) else {}, table):
            for key, value in part.items():
                if key == "index":
                    self._indexes(path, text, value)
                elif (name := _NAMES.get(key)) and (key not in _ONLY_OF_PIP or part is own):
                    self.put(
                        name, [":all:"] if (key, value) == ("no-binary", True) else value, _line(path, text, key)
                    )

    def _indexes(self, path: str, text: str, rows: object) -> None:
        for row in rows[:_MOST] if isinstance(rows, list) else ():
            if isinstance(row, dict) and not row.get("explicit"):
                name = "index_url" if row.get("default") else "extra_indexes"
                self.put(name, row.get("url"), _line(path, text, "url"))

    def variables(self, environ: Mapping[str, str]) -> None:
        """Variables count before files, in lists and alone."""
        earlier, self.values = self.values, {}
        for variable, name in _VARIABLES.items():
            if value := environ.get(variable, ""):
                parts = re.split(r"[\s,]+" if variable == "UV_FIND_LINKS" else r"\s+", value)
                urls = [re.sub(r"^[\w.-]+=", "", part) for part in parts if part]
                self.put(name, urls, variable)
                self.sources[name] = variable
        for name, values in earlier.items():
            self.values.setdefault(name, []).extend(values)

    def text(self, name: str) -> str:
        return next(iter(self.several(name)), "")

    def several(self, name: str) -> tuple[str, ...]:
        return tuple(without_secrets(value)[:_LONGEST] for value in self.values.get(name, ()))

    def switch(self, name: str) -> bool:
        return self.text(name).lower() in _TRUE


_NAMES = {
    "index-url": "index_url", "extra-index-url": "extra_indexes", "find-links": "find_links", "no-index": "no_index",
    "offline": "offline", "no-binary": "no_binary", "no-binary-package": "no_binary", "target": "target",
    "prefix": "prefix", "require-hashes": "require_hashes", "torch-backend": "torch_backend",
    "exclude-newer": "exclude_newer",
}  # fmt: skip
_ONLY_OF_PIP = ("require-hashes", "target", "prefix", "torch-backend")
_VARIABLES = {
    "UV_DEFAULT_INDEX": "index_url",
    "UV_INDEX_URL": "index_url",
    "UV_INDEX": "extra_indexes",
    "UV_EXTRA_INDEX_URL": "extra_indexes",
    "UV_FIND_LINKS": "find_links",
    "UV_OFFLINE": "offline",
    "UV_REQUIRE_HASHES": "require_hashes",
    "UV_TORCH_BACKEND": "torch_backend",
    "UV_EXCLUDE_NEWER": "exclude_newer",
}


def _as_text(value: str | bool) -> str:
    return value.strip() if isinstance(value, str) else "true" if value else "false"


def _tables(host: Host, environ: Mapping[str, str], folder: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, text, settings) of the files that uv reads, the strongest first."""
    if environ.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return
    if own := environ.get("UV_CONFIG_FILE"):
        yield from _table(host, own)
        return
    yield from _of_project(host, folder)
    home = environ.get("HOME", "")
    user = environ.get("XDG_CONFIG_HOME") or (posixpath.join(home, ".config") if home else "")
    if user:
        yield from _table(host, posixpath.join(user, "uv/uv.toml"))
    folders = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    system = (posixpath.join(folder, "uv/uv.toml") for folder in (*folders, "/etc"))
    if path := next((path for path in system if host.exists(path)), None):
        yield from _table(host, path)


def _of_project(host: Host, folder: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """uv.toml or [tool.uv] of the nearest folder that has one, upwards from `folder`."""
    for above in upward(folder):
        if found := tuple(_table(host, posixpath.join(above, "uv.toml"))):
            yield from found
            return
        for path, text, table in _table(host, posixpath.join(above, "pyproject.toml")):
            tool = table.get("tool")
            own = tool.get("uv") if isinstance(tool, dict) else None
            if isinstance(own, dict):
                yield path, text, own
                return


def _table(host: Host, path: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    text = host.text(path, _LIMIT).value
    if not text:
        return
    from gpudoctor.bounded_toml import TomlError, read_toml

    try:
        yield path, text, read_toml(text)
    except (ImportError, TomlError):
        return


def _constraints(path: str, text: str, lines: object, names: Collection[str]) -> Iterator[Constraint]:
    for line in lines[:_MOST] if isinstance(lines, list) else ():
        found = constraint_of(line, _line(path, text, line)) if isinstance(line, str) else None
        if found and matters(found.name, names):
            yield found


def _line(path: str, text: str, sign: str) -> str:
    """The place of a setting: the first line that has its key or its value."""
    number = next((number for number, line in enumerate(text.splitlines(), 1) if sign in line), 0)
    return f"{path}, line {number}" if number else path
