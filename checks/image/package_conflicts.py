"""Packages of an image that its torch was not built for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.proposals import package_line
from gpudoctor.dockerfile.recipe import Recipe, about_line, change
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.torch_dependents import is_constrained
from gpudoctor.dockerfile.torch_wheels import ImageTorch
from gpudoctor.dockerfile.unreadable_commands import copies_environment, installs_unread
from gpudoctor.finding import Severity
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.rows import PackageConflict
from gpudoctor.matrix.versions import figures, first_figures, package_matches

_CLAUSE = re.compile(r"(==|>=|~=|>|<=|<)\s*(\d[\w.]*)")
_WITHOUT = {"torch", "pip", "setuptools", "wheel", "uv"}
"""Packages that bring no other one along that torch may be too old for."""
_OLDEST_PYTHON = (3, 9)
"""The oldest one that NumPy 2 has wheels for."""


class _Conflict(NamedTuple):
    """A package that the image installs, and what its torch needs of it."""

    order: int
    """The place of its command among the steps."""
    asked: Requirement
    severity: Severity
    needed: str
    """The requirement to write: "numpy<2"."""
    why: str
    source: str = ""
    by: str = ""
    """The package that requires it, if the file does not name it."""


@check("GPD658", "image-package-conflict", "image")
def package_conflict(recipe: Recipe) -> Verdicts:
    """A package is of a release that the image's torch cannot use.

    ## Why it matters
    A torch before 2.3 was built for NumPy 1: beside NumPy 2 tensor.numpy() fails with "Numpy is not available". A
    torch for CUDA loads the cuDNN of one major, and torch.compile needs the Triton that torch was released with. pip
    replaces what torch brought by what a later command asks for, and only prints that it does not fit.

    ## How it is judged
    The last command that names the package counts, and the matrix says what goes together. With NumPy it is an error
    if the file asks for such a release, and a warning if the command leaves the release open and installs or upgrades
    nothing else than torch: pip then takes the newest one, also where only torchvision requires it. Constraints,
    files that cannot be read and packages that are there already leave it open. Another major of cuDNN is an error,
    another Triton a warning.

    ## Fix safety
    The proposed line asks for the release that this torch was built for.
    """
    for image in recipe.images:
        torch = recipe.torch(image)
        if torch is None or not torch.version:
            continue
        for one in (*_too_new(recipe, image, torch), *_of_another_release(recipe, image, torch)):
            step, name, specifier = image.steps[one.order], one.asked.name, one.asked.specifier
            taken = f"{name}{specifier}" if specifier else f"the newest {name}"
            taken += f", which {one.by} requires" if one.by else ""
            yield about_line(
                image, step.command.line, step.command.shown, severity=one.severity,
                message=f"The command installs {taken}; torch {torch.version} {one.why}.",
                saw=f"{name}{specifier}",
                want=one.needed,
                fixes=(change(f"Ask for {one.needed}", _line(image, step, one)),),
                refs=(one.source,) if one.source else (),
            )  # fmt: skip


def _line(image: Image, step: Step, one: _Conflict) -> str:
    if one.by and one.asked.file not in ("", step.command.script):
        return f"{one.asked.file}: below it: {one.needed}"
    return package_line(image, step, one.asked, one.needed)


def _too_new(recipe: Recipe, image: Image, torch: ImageTorch) -> Iterator[_Conflict]:
    environment = torch.asked.environment if torch.asked is not None else ""
    for row in recipe.matrix.tables.package_conflicts:
        if row.other != "torch" or not package_matches(row.other_version, torch.version):
            continue
        by = ""
        order, asked = _last(image, row.package, environment)
        for name in row.brought_by if asked is None else ():
            order, asked = _last(image, name, environment)
            later = any(installs_unread(image, step) for step in image.steps[order + 1 :])  # may hold it back
            alone = asked is None or later or "--no-deps" in image.steps[order].pip.flags
            asked, by = (None, "") if alone or asked is None else (Requirement(row.package, file=asked.file), name)
        if asked is None or (recipe.gpus and asked.exact):
            continue  # the checks of machines tell of a version
        if (severity := _severity(image, row, order, asked)) is not None:
            needed = row.package + row.version.replace(">=", "<")
            yield _Conflict(order, asked, severity, needed, f"was built for {needed}", row.source, by)


def _of_another_release(recipe: Recipe, image: Image, torch: ImageTorch) -> Iterator[_Conflict]:
    """What torch requires by its exact release, where a command beside it or after it asks for another one."""
    if torch.vendor != "nvidia" or not torch.known or (torch.asked is not None and torch.asked.locked):
        return
    rows = recipe.matrix.torch.builds(image.platform)
    row = next((row for row in rows if (row.version, row.build) == (torch.version, torch.build)), None)
    companion = recipe.matrix.torch.companion(torch.version)
    cudnn, triton = row and recipe.matrix.torch.cudnn_of(row), companion and companion.triton
    needed = {f"nvidia-cudnn-cu{torch.build[2:4]}": (cudnn, 1), "triton": ((triton or "").removeprefix("=="), 2)}
    first = torch.asked.order if torch.asked is not None else -1
    for name, (release, length) in needed.items():
        order, asked = _last(image, name, "")
        if not release or asked is None or not asked.release or order < first:
            continue
        beside = order == first  # then pip finds no solution, however little they differ
        compared = figures if beside else partial(first_figures, count=length)
        if compared(asked.release) != compared(release):
            severity: Severity = "warning" if name == "triton" and not beside else "error"
            yield _Conflict(order, asked, severity, f"{name}=={release}", f"requires {name} {release}")


def _last(image: Image, package: str, environment: str | None) -> tuple[int, Requirement | None]:
    """The place of the last command that installs a package into an environment, and what it asks for."""
    found: tuple[int, Requirement | None] = -1, None
    for order, step in enumerate(image.steps):
        asked = step.pip.asks_for(package)
        if (
            asked is None
            or step.pip.elsewhere
            or step.command.maybe
            or environment is None
            or step.environment != environment
        ):
            continue
        if asked.specifier or found[1] is None:  # what is there stays
            found = order, asked
    return found


def _severity(image: Image, row: PackageConflict, order: int, asked: Requirement) -> Severity | None:
    clauses = _CLAUSE.findall(asked.specifier)
    if any(operator not in ("<", "<=") and package_matches(row.version, version) for operator, version in clauses):
        return "error"
    return "warning" if not asked.specifier and _takes_the_newest(image, order, row.package) else None


def _takes_the_newest(image: Image, order: int, package: str) -> bool:
    """Whether a requirement without a version brings the newest release, and nothing tells of another one."""
    python, before, step = python_of(image), image.steps[:order], image.steps[order]
    if python is None or figures(python) < _OLDEST_PYTHON or step.pip.tool not in ("pip", "uv") or step.pip.locked:
        return False
    unread = any(installs_unread(image, other) for other in (*before, step)) or copies_environment(image) is not None
    if unread or is_constrained(image, step):
        return False
    others = {other.name for other in step.pip.requirements} - {"torch", package, *COMPANIONS}
    brought = {other.name for earlier in before for other in earlier.pip.requirements} - _WITHOUT
    there = not image.facts.known or image.facts.has_torch or bool(brought)
    return not others and (not there or bool({"-U", "--upgrade"} & set(step.pip.flags)))
