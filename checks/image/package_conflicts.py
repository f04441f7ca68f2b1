"""Packages of an image that its torch was not built for."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.proposals import package_line
from gpudoctor.dockerfile.recipe import Recipe, about_line, change
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.torch_dependents import is_constrained
from gpudoctor.dockerfile.unreadable_commands import copies_environment, installs_unread
from gpudoctor.finding import Severity
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.rows import PackageConflict
from gpudoctor.matrix.versions import figures, package_matches

_CLAUSE = re.compile(r"(==|>=|~=|>|<=|<)\s*(\d[\w.]*)")
_WITHOUT = {"torch", "pip", "setuptools", "wheel", "uv"}
"""Packages that bring no other one along that torch may be too old for."""
_OLDEST_PYTHON = (3, 9)
"""The oldest one that NumPy 2 has wheels for."""


@check("GPD658", "image-package-too-new", "image")
def package_too_new(recipe: Recipe) -> Verdicts:
    """NumPy, or another package, is too new for the image's torch.

    ## Why it matters
    Such a torch was built for NumPy 1. It prints "A module that was compiled using NumPy 1.x cannot be run in
    NumPy 2", and tensor.numpy() fails with "Numpy is not available".

    ## How it is judged
    The matrix names the releases that do not go together (package_conflicts). It is an error if the file asks for
    such a release, and the last command that names the package counts. It is a warning if the command leaves the
    release open, and installs or upgrades nothing else than torch: pip then takes the newest one. Constraints, files
    that cannot be read and packages that are there already leave it open.

    ## Fix safety
    The proposed line asks for the newest release that this torch was built for.
    """
    for image in recipe.images:
        torch = recipe.torch(image)
        for row in recipe.matrix.tables.package_conflicts if torch is not None and torch.version else ():
            if row.other != "torch" or not package_matches(row.other_version, torch.version if torch else ""):
                continue
            asked = _last(image, row.package)
            severity = _severity(image, row, *asked) if asked else None
            if torch is None or asked is None or severity is None:
                continue
            step, one = asked
            older = row.version.replace(">=", "<")
            taken = f"{row.package}{one.specifier}" if severity == "error" else f"the newest {row.package}"
            yield about_line(
                image,
                step.command.line,
                step.command.shown,
                severity=severity,
                message=f"The command installs {taken}; torch {torch.version} was built for {row.package} {older}.",
                saw=f"{row.package}{one.specifier}",
                want=f"{row.package}{older}",
                fixes=(
                    change(f"Ask for {row.package} {older}", package_line(image, step, one, f"{row.package}{older}")),
                ),
                refs=(row.source,),
            )


def _last(image: Image, package: str) -> tuple[Step, Requirement] | None:
    """The last command that installs a package into the image's own Python, and what it asks for."""
    found = None
    for step in image.steps:
        if step.pip is None or step.pip.elsewhere or step.command.maybe or step.environment:
            continue
        if one := step.pip.asks_for(package):
            open_ = found is not None and not one.specifier  # what is there stays
            found = found if open_ else (step, one)
    return found


def _severity(image: Image, row: PackageConflict, step: Step, one: Requirement) -> Severity | None:
    clauses = _CLAUSE.findall(one.specifier)
    if any(operator not in ("<", "<=") and package_matches(row.version, version) for operator, version in clauses):
        return "error"
    return "warning" if not one.specifier and _takes_the_newest(image, step, row.package) else None


def _takes_the_newest(image: Image, step: Step, package: str) -> bool:
    """Whether a requirement without a version brings the newest release, and nothing tells of another one."""
    assert step.pip is not None
    python, before = python_of(image), image.steps[: image.steps.index(step)]
    if python is None or figures(python) < _OLDEST_PYTHON or step.pip.tool not in ("pip", "uv") or step.pip.locked:
        return False
    unread = any(installs_unread(image, other) for other in (*before, step)) or copies_environment(image) is not None
    if unread or is_constrained(image, step):
        return False
    others = {other.name for other in step.pip.requirements} - {"torch", package, *COMPANIONS}
    brought = {other.name for earlier in before if earlier.pip for other in earlier.pip.requirements} - _WITHOUT
    there = image.facts is None or image.facts.has_torch or bool(brought)
    return not others and (not there or bool({"-U", "--upgrade"} & set(step.pip.flags)))
