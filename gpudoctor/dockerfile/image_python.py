"""The Python of an image."""

from __future__ import annotations

import re
from functools import lru_cache

from gpudoctor.dockerfile.conda import conda_packages
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.installs import system_packages
from gpudoctor.dockerfile.markers import PYTHONS

_OTHER_PYTHON = re.compile(
    r"[Pp]ython-?(3\.\d+|\$)|altinstall|asdf|pixi|spack|miniconda|miniforge|mambaforge|micromamba|anaconda|pyenv"
)
_NAMED_PYTHON = re.compile(r"(?:\buv .{0,200}--python[ =]|\b(?:conda|mamba) create .{0,200}\bpython=)(3\.\d+)")
"""A Python that the file asks for, with its version."""


@lru_cache
def python_of(image: Image) -> str | None:
    """The Python that pip installs into; None if base image and commands leave a doubt."""
    named = {found for step in image.steps for found in _NAMED_PYTHON.findall(step.command.text)}
    named |= {(image.variable("UV_PYTHON") or "")[:4]} & set(PYTHONS)
    if named:
        return named.pop() if len(named) == 1 else None
    return _own(image, image.facts.python) if image.facts.python else None


def oldest_python(image: Image) -> str | None:
    """The oldest Python that pip may install into: that of `python:latest`, where no command brings another one."""
    return _own(image, image.facts.python_from) if image.facts.python_from else None


def _own(image: Image, python: str) -> str | None:
    """The Python of the base image; None if the file may bring another one."""
    names = [name for step in image.steps for name in (*system_packages(step.command), step.command.text)]
    if any(found[1] != python for name in names for found in _OTHER_PYTHON.finditer(name)):
        return None
    if any(conda_packages(step.command) for step in image.steps):
        return None
    if any(re.search(r"--python|uv (python|venv|sync)", step.command.text) for step in image.steps):
        return None
    if any(re.search(r"python3\.|venv|conda", one.value or "") for one in image.settings.values()):
        return None
    return python if not any(one.origin for one in image.copied if "python" in one.target) else None
