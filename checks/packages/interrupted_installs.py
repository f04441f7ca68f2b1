"""Whether an install or update of a package beside torch was interrupted (GPD479)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, ReinstallPackage, ReplacePackage, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.unmet_dependencies import needed_packages, unmet
from gpudoctor.machine import Distribution, InterruptedInstall
from gpudoctor.situation import Situation


@check("GPD479", "package-install-interrupted", "packages")
def package_install_interrupted(situation: Situation) -> Verdicts:
    """An install or update of a package that GPU work needs was interrupted.

    ## Why it matters
    An update removes the old release before it writes the new one: Ctrl-C in between leaves neither. A full disk
    leaves records without content. pip does not see such a package, and programs that ask for its version fail
    ("need=1.17 found=None").

    ## How it is judged
    pip writes ~ for the first letter of what it is about to remove: where ~orchvision-0.24.1.dist-info is all that is
    left of torchvision, nothing took its place. A package whose METADATA is empty or gone was not written to its end.
    A folder tensorflow without its first file, and without a package, imports as an empty module. torch has a check
    of its own, and what is missing for an import is told as such.

    ## Fix safety
    Installs the same release again; of torchvision and torchaudio the one for the installed torch.
    """
    told = {one.name for one in unmet(situation)}
    for left in situation.environment.interrupted:
        if left.name not in told:
            yield _left(situation, left) if left.version else _left_folder(situation, left)
    for package in situation.machine.packages:
        whole = "METADATA" not in package.lacks or not package.path.endswith(".dist-info")
        if not whole and package.name != "torch" and package.name in needed_packages(situation) - told:
            yield _without_metadata(package)


def _left(situation: Situation, left: InterruptedInstall) -> Finding:
    from gpudoctor.frameworks.torch.companions import of_this_torch

    version, index = of_this_torch(situation, left.name) or (left.version, "")
    public, _, local = version.partition("+")
    why = "what was begun is brought to its end"
    again = ReplacePackage(left.name, f"=={public}", index_url=index, local=local, why=why)
    return Finding(
        severity="warning",
        message=f"An update or uninstall of {left.name} was interrupted: {left.path} is left, and {left.name} is not "
        "installed.",
        saw=left.path,
        want=f"{left.name} {version}, or nothing of it",
        subject=left.name,
        evidence=(Evidence("environment.interrupted", left.version, left.path),),
        fixes=(Fix(f"Install {left.name} {version}", (again,)),),
    )


def _left_folder(situation: Situation, left: InterruptedInstall) -> Finding:
    row = next(row for row in situation.matrix.tables.frameworks if left.name in row.packages)
    module = left.path.rpartition("/")[2]
    text = (
        f"Remove {left.path}. If {row.title} is needed, install it again: `gpudoctor recommend --framework "
        f"{row.framework}` names the build."
    )
    return Finding(
        severity="warning",
        message=f"Only a part of the files of {row.title} is left, {left.path}, and no package: `import {module}` "
        "gives an empty module.",
        saw=left.path,
        want=f"a whole {row.title}, or nothing of it",
        subject=left.name,
        framework=row.framework,
        evidence=(Evidence("environment.interrupted", "a folder without its first file", left.path),),
        fixes=(by_hand(f"Remove what is left of {row.title}", text, "replaces"),),
    )


def _without_metadata(package: Distribution) -> Finding:
    again = ReinstallPackage(package.name, package.version, why="its record is written anew")
    return Finding(
        severity="warning",
        message=f"{package.name} {package.version} has no METADATA: pip does not see it, and programs that ask for "
        "its version fail.",
        saw=f"no {package.path}/METADATA",
        want="a .dist-info with METADATA",
        subject=f"{package.name} {package.version}",
        evidence=(Evidence(package.name, "no METADATA", package.path),),
        fixes=(Fix(f"Install {package.name} {package.version} again", (again,)),),
    )
