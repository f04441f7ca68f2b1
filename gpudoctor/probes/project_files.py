"""The project that an environment belongs to, what it says of torch, and which tool owns a conda prefix."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.host import Host
from gpudoctor.machine import Lock, ProjectPackage, TorchAsked
from gpudoctor.privacy import without_secrets
from gpudoctor.probes.python_layout import Layout

CondaTool = Literal["conda", "mamba", "micromamba"]

# No patterns compiled in advance: most folders hold none of these files.
_TORCH = r"(?i)torch\s*(\[[a-z0-9, -]*\]\s*)?([<>=!~;@(^*].*)?$"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REQUIREMENTS = r"(requirements|constraints)[\w.-]*\.(txt|in)"
_OF_CONDA = r"\s*-\s*['\"]?((?:pytorch|pytorch-gpu|torch)\s*[=<>!~ ][^'\"#]*)"
_COMPILED = r"#\s+((?:pip-compile|uv pip compile)\b.*)"
_WORD = r"[\w./@%+,:=-]+"
_OF_HATCH = r"(.*)/env/virtual/(?P<name>[^/]+)/[^/]+/[^/]+"
_OF_POETRY = r".*-([\w-]{8})-py\d+\.\d+"
_LOCKS: tuple[Lock, ...] = ("uv.lock", "poetry.lock", "pdm.lock", "pixi.lock", "Pipfile.lock")
_NO_PACKAGES = ("source", "requires", "scripts", "pipenv")
"""Tables of a Pipfile that are no lists of packages."""
_LIMIT = 1 << 20
_HEAD = 4096
_MOST_MEMBERS = 200
_MOST_ASKED = 200
_LONGEST = 200


def conda_tool(host: Host, prefix: str) -> CondaTool:
    """The tool of the last command in a prefix's history; conda if it names none."""
    history = host.text(posixpath.join(prefix, "conda-meta/history"), _LIMIT).value or ""
    for line in reversed(history.splitlines()):
        if line.startswith("# cmd: "):
            name = posixpath.basename(line.removeprefix("# cmd: ").split(" ", 1)[0])
            return "micromamba" if name == "micromamba" else "mamba" if name == "mamba" else "conda"
    return "conda"


class Project(Struct, frozen=True):
    """A project that owns an environment; fields as in PythonEnvironment."""

    folder: str = ""
    lock: Lock = ""
    keys: tuple[str, ...] = ()
    compiled_by: tuple[str, ...] = ()


def project_of(host: Host, layout: Layout, environ: Mapping[str, str]) -> Project:
    """The project that owns an environment: beside a .venv, above .pixi/envs/NAME, or one whose tool keeps it
    elsewhere."""
    folder, name = posixpath.split(layout.prefix)
    if folder.endswith("/.pixi/envs"):
        folder = folder.removesuffix("/.pixi/envs")
        return Project(folder, "pixi.lock") if host.exists(posixpath.join(folder, "pixi.lock")) else Project()
    if layout.kind != "venv":
        return Project()
    if found := re.fullmatch(_OF_HATCH, layout.prefix):
        return _of_hatch(host, host.working_folder() or "", found["name"])
    for lock in _LOCKS if name == ".venv" else ():
        if host.exists(posixpath.join(folder, lock)):
            return _locked(host, folder, lock)
    if host.exists(posixpath.join(folder, "requirements.in")):
        return _of_pip_tools(host, folder)
    return _of_hatch(host, folder, "") if name == ".venv" else _kept_elsewhere(host, layout.prefix, environ)


def _locked(host: Host, folder: str, lock: Lock) -> Project:
    keys = {"pdm.lock": _pdm_keys, "uv.lock": _uv_keys}.get(lock)
    return Project(folder, lock, keys(host, folder) if keys else ())


def _kept_elsewhere(host: Host, prefix: str, environ: Mapping[str, str]) -> Project:
    """A project whose environment lies where its tool or a variable keeps it: the environment names the project
    (pipenv), or the working folder, or one above it, is that of the project."""
    named = (host.text(posixpath.join(prefix, ".project"), _HEAD).value or "").strip()
    if named.startswith("/") and host.exists(posixpath.join(named, "Pipfile.lock")):
        return Project(named, "Pipfile.lock")
    for folder in upward(host.working_folder() or ""):
        for lock in ("uv.lock", "poetry.lock", "pdm.lock"):
            if host.exists(posixpath.join(folder, lock)) and _keeps(host, folder, lock, prefix, environ):
                return _locked(host, folder, lock)
    return Project()


def upward(folder: str) -> Iterator[str]:
    """A folder and those above it, up to the root; none for a path that is not absolute."""
    while folder.startswith("/"):
        yield folder
        above = posixpath.dirname(folder)
        if above == folder:
            return
        folder = above


def _keeps(host: Host, folder: str, lock: Lock, prefix: str, environ: Mapping[str, str]) -> bool:
    """Whether this is the environment that a tool keeps for the project in a folder."""
    if lock == "uv.lock":
        chosen = environ.get("UV_PROJECT_ENVIRONMENT", "")
        return bool(chosen) and posixpath.normpath(posixpath.join(folder, chosen)) == prefix
    if lock == "pdm.lock":
        python = (host.text(posixpath.join(folder, ".pdm-python"), _HEAD).value or "").strip()
        return posixpath.dirname(posixpath.dirname(python)) == prefix
    found = re.fullmatch(_OF_POETRY, posixpath.basename(prefix))
    return found is not None and found[1] == _poetrys_name(folder)


def _poetrys_name(folder: str) -> str:
    """The part of an environment's name by which poetry finds it for a folder."""
    import base64
    import hashlib

    return base64.urlsafe_b64encode(hashlib.sha256(folder.encode()).digest()).decode()[:8]


def _of_pip_tools(host: Host, folder: str) -> Project:
    import shlex

    head = (host.data(posixpath.join(folder, "requirements.txt"), _HEAD).value or b"").decode("utf-8", "replace")
    line = next((found[1] for line in head.splitlines() if (found := re.match(_COMPILED, line))), "")
    try:
        words = tuple(shlex.split(line))
    except ValueError:
        words = ()
    if not words or any(not re.fullmatch(_WORD, word) or without_secrets(word) != word for word in words):
        return Project()
    return Project(folder, "requirements.in", compiled_by=words)


def _uv_keys(host: Host, folder: str) -> tuple[str, ...]:
    """ "uv" if a line begins that table, and the settings that stand in it."""
    text = host.text(posixpath.join(folder, "pyproject.toml"), _LIMIT).value or ""
    head = ("uv",) if "[tool.uv]" in text.splitlines() else ()
    table = _table(_toml(text), "tool", "uv")
    plain = (f"uv.{key}" for key, value in table.items() if not isinstance(value, dict) and not _is_tables(value))
    return (*head, *itertools.islice(plain, _MOST_MEMBERS))


def _pdm_keys(host: Host, folder: str) -> tuple[str, ...]:
    sources = _table(_read(host, folder, "pyproject.toml"), "tool", "pdm").get("source")
    return tuple(f"source.{row['name']}" for row in _tables(sources) if isinstance(row.get("name"), str))


def _of_hatch(host: Host, folder: str, name: str) -> Project:
    """A project whose default environment this is: hatch keeps it by the project's name, or in the path that is
    set."""
    text = host.text(posixpath.join(folder, "pyproject.toml"), _LIMIT).value if folder else None
    if not text or "tool.hatch" not in text:
        return Project()
    project = _toml(text)
    default = _table(project, "tool", "hatch", "envs", "default")
    own = _table(project, "project").get("name")
    if default.get("path") != ".venv" if not name else own != name:
        return Project()
    return Project(folder, "hatch", tuple(f"envs.default.{key}" for key in default))


def asked_beside(host: Host, layout: Layout, project: Project) -> tuple[TorchAsked, ...]:
    """What the files beside an environment say of torch."""
    if layout.kind == "conda":
        return _from_environment_file(host, layout.prefix)
    return torch_asked(host, project.folder or posixpath.dirname(layout.prefix)) if layout.kind == "venv" else ()


def _from_environment_file(host: Host, prefix: str) -> tuple[TorchAsked, ...]:
    """The lines of an environment.yml of that name, in the working folder."""
    folder = host.working_folder() or ""
    for name in ("environment.yml", "environment.yaml") if folder else ():
        lines = (host.text(posixpath.join(folder, name), _LIMIT).value or "").splitlines()
        named = [line.partition(":")[2].strip(" '\"") for line in lines if line.startswith(("name:", "prefix:"))]
        if posixpath.basename(prefix) in named or prefix in named:
            found = (re.match(_OF_CONDA, line) for line in lines)
            asked = (TorchAsked(file=name, requirement=_shown(one[1].strip())) for one in found if one)
            return tuple(itertools.islice(asked, _MOST_ASKED))
    return ()


def torch_asked(host: Host, folder: str) -> tuple[TorchAsked, ...]:
    """The lines of a project's pyproject.toml, Pipfile and requirements files that ask for torch."""
    names = host.names(folder).value or ()
    lists = [name for name in sorted(names) if name.endswith((".txt", ".in")) and re.fullmatch(_REQUIREMENTS, name)]
    lines = (line for name in lists for line in _from_requirements(host, folder, name))
    declared = _from_pyproject(host, folder) if "pyproject.toml" in names else ()
    pipfile = _of_torch(_from_pipfile(_read(host, folder, "Pipfile"))) if "Pipfile" in names else ()
    return tuple(itertools.islice(itertools.chain(declared, pipfile, lines), _MOST_ASKED))


def _from_requirements(host: Host, folder: str, name: str) -> Iterator[TorchAsked]:
    text = host.text(posixpath.join(folder, name), _LIMIT).value or ""
    for line in text.splitlines():
        requirement = line.partition("#")[0].strip().rstrip("\\").strip()
        if re.match(_TORCH, requirement):
            yield TorchAsked(file=name, requirement=_shown(requirement), hashed="--hash=" in text)


def _from_pyproject(host: Host, folder: str) -> Iterator[TorchAsked]:
    text = host.text(posixpath.join(folder, "pyproject.toml"), _LIMIT).value or ""
    project = _toml(text)
    indexes = _indexes_of_torch(project)
    for line in _of_torch(_declared(project, "pyproject.toml")):
        yield replace(line, index=indexes.get((line.group, line.extra)) or indexes.get(("", ""), ""))
    left = _LIMIT
    for member in itertools.islice(dict.fromkeys(_members(host, folder, project)), _MOST_MEMBERS):
        file = f"{member}/pyproject.toml"
        text = host.text(posixpath.join(folder, file), _LIMIT).value or ""
        if "torch" in text.lower() and (left := left - len(text)) >= 0:
            yield from _of_torch(_declared(_toml(text), file))


def _indexes_of_torch(project: dict[str, Any]) -> dict[tuple[str, str], str]:
    """The index that uv takes torch from, by the group and the extra that it is for; both "" for any other."""
    uv = _table(project, "tool", "uv")
    rows, sources = uv.get("index"), _table(uv, "sources").get("torch")
    urls = {str(row.get("name")): row.get("url") for row in _tables(rows)}
    found = ((row, urls.get(str(row.get("index")))) for row in _tables(sources))
    return {
        (str(row.get("group", "")), str(row.get("extra", ""))): url
        for row, url in found
        if isinstance(url, str) and without_secrets(url) == url and len(url) <= _LONGEST
    }


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _tables(found: Any) -> list[dict[str, Any]]:
    """One table, or a list of them."""
    return [one for one in (found if isinstance(found, list) else [found])[:_MOST_ASKED] if isinstance(one, dict)]


def _read(host: Host, folder: str, name: str) -> dict[str, Any]:
    return _toml(host.text(posixpath.join(folder, name), _LIMIT).value or "")


@lru_cache(maxsize=2)
def _toml(text: str) -> dict[str, Any]:
    """A TOML text as a table, which nobody changes; empty if it is invalid. Several readers ask for a project's."""
    from gpudoctor.bounded_toml import TomlError, read_toml

    try:
        return read_toml(text)
    except (ImportError, TomlError):
        return {}


def _members(host: Host, folder: str, project: dict[str, Any]) -> Iterator[str]:
    """Folders of a uv workspace: their requirements are locked together with the project's own."""
    listed = _table(project, "tool", "uv", "workspace").get("members")
    for pattern in listed if isinstance(listed, list) else ():
        if not isinstance(pattern, str):
            continue
        parent, _, last = pattern.strip("/").rpartition("/")
        if last == "*" and "*" not in parent:
            names = host.names(posixpath.join(folder, parent)).value or ()
            yield from (posixpath.join(parent, name) for name in sorted(names)[:_MOST_MEMBERS])
        elif "*" not in pattern and ".." not in pattern:
            yield posixpath.join(parent, last)


def project_packages(host: Host, project: Project, installed: Collection[str]) -> tuple[ProjectPackage, ...]:
    """Which of the installed packages a project's pyproject.toml, or Pipfile, names."""
    of_pipenv = project.lock == "Pipfile.lock"
    file = "Pipfile" if of_pipenv else "pyproject.toml"
    table = _read(host, project.folder, file) if project.folder else {}
    declared = _from_pipfile(table) if of_pipenv else _declared(table, file)
    found = ((re.match(_NAME, line.requirement), line) for line in declared)
    named = (ProjectPackage(normalised(name[0]), line.group, line.extra) for name, line in found if name)
    return tuple(itertools.islice((one for one in dict.fromkeys(named) if one.name in installed), _MOST_ASKED))


def _of_torch(lines: Iterable[TorchAsked]) -> Iterator[TorchAsked]:
    mine = (line for line in lines if re.match(_TORCH, line.requirement))
    return (replace(line, requirement=_shown(line.requirement)) for line in mine)


def _declared(project: dict[str, Any], file: str) -> Iterator[TorchAsked]:
    """Every requirement that a pyproject.toml declares, in the tables of any tool."""
    table = _table(project, "project")
    yield from _lines(table.get("dependencies"), file)
    for extra, lines in _table(table, "optional-dependencies").items():
        yield from _lines(lines, file, extra=extra)
    for group, lines in _table(project, "dependency-groups").items():
        yield from _lines(lines, file, group=group)
    tool = _table(project, "tool")
    for table in _table(tool, "hatch", "envs").values():
        for key in ("dependencies", "extra-dependencies"):
            yield from _lines(table.get(key) if isinstance(table, dict) else None, file)
    for group, lines in _table(tool, "pdm", "dev-dependencies").items():
        yield from _lines(lines, file, group=group)
    yield from _lines(_table(tool, "uv").get("dev-dependencies"), file, group="dev")
    yield from _of_poetry(_table(tool, "poetry"), file)


def _of_poetry(poetry: dict[str, Any], file: str) -> Iterator[TorchAsked]:
    """The tables in which poetry keeps a requirement as name and version."""
    groups = {"": poetry, "dev": {"dependencies": poetry.get("dev-dependencies")}, **_table(poetry, "group")}
    for group, table in groups.items():
        yield from _named(_table(table, "dependencies"), file, group)


def _from_pipfile(pipfile: dict[str, Any]) -> Iterator[TorchAsked]:
    """The lists of a Pipfile: [packages], [dev-packages], and those of other names."""
    for group in pipfile:
        if group not in _NO_PACKAGES:
            yield from _named(_table(pipfile, group), "Pipfile", "" if group == "packages" else group)


def _named(table: dict[str, Any], file: str, group: str) -> Iterator[TorchAsked]:
    for name, value in table.items():
        version = value.get("version") if isinstance(value, dict) else value
        exact = "==" if isinstance(version, str) and version[:1].isdigit() else ""
        if name != "python":
            text = f"{name} {exact}{version}" if isinstance(version, str) else name
            yield TorchAsked(file=file, requirement=text, group=group)


def _table(data: Any, *names: str) -> dict[str, Any]:
    """The table below these names; empty where there is none."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _lines(lines: Iterable[Any] | None, file: str, *, group: str = "", extra: str = "") -> Iterator[TorchAsked]:
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, str):
            yield TorchAsked(file=file, requirement=line.strip(), group=group, extra=extra)


def _shown(requirement: str) -> str:
    """Shortened for display; secrets are removed first, since half a secret is still a secret."""
    return without_secrets(requirement)[:_LONGEST]
