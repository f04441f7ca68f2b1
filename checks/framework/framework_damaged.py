"""Files of frameworks beside torch, and of packages with GPU code, that are gone (GPD469)."""

from __future__ import annotations

import posixpath

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding
from gpudoctor.frameworks.other_frameworks import reinstall, sharing_frameworks
from gpudoctor.frameworks.torch.unmet_dependencies import unmet
from gpudoctor.machine import DamagedFile, Distribution
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework


@check("GPD469", "framework-install-damaged", "framework")
def framework_install_damaged(situation: Situation) -> Verdicts:
    """Files of a framework, or of a package with GPU code, are gone.

    ## Why it matters
    The import fails ("module 'onnxruntime' has no attribute ..."), or the GPU part cannot be loaded and the framework
    computes on the CPU. Removing onnxruntime takes the files of onnxruntime-gpu along.

    ## How it is judged
    The RECORD of the package names files that are missing, empty, or end before what their own header promises. Only
    the first files of packages and libraries are compared. Where two packages own the same files, that is told
    instead. A library of which there are several does not count if it is deleted; if it is cut short, it is still
    the one that is loaded. It is an error with a usable GPU, else a warning. Where the import was tried and works,
    a lost Python file is a warning: it is imported later. There all files are looked at for emptied ones.

    ## Fix safety
    Installs the same version of that package again.
    """
    shared = sharing_frameworks(situation)
    frameworks = {name: one for one in situation.others for name in _packages_of(one)}
    for package in situation.machine.packages:
        one = frameworks.get(package.name)
        lost = [file for file in package.lost if file.problem != "unreadable" and not _is_spare(situation, file)]
        if not lost or package.installer == "conda" or (one is not None and one.name in shared):
            continue
        if one is not None or _has_gpu_code(situation, package.name):
            yield _damaged(situation, package, lost, one)


def _packages_of(one: InstalledFramework) -> tuple[str, ...]:
    return (*(one.row.packages if one.row else ()), one.build.package if one.build else "")


def _has_gpu_code(situation: Situation, package: str) -> bool:
    """Whether a package computes on GPUs, and no other check tells of its files."""
    beside_torch = {name for row in situation.matrix.tables.frameworks_on_torch for name in row.packages}
    known = (situation.matrix.gpu_packages | beside_torch) - {"torch"}
    return package in known and all(one.name != package for one in unmet(situation))


def _damaged(
    situation: Situation, package: Distribution, lost: list[DamagedFile], one: InstalledFramework | None
) -> Finding:
    site = posixpath.dirname(package.path)
    later = situation.imported(package.name) and all(file.path.endswith(".py") for file in lost)
    files = enumeration([file.path.removeprefix(f"{site}/") for file in lost], 3)
    return Finding(
        severity="error" if situation.usable and not later else "warning",
        message=f"Files of {package.name} {package.version} are missing or cut short: {files}."
        + (" The import does without them, and what needs them fails." if later else ""),
        saw=files,
        want=f"a whole {package.name} {package.version}",
        subject=one.named if one else f"{package.name} {package.version}",
        framework=one.name if one else "torch",
        evidence=tuple(Evidence(package.name, file.problem, file.path) for file in lost[:5]),
        fixes=(reinstall(package),),
        supersedes=("framework-import-fails", "framework-cuda-libs-missing", "framework-cpu-only"),
    )


def _is_spare(situation: Situation, file: DamagedFile) -> bool:
    """A library for some operations only, or for another GPU, which people delete to save room."""
    roles = ("part", "chosen", "alternative") if file.problem == "missing" else ("part", "chosen")
    return any(row.role in roles for row in situation.matrix.roles_of(file.path))
