"""The torch of a base image, and what a file has to leave out so that the image keeps it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.recipe import Recipe
from gpudoctor.dockerfile.torch_requests import TorchRequest
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.versions import package_matches

_MOST = 8
"""Packages that one fix leaves out."""


def with_the_torch_of_its_base(recipe: Recipe, image: Image) -> tuple[Image, tuple[str, ...]] | None:
    """The image without all that brings another torch, and the lines that say what that is. None where its base has
    no torch, or not the one that the file requires, or another one comes all the same."""
    if not image.facts.has_torch:
        return None
    lines: list[str] = []
    for _ in range(_MOST):
        held = recipe.torch(image)
        if held is None or held.asked is None:
            break
        name = held.asked.by.partition(" ")[0] or "torch"
        wanted = held.asked.requirement.specifier.partition("+")[0]
        pinned = held.asked.by or held.asked.pinned
        if not pinned and wanted and image.facts.torch and not package_matches(wanted, image.facts.torch):
            return None
        lines.extend(_left_out(image, held.asked, name, held.version))
        image = replace(image, steps=tuple(_without(step, name) for step in image.steps))
    held = recipe.torch(image)
    if held is None or held.asked is not None:
        return None
    if lines:
        lines.extend(_pinned_companions(image))
    return image, tuple(dict.fromkeys(lines))


def _left_out(image: Image, asked: TorchRequest, name: str, version: str) -> Iterator[str]:
    """Where to leave a package out: in the file that names it, or in the command."""
    file = asked.requirement.file if not asked.locked else ""
    place = file or image.place(asked.line)
    if name == "torch":
        yield f"{place}: leave {'out torch' if file else 'torch out of the command'}; the base image has one."
        return
    brings = f", which brings torch {version}" if version else ""
    source = " from a source that has it for ROCm" if image.facts.vendor == "amd" else ""
    yield f"{place}: leave out {name}{brings}, or install it with --no-deps{source}"


def _pinned_companions(image: Image) -> Iterator[str]:
    """Companions of a certain version, where it is unknown which torch the base image has: each requires its own."""
    if image.facts.torch:
        return
    for step in image.steps:
        for one in step.pip.requirements:
            if one.name in COMPANIONS and one.exact:
                place = one.file or image.place(step.command.line)
                yield f"{place}: leave out {one.name}, which requires its own torch"


def _without(step: Step, name: str) -> Step:
    if not step.installs:
        return step
    others = tuple(one for one in step.pip.requirements if one.name != name)
    return replace(step, pip=replace(step.pip, requirements=others))
