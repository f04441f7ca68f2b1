"""pip's own configuration: its files at every level, and its variables, in pip's order of precedence."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping

from gpudoctor.host import Host
from gpudoctor.machine import InstallerSettings
from gpudoctor.privacy import without_secrets
from gpudoctor.probes.constraint_files import read_constraints

_LIMIT = 256 << 10
_LONGEST = 500
_TRUE = ("y", "yes", "t", "true", "on", "1")
_SECTION = r"\[(?P<header>.+)\]"
_OPTION = r"(?P<key>.*?)\s*[=:]\s*(?P<value>.*)$"
_VARIABLES = "PIP_"
_ELSEWHERE = ("target", "prefix", "root")
_NAMED = (
    *_ELSEWHERE, "constraint", "no-index", "no-binary", "require-hashes", "require-virtualenv", "user", "dry-run",
)  # fmt: skip
"""Options that are reported with the file or variable that sets them."""
Setting = tuple[str, str]
"""A value, and where it was set."""


def pip_settings(
    host: Host, environ: Mapping[str, str], prefix: str, folder: str, names: Collection[str]
) -> InstallerSettings:
    """What the settings tell `python -m pip install`, started in `folder`, for an environment; constraints of `names`
    only."""
    found = _install_options(host, environ, prefix)

    def text(option: str) -> str:
        return found[option][0] if option in found else ""

    def several(option: str) -> tuple[str, ...]:
        return tuple(without_secrets(part)[:_LONGEST] for part in text(option).split())

    def switch(option: str) -> bool:
        return text(option).strip().lower() in _TRUE

    constraints = read_constraints(host, text("constraint").split(), folder, names)
    elsewhere = {option: text(option)[:_LONGEST] for option in _ELSEWHERE if text(option)}
    return InstallerSettings(
        index_url=without_secrets(text("index-url") or text("pypi-url"))[:_LONGEST],
        extra_indexes=several("extra-index-url"),
        find_links=several("find-links"),
        proxy=bool(text("proxy")),
        no_index=switch("no-index"),
        require_hashes=switch("require-hashes"),
        no_deps=switch("no-deps") or switch("no-dependencies"),
        require_virtualenv=switch("require-virtualenv") or switch("require-venv"),
        dry_run=switch("dry-run"),
        no_binary=_format_control(text("no-binary")),
        user=switch("user"),
        python=text("python")[:_LONGEST],
        elsewhere=elsewhere,
        constraints=constraints.lines,
        unread=constraints.unread,
        lost=constraints.lost,
        sources={option.replace("-", "_"): source for option, (_, source) in found.items() if option in _NAMED},
    )


def _format_control(value: str) -> tuple[str, ...]:
    names = [part.strip() for part in value.split(",") if part.strip()]
    return () if ":none:" in names else tuple(name[:_LONGEST] for name in names)


def _install_options(host: Host, environ: Mapping[str, str], prefix: str) -> dict[str, Setting]:
    """Options of `pip install`: a later file overrides an earlier one, a variable every file. pip ignores what is
    empty."""
    by_section: dict[tuple[str, str], Setting] = {}
    for path in _files(host, environ, prefix):
        content = host.data(path, _LIMIT).value
        for section, key, value, line in read_ini((content or b"").decode("utf-8", "replace")):
            by_section[(section, _option(key))] = value, f"{path}, line {line}"
    for name, value in environ.items():
        if name.startswith(_VARIABLES):
            by_section[(":env:", _option(name.removeprefix(_VARIABLES)))] = value, name
    found: dict[str, Setting] = {}
    for wanted in ("global", "install", ":env:"):
        for (section, option), setting in by_section.items():
            if section == wanted and setting[0]:
                found[option] = setting
    return found


def _files(host: Host, environ: Mapping[str, str], prefix: str) -> Iterator[str]:
    """The files that pip reads, the weakest first. With PIP_CONFIG_FILE=/dev/null it reads none."""
    own = environ.get("PIP_CONFIG_FILE", "")
    if own == "/dev/null":
        return
    for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield posixpath.join(folder, "pip/pip.conf")
    yield "/etc/pip.conf"
    home = environ.get("HOME", "")
    if home and not (own and host.exists(own)):
        yield posixpath.join(home, ".pip/pip.conf")
        yield posixpath.join(environ.get("XDG_CONFIG_HOME") or posixpath.join(home, ".config"), "pip/pip.conf")
    if prefix:
        yield posixpath.join(prefix, "pip.conf")
    if own:
        yield own


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def read_ini(text: str) -> Iterator[tuple[str, str, str, int]]:
    """(section, option, value, line) as Python's configparser reads them, with the number of the option's line."""
    section, option, value, begun, indent = "", None, "", 0, 0
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        depth = len(raw) - len(raw.lstrip())
        if option is not None and depth > indent:
            value += f"\n{stripped}"
            continue
        if option is not None:
            yield section, option, value.strip(), begun
            option = None
        if header := re.match(_SECTION, stripped):
            section = header["header"]
        elif section and (found := re.match(_OPTION, stripped)) and found["key"]:
            option, value, begun, indent = found["key"].lower(), found["value"], number, depth
    if option is not None:
        yield section, option, value.strip(), begun
