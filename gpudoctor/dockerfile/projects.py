"""What pyproject.toml requires: the lists of PEP 621 and PEP 735, those of poetry, and uv's sources of torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.bounded_toml import TomlError, read_toml
from gpudoctor.dependencies import normalised
from gpudoctor.dockerfile.markers import applies

_TEXT = re.compile(r"\"([^\"]*)\"|'([^']*)'|^\s*([\w.-]+)\s*=")
"""A quoted text, or the key of a line."""
_MOST = 2_000
"""Requirements of one project."""


class Choice(Struct, frozen=True):
    """Which lists of a project a command installs. `everything`: all extras, or all groups."""

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    all_extras: bool = False
    all_groups: bool = False
    project: bool = True
    """Whether it installs what the project itself requires, not only groups."""
    development: bool = False
    """Whether it installs the groups of development, as `uv sync` and `poetry install` do."""
    sources: str = ""
    """Whose table of sources counts: "uv", "poetry"; "" for pip, which knows none."""


class Project(Struct, frozen=True):
    """What a project requires. `texts` are requirements with their places, such as "pyproject.toml:7"."""

    texts: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    """Requirements files that hold more of it, relative to the project."""
    torch_index: tuple[str, ...] = ()
    """The index that its sources name for torch."""
    extra_indexes: tuple[str, ...] = ()
    beside_torch: tuple[str, ...] = ()
    """Packages that uv builds without isolation, beside the installed torch."""
    unread: bool = False
    """Whether it requires more, which is not known."""


UNKNOWN = Project(unread=True)


def read_project(text: str, path: str, choice: Choice, machine: str) -> Project:
    """What the lists of a pyproject.toml that a command chooses require."""
    try:
        document = read_toml(text)
    except TomlError:
        return UNKNOWN
    lines = _Lines(text, path)
    project, tool = _table(document, "project"), _table(document, "tool")
    poetry = _table(tool, "poetry")
    if project:
        texts, unread = _standard(document, project, choice)
        dynamic = strings(project.get("dynamic"))
        named = _table(_table(tool, "setuptools"), "dynamic").get("dependencies")
        files = strings(named.get("file")) if isinstance(named, dict) else []
        missing = "dependencies" in dynamic and not files and not poetry
        found = Project(
            tuple((one, lines.place(one)) for one in texts), tuple(files) if choice.project else (),
            unread=unread or (missing and choice.project),
        )  # fmt: skip
    elif poetry:
        found = _of_poetry(poetry, choice, lines, machine)
    elif choice.project:
        return UNKNOWN
    else:
        texts, unread = _standard(document, project, choice)
        found = Project(tuple((one, lines.place(one)) for one in texts), unread=unread)
    if choice.sources == "uv":
        return _with_uv_sources(found, _table(tool, "uv"), choice, machine)
    return found


def _standard(document: dict[str, Any], project: dict[str, Any], choice: Choice) -> tuple[list[str], bool]:
    """The requirements of the standard tables, and whether some of them are not known."""
    lists = _table(project, "optional-dependencies")
    groups = _table(document, "dependency-groups")
    uv = _table(_table(document, "tool"), "uv")
    default = uv.get("default-groups")
    wanted = list(choice.groups)
    if choice.development:
        wanted += strings(default) if isinstance(default, list) else ["dev"] * ("dev" in groups)
    wanted += [*groups] * (choice.all_groups or (choice.development and default == "all"))
    texts = strings(project.get("dependencies")) if choice.project else []
    texts += strings(uv.get("dev-dependencies")) if choice.development else []
    unread = False
    for extra in (*choice.extras, *(lists if choice.all_extras else ())):
        found = next((value for name, value in lists.items() if _same(name, extra)), None)
        unread |= found is None
        texts += strings(found)
    own, known = _of_groups(groups, wanted)
    texts, unread = texts + own, unread or not known
    name = project.get("name")
    own_extras = [one for one in texts if isinstance(name, str) and _same(re.split(r"[\[ ]", one)[0], name)]
    for one in own_extras:  # "app[cuda]" in the extra "all" of app
        for extra in re.findall(r"[\w.-]+", one.partition("[")[2].partition("]")[0]):
            texts += strings(next((value for key, value in lists.items() if _same(key, extra)), None))
    return [one for one in texts if one not in own_extras][:_MOST], unread or len(texts) > _MOST


def _of_groups(groups: dict[str, Any], wanted: list[str]) -> tuple[list[str], bool]:
    """The requirements of groups with those that they include, and whether all of them are there."""
    by_name = {normalised(name): content for name, content in groups.items()}
    texts: list[str] = []
    seen: set[str] = set()
    open_ = [normalised(name) for name in wanted]
    while open_:
        name = open_.pop()
        if name in seen:
            continue
        seen.add(name)
        content = by_name.get(name)
        if isinstance(content, list):
            texts += strings(content)
            included = (one.get("include-group") for one in content if isinstance(one, dict))
            open_ += [normalised(one) for one in included if isinstance(one, str)]
    return texts, seen <= by_name.keys()


def _of_poetry(poetry: dict[str, Any], choice: Choice, lines: _Lines, machine: str) -> Project:
    """The tables of poetry. A dependency may be a table, or several with markers."""
    groups = _table(poetry, "group")
    default = [name for name, group in groups.items() if isinstance(group, dict) and not group.get("optional")]
    chosen = [*choice.groups, *(default if choice.development else ())]
    tables = [_table(poetry, "dependencies")] if choice.project else []
    tables += [_table(poetry, "dev-dependencies")] if choice.development else []
    tables += [_table(_table(groups, name), "dependencies") for name in dict.fromkeys(chosen)]
    extras = _table(poetry, "extras")
    wanted = {one for extra in choice.extras for one in strings(extras.get(extra))}
    urls = {str(one.get("name")): one.get("url") for one in _tables(poetry.get("source"))}
    texts: list[tuple[str, str]] = []
    indexes: list[str] = []
    unread = False
    for name, value in ((name, value) for table in tables for name, value in table.items() if name != "python"):
        for one in value if isinstance(value, list) else [value]:
            entry = one if isinstance(one, dict) else {"version": one}
            optional = entry.get("optional") and name not in wanted and not choice.all_extras
            if optional or applies(str(entry.get("markers") or ""), machine) is False:
                continue
            specifier = _poetry_specifier(entry)
            unread |= specifier is None
            if specifier is not None:
                marker = f" ; {entry['markers']}" if entry.get("markers") else ""
                texts.append((f"{name}{specifier}{marker}", lines.place(name)))
            url = urls.get(str(entry.get("source")))
            if name == "torch" and choice.sources == "poetry" and isinstance(url, str):
                indexes.append(url)
    return Project(tuple(texts[:_MOST]), torch_index=tuple(dict.fromkeys(indexes)), unread=unread)


def _poetry_specifier(entry: dict[str, Any]) -> str | None:
    """ ">=2.1,<3" for poetry's "^2.1"; None if it is not known."""
    if isinstance(entry.get("url"), str):
        return f" @ {entry['url']}"
    version = entry.get("version")
    if not isinstance(version, str) or "|" in version or len(version) > 200:
        return None
    parts = []
    for part in (one.strip() for one in version.split(",")):
        found = re.fullmatch(r"([~^]?)(\d{1,9}(?:\.\d{1,9})*)(.*)", part)
        if part in ("*", "") or found is None:
            parts += [part] if part[:1] in "<>=!~" and part else []
        elif not found[1]:
            parts.append(f"=={part}")
        else:
            parts.append(f">={found[2]}{found[3]},<{_next(found[1], [int(one) for one in found[2].split('.')])}")
    return ",".join(parts)


def _next(sign: str, release: list[int]) -> str:
    """The release that "^" or "~" stops before."""
    place = min(1, len(release) - 1) if sign == "~" else next((n for n, one in enumerate(release) if one), 0)
    return ".".join(str(one) for one in (*release[:place], release[place] + 1))


def _with_uv_sources(found: Project, uv: dict[str, Any], choice: Choice, machine: str) -> Project:
    """The project with the indexes that uv takes its packages from."""
    indexes = list(_tables(uv.get("index")))
    urls = {str(one.get("name")): one.get("url") for one in indexes if isinstance(one.get("url"), str)}
    others = [str(one["url"]) for one in indexes if isinstance(one.get("url"), str) and not one.get("explicit")]
    source = _table(uv, "sources").get("torch")
    of_torch: list[str] = []
    unread = found.unread
    for one in source if isinstance(source, list) else [source]:
        if not isinstance(one, dict) or not _chosen(one, choice, machine):
            continue
        url = urls.get(str(one.get("index")))
        of_torch += [url] if isinstance(url, str) else []
        unread |= not isinstance(url, str)
    index = tuple(dict.fromkeys(of_torch))
    if len(index) > 1 or unread:
        index, others, unread = (), ["?"], True
    beside = tuple(strings(uv.get("no-build-isolation-package")))
    return replace(found, torch_index=index, extra_indexes=tuple(others), beside_torch=beside, unread=unread)


def _chosen(source: dict[str, Any], choice: Choice, machine: str) -> bool:
    """Whether a source of uv may count for these extras and groups on Linux."""
    extra, group = source.get("extra"), source.get("group")
    if isinstance(extra, str) and not choice.all_extras and extra not in choice.extras:
        return False
    if isinstance(group, str) and not choice.all_groups and group not in choice.groups:
        return False
    return applies(str(source.get("marker") or ""), machine) is not False


class _Lines:
    """Where a text stands in a file: a reader of TOML does not tell it."""

    def __init__(self, text: str, path: str) -> None:
        self._path = path
        self._numbers: dict[str, int] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            for found in _TEXT.finditer(line):
                self._numbers.setdefault(found[1] or found[2] or found[3] or "", number)

    def place(self, text: str) -> str:
        """ "pyproject.toml:7"."""
        return f"{self._path}:{self._numbers.get(text, 1)}"


def _same(one: str, other: str) -> bool:
    return normalised(one) == normalised(other)


def _table(table: Any, name: str) -> dict[str, Any]:
    value = table.get(name) if isinstance(table, dict) else None
    return value if isinstance(value, dict) else {}


def _tables(value: Any) -> Iterator[dict[str, Any]]:
    yield from (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def strings(value: Any) -> list[str]:
    """The texts of a list, or a text alone."""
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
