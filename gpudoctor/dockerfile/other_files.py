"""Other files than recipes: the command that installs what they list, or what can be checked in their place."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

_LONGEST = 64 << 10
"""Characters in which the signs are looked for."""
_ITS_IMAGE = "check the Dockerfile or the manifest that it uses"
_RENDERED = "run `helm template . > all.yaml` and check that file"
_INSTALLED = "check the Dockerfile that installs it, or the environment: gpudoctor check --python PATH"
_IN_A_JOB = "write `gpudoctor preflight --` in front of its program"


class _Kind(NamedTuple):
    title: str
    advice: str
    name: str = ""
    """What the name of such a file matches."""
    text: tuple[str, ...] = ()
    """What stands on lines of it: all of these."""
    command: str = ""
    """What installs the packages that it lists, or runs it; "{}" is its name."""


_KINDS = (
    _Kind("a template of Helm", _RENDERED, text=(r".{0,300}?\{\{[^{}\n]{0,100}\.(Values|Release|Chart)\b",)),
    _Kind("a template of Helm", _RENDERED, r".*\.tpl$"),
    _Kind("a template", "check what becomes of it", r".*\.(jinja2?|j2|tmpl|template)$"),
    _Kind("a file of values for Helm", _RENDERED, r"(.*[._-])?values([._-].*)?\.ya?ml$|Chart\.yaml$"),
    _Kind("a recipe of Cog", "check what `cog debug` prints", r"cog\.ya?ml$"),
    _Kind("a pipeline of GitLab", _ITS_IMAGE, r"\.gitlab-ci(\..*)?\.ya?ml$"),
    _Kind("a workflow of GitHub", _ITS_IMAGE, text=(r"jobs:", r"""["']?on["']?:""")),
    _Kind("an action of GitHub", _ITS_IMAGE, r"action\.ya?ml$"),
    _Kind("a task of SkyPilot", _IN_A_JOB, text=(r"resources:", r"(run|setup):")),
    _Kind("a cluster of Ray", _IN_A_JOB, text=(r"cluster_name:", r"provider:")),
    _Kind(
        "an environment of conda",
        _INSTALLED,
        r".*\.ya?ml$",
        (r"dependencies:", r"[ \t]*-\s"),
        "conda env create -f {}",
    ),
    _Kind("a project of pixi", _INSTALLED, r"pixi\.(toml|lock)$", command="pixi install"),
    _Kind("a project of Python", _INSTALLED, r"Pipfile(\.lock)?$", command="pipenv install"),
    _Kind("a project of Python", _INSTALLED, r"poetry\.lock$", command="poetry install"),
    _Kind("a project of Python", _INSTALLED, r"pdm\.lock$", command="pdm install"),
    _Kind("a project of Python", _INSTALLED, r"uv\.lock$", command="uv sync"),
    _Kind("a project of Python", _INSTALLED, r"pyproject\.toml$", (r"\[tool\.poetry\b",), "poetry install"),
    _Kind("a project of Python", _INSTALLED, r"pyproject\.toml$", (r"\[tool\.pdm\b",), "pdm install"),
    _Kind("a project of Python", _INSTALLED, r"pyproject\.toml$", (r"\[tool\.uv\b",), "uv sync"),
    _Kind("a project of Python", _INSTALLED, r"pyproject\.toml$", (r"\[(project|build-system)\b",), "pip install ."),
    _Kind("a file of settings that lists no package", _INSTALLED, r"pyproject\.toml$"),
    _Kind("a project of Python", _INSTALLED, r"setup\.(py|cfg)$", command="pip install ."),
    _Kind(
        "a list that conda exported",
        _INSTALLED,
        r".*\.txt$",
        (r"[a-z][\w.-]*=\d[^=\s]*=\S+$",),
        "conda create --file {}",
    ),
    _Kind(
        "a list of packages", _INSTALLED, r"(.*[._-])?requirements([._-].*)?\.(txt|in)$", command="pip install -r {}"
    ),
    _Kind("a list of packages", _INSTALLED, r"(.*[._-])?constraints([._-].*)?\.(txt|in)$"),
    _Kind("a batch script of Slurm", _IN_A_JOB, text=(r"#SBATCH\s",), command="bash {}"),
    _Kind("a job of PBS", _IN_A_JOB, text=(r"#PBS\s",), command="bash {}"),
    _Kind("an app of Modal, whose image is written in Python", _IN_A_JOB, text=(r"(import|from) modal\b",)),
    _Kind("a Python file", "give a Dockerfile, a compose file or a manifest", r".*\.py$"),
    _Kind("a shell script", _IN_A_JOB, r".*\.(sh|bash)$", command="bash {}"),
)


def other_kind(name: str, text: str) -> str:
    """What a file is that is neither a Dockerfile nor a compose file, with what to do instead; "" if unknown."""
    kind = _kind(name, text)
    if kind is None:
        return ""
    unread = "which installs nothing that is read" if kind.command.startswith("bash ") else "which is not read"
    return f"this is {kind.title}, {unread}: {kind.advice}"


def installing(name: str, text: str) -> str:
    """The command that installs what a file lists, or that runs a script; "" if it is no such file."""
    kind = _kind(name, text)
    return kind.command.replace("{}", shlex.quote(name)) if kind else ""


def _kind(name: str, text: str) -> _Kind | None:
    head = text[:_LONGEST]
    for kind in _KINDS:
        named = not kind.name or re.match(kind.name, name, re.IGNORECASE)
        if named and all(re.search(rf"^{sign}", head, re.MULTILINE) for sign in kind.text):
            return kind
    return None
