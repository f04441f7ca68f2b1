"""What a setup.py or a setup.cfg requires, as far as its text tells: nothing is run."""

from __future__ import annotations

import ast
import configparser
import warnings
from collections.abc import Iterator

from gpudoctor.dependencies import normalised
from gpudoctor.dockerfile.projects import UNKNOWN, Choice, Project

_LONGEST = 256 << 10
_CHANGING = ("append", "extend", "insert", "remove")
_REQUIRES, _EXTRAS = "install_requires", "extras_require"


def read_setup(script: str | None, config: str | None, folder: str, choice: Choice) -> Project:
    """What a project of setuptools requires. `script` and `config` are the texts of its setup.py and setup.cfg."""
    if (script is None and config is None) or len(script or "") > _LONGEST:
        return UNKNOWN
    named = _of_script(script, f"{folder}setup.py") if script is not None else {}
    listed = _of_config(config, f"{folder}setup.cfg") if config is not None else {}
    if named is None or listed is None:
        return UNKNOWN
    lists = {**listed, **named}
    names = [""] * choice.project + list(choice.extras)
    names += [name for name in lists if name and name not in names] if choice.all_extras else []
    found = [lists.get(name) for name in map(_plain, names)]
    texts = [text for one in found if one is not None for text in one.texts]
    files = [file for one in found if one is not None for file in one.files]
    missing = any(one is None for name, one in zip(names, found, strict=True) if name)
    return Project(tuple(texts), tuple(files), unread=missing or any(one is not None and one.unread for one in found))


def _plain(name: str) -> str:
    return normalised(name) if name else ""


def _of_script(text: str, path: str) -> dict[str, Project] | None:
    """The lists of `setup(...)`: "" for install_requires, else an extra. None if nothing tells."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = _assigned(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_setup(node.func)]
    if len(calls) != 1 or any(keyword.arg is None for keyword in calls[0].keywords):
        return None
    given = {keyword.arg: keyword.value for keyword in calls[0].keywords}
    lists = {"": _list(given[_REQUIRES], names, path)} if _REQUIRES in given else {}
    extras = given.get(_EXTRAS)
    extras = names.get(extras.id) if isinstance(extras, ast.Name) else extras
    if isinstance(extras, ast.Dict):
        for key, value in zip(extras.keys, extras.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                lists[_plain(key.value)] = _list(value, names, path)
    return lists


def _is_setup(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name == "setup"


def _assigned(tree: ast.Module) -> dict[str, ast.expr | None]:
    """The values of names that are assigned once and not changed later; None for the others."""
    found: dict[str, ast.expr | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = None if target.id in found else node.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = None
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _CHANGING:
            found[node.value.id] = None
    return found


def _list(value: ast.expr | None, names: dict[str, ast.expr | None], path: str) -> Project:
    """A list of texts, or one that is read from a requirements file."""
    value = names.get(value.id) if isinstance(value, ast.Name) else value
    if value is None:
        return UNKNOWN
    if isinstance(value, ast.List | ast.Tuple):
        texts = [one for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        places = tuple((str(one.value), f"{path}:{one.lineno}") for one in texts)
        return Project(places, unread=len(texts) < len(value.elts))
    files = {str(one.value) for one in ast.walk(value) if isinstance(one, ast.Constant) and _is_list_file(one.value)}
    return Project(files=tuple(files)) if len(files) == 1 else UNKNOWN


def _is_list_file(value: object) -> bool:
    return isinstance(value, str) and value.endswith(".txt")


def _of_config(text: str, path: str) -> dict[str, Project] | None:
    """The lists of a setup.cfg."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    lines = {line.strip(): number for number, line in reversed(list(enumerate(text.splitlines(), start=1)))}

    def listed(value: str) -> Iterator[tuple[str, str]]:
        for line in value.splitlines():
            bare = line.partition(" #")[0].strip()
            if bare and not bare.startswith("#"):
                yield bare, f"{path}:{lines.get(line.strip(), 1)}"

    def project(value: str) -> Project:
        if value.strip().startswith("file:"):
            return Project(files=tuple(one.strip() for one in value.strip()[5:].split(",")))
        return Project(tuple(listed(value)))

    section = dict(parser.items("options")) if parser.has_section("options") else {}
    extras = dict(parser.items(f"options.{_EXTRAS}")) if parser.has_section(f"options.{_EXTRAS}") else {}
    lists = {"": project(section[_REQUIRES])} if _REQUIRES in section else {}
    return {**lists, **{_plain(name): project(value) for name, value in extras.items()}}
