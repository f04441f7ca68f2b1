"""Scripts that a build runs. The commands of a shell script are followed; another script only counts as one that may
install torch."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from msgspec import Struct

from gpudoctor.dockerfile.commands import SHELLS, found_in_turn

INSTALLER = re.compile(r"\b(pip[\d.]*|uv|conda|mamba|micromamba|poetry|pdm|pixi|pipenv)\b")
_VERB = re.compile(r"\b(install|sync|add|create|update)\b")
_TORCH = re.compile(r"\b(py)?torch\b")
_MAY_INSTALL = re.compile(r"\bsetup\.py\b|[\w.-]\.(sh|bash)\b|\btorch\b")
_FOR_A_SHELL = re.compile(r"(?!#!)|#!\S*(?:/|env )\w*sh\b")
_SHELL_SCRIPT = re.compile(r"\.(sh|bash)$")
_OF_OTHER_TOOLS = re.compile(
    r"conda|miniforge|mambaforge|cmake|rustup|nvm|nodesource|entrypoint|profile|bashrc|activate", re.I
)


class Script(Struct, frozen=True):
    """A script that may install torch, because its text says so or because its text is not available."""

    names_torch: bool = False


def for_a_shell(path: str, text: str) -> bool:
    """Whether a script is one of a shell."""
    return not path.endswith(".py") and _FOR_A_SHELL.match(text) is not None


@lru_cache(maxsize=32)
def installing_script(path: str, text: str | None) -> Script | None:
    """The script, if its commands are not followed and it may install torch. `text` is None if it is unavailable."""
    if text is not None:
        found = Script(names_torch=bool(re.search(r"\btorch\b", text)))
        return found if _may_install(text) else None
    suspicious = _SHELL_SCRIPT.search(path) and not _OF_OTHER_TOOLS.search(posixpath.basename(path))
    return Script() if suspicious else None


def installs_torch(text: str) -> bool:
    """Whether a line of a script seems to install torch."""
    return any(found_in_turn(line, INSTALLER, _VERB, _TORCH) for line in text.split("\n") if line.lstrip()[:1] != "#")


def _may_install(text: str) -> bool:
    lines = text.split("\n")
    return bool(_MAY_INSTALL.search(text)) or any(found_in_turn(line, INSTALLER, _VERB) for line in lines)


def script_path(argv: tuple[str, ...]) -> str:
    """The file that a command runs as a script; "" for other commands."""
    if not argv:
        return ""
    name = posixpath.basename(argv[0])
    given = next((word for word in argv[1:] if not word.startswith("-")), "")
    if name in (*SHELLS, ".", "source"):
        return given
    if re.fullmatch(r"python[\d.]*", name):
        return given if given.endswith(".py") and argv[1] != "-m" else ""
    return argv[0] if "/" in argv[0] or _SHELL_SCRIPT.search(argv[0]) else ""
