"""Whether the files of two releases of one package are mixed in a folder (GPD478)."""

from __future__ import annotations

import posixpath

from gpudoctor.check import Verdicts
from gpudoctor.dependencies import requirements_here
from gpudoctor.finding import Evidence, Finding, Fix, ReinstallPackage, RemovePackage, Severity
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.unmet_dependencies import Effect, effect_of, required_here
from gpudoctor.machine import Distribution
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation


@check("GPD478", "package-installed-twice", "packages")
def package_installed_twice(situation: Situation) -> Verdicts:
    """Two releases of a package that GPU work needs lie in one folder.

    ## Why it matters
    One wrote its files over those of the other: what only one of them has is left, and Python loads a mixture. NumPy
    1.26 over 2.4 cannot be imported. `pip install --ignore-installed`, an interrupted update and two installers at
    once leave such a mixture, and pip sees only one of the two.

    ## How it is judged
    A folder of installed packages has two whole records of one name, with different versions. Only packages that
    torch or another GPU package needs are judged. It is an error if a framework other than torch cannot be imported
    or use the GPU without the package, and the two are of different release lines; else a warning, because a mixture
    may still work. Two patch releases are a note where an import does without the package. A record without RECORD
    is what is left of an earlier install, and is none.

    ## Fix safety
    Removes both records with their files, and installs one release again: the one that the other packages admit, and
    of two the one whose files lie there.
    """
    for one in situation.machine.packages:
        effect = effect_of(situation, one.name) if one.twins and one.name != "torch" else None
        if effect is not None and effect.breaks != "nothing":
            yield _mixed(situation, one, effect)


def _mixed(situation: Situation, one: Distribution, effect: Effect) -> Finding:
    from gpudoctor.frameworks.torch.companions import of_this_torch

    versions = (one.version, *(twin.version for twin in one.twins))
    fitting = tuple(each.version for each in (one, *one.twins) if _finds_what_it_requires(situation, each))
    kept, index = of_this_torch(situation, one.name) or (_admitted(situation, one.name, (*fitting, *versions)), "")
    again = ReinstallPackage(one.name, kept, index_url=index, why="one release, whole")
    severity = _severity(situation, one, effect)
    fails = f": {effect.text}" if severity == "error" else ""
    why = "the files of both must go"
    return Finding(
        severity=severity,
        message=f"{one.name} is installed twice in {posixpath.dirname(one.path)}, as {' and '.join(versions)}, and "
        f"their files are mixed{fails}.",
        saw=", ".join(f"{one.name} {version}" for version in versions),
        want=f"{one.name} {kept} alone",
        subject=f"{one.name} {one.version}",
        confidence="likely",
        evidence=tuple(Evidence.of_package(each) for each in (one, *one.twins)),
        fixes=(Fix(f"Install {one.name} {kept} cleanly again", (RemovePackage(one.name, why=why), again)),),
        supersedes=(
            "torch-import-fails",
            "framework-import-fails",
            *((f"{one.name}-mismatch",) if one.name in COMPANIONS else ()),
        ),
    )


def _finds_what_it_requires(situation: Situation, one: Distribution) -> bool:
    """Whether the installed packages are in the ranges that a release asks for."""
    found = ((what, situation.machine.installed(what.name)) for what in requirements_here(one, situation.markers))
    return all(there is None or what.admits(there.version) for what, there in found)


def _admitted(situation: Situation, name: str, versions: tuple[str, ...]) -> str:
    """The first version that all which require the package admit; else the first."""
    asked = [each.what for each in required_here(situation) if each.what.name == name]
    return next((one for one in versions if all(what.admits(one) for what in asked)), versions[0])


def _severity(situation: Situation, one: Distribution, effect: Effect) -> Severity:
    lines = {figures(each.version)[:2] for each in (one, *one.twins)}
    works = situation.imported(effect.package)
    small = works or effect.breaks not in ("import", "gpu")
    if len(lines) == 1:
        return "note" if small else "warning"
    return "warning" if small else "error"
