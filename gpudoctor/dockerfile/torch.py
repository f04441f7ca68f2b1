"""The torch that an image ends up with: that of its base image, or what its commands install."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.dockerfile.commands import found_in_turn
from gpudoctor.dockerfile.conda import conda_packages
from gpudoctor.dockerfile.environments import made_by, makes_one
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.start import programs
from gpudoctor.dockerfile.torch_dependents import required_by
from gpudoctor.dockerfile.torch_requests import TorchRequest, asked_for
from gpudoctor.dockerfile.torch_wheels import ImageTorch, installed_by
from gpudoctor.matrix.versions import package_matches

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_UNINSTALLED = re.compile(r"\bpip[\d.]* uninstall\b"), re.compile(r"\storch(\s|$)")

_PYTHON = re.compile(r"python[\d.]*")
_OF_BASES = ("/opt/conda", "/opt/venv")
"""Where images have an environment of their own."""
_SEEN = re.compile(r"system-site-packages|SYSTEM_SITE_PACKAGES|\.pth\b")
"""What makes an environment see the packages of the image's own Python."""


def torch_of(image: Image, matrix: Matrix) -> ImageTorch | None:
    """The torch that the image ends up with; None if there is none or nothing is known of it."""
    facts = image.facts
    held: ImageTorch | None = None
    if facts.has_torch:
        held = ImageTorch(facts.torch or "", _base_build(image), image.base_line, "base")
    if any("pytorch" in name for step in image.steps if not step.installs for name in conda_packages(step.command)):
        return None
    if any(step.script is not None and step.script.names_torch for step in image.steps):
        return None
    removals = (at for at, step in enumerate(image.steps) if found_in_turn(step.command.text, *_UNINSTALLED))
    removed = max(removals, default=-1)
    if removed >= 0:
        held = None
    kept = {(step.command.line, step.command.text) for step in image.steps[removed + 1 :]}
    for asked in sorted((*asked_for(image), *required_by(image, matrix)), key=lambda asked: asked.line):
        if (asked.line, asked.text) not in kept:
            continue
        if asked.maybe:
            return None
        apart = held is not None and held.source == "base" and apart_from_base(image, asked.environment)
        if held is not None and (_starts_base(image) if apart else _satisfied(held, asked)):
            continue
        held = installed_by(image, matrix, asked)
    return held


def apart_from_base(image: Image, environment: str | None) -> bool:
    """Whether an environment is made by the image's own commands, and does not see what the base image holds."""
    made = [step.command for step in image.steps if step.environment == environment and makes_one(step.command.argv)]
    if (
        not environment
        or not made
        or any(_SEEN.search(f"{step.command.text} {step.command.writes}") for step in image.steps)
    ):
        return False
    return environment not in _OF_BASES or any(made_by(command.argv) for command in made)


def _starts_base(image: Image) -> bool:
    """Whether containers start the Python of the base image: an environment beside it is for some tool."""
    started = programs(image.entrypoint, image.command)
    return bool(started) and "PATH" not in image.settings and all(_PYTHON.fullmatch(words[0]) for words in started)


def _base_build(image: Image) -> str:
    facts = image.facts
    if facts.rocm:
        return f"rocm{facts.rocm}"
    return f"cu{facts.cuda.replace('.', '')}" if facts.cuda and facts.origin != "ngc" else ""


def _satisfied(held: ImageTorch, asked: TorchRequest) -> bool:
    """Whether pip keeps the installed torch: its version matches, and nothing forces another."""
    if asked.folder or re.search(r"\s(--force-reinstall|--ignore-installed|-I)\b", asked.text):
        return False
    along = bool(asked.by) and asked.tool == "pip"  # pip upgrades what is named, and of the rest what does not match
    upgraded = re.search(r"\s(-U|--upgrade)\b", asked.text) and (not along or "eager" in asked.text)
    if asked.requirement.specifier.startswith("@") or upgraded:
        return False
    if asked.local and asked.local != held.build:
        return False
    if not asked.requirement.specifier:
        return True
    if not held.version:
        return not asked.pinned
    return package_matches(asked.requirement.specifier.partition("+")[0], held.version)
