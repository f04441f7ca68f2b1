"""Packages that own the same files (GPD443, GPD462)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, RemovePackage, by_hand
from gpudoctor.frameworks.gpu_builds import best_package, for_cuda
from gpudoctor.frameworks.other_frameworks import rewrite_shared_files
from gpudoctor.machine import Distribution
from gpudoctor.matrix.questions import sharing
from gpudoctor.matrix.versions import major_of, package_matches
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import SharedFiles

_ORT, _ANY = "ort-cpu-and-gpu-both", "packages-overwrite-each-other"


@check("GPD443", _ORT, "packages", framework="onnxruntime")
def ort_cpu_and_gpu_both(situation: Situation) -> Verdicts:
    """Two packages of ONNX Runtime are installed together.

    ## Why it matters
    All of them own the folder onnxruntime. The one that was installed last has overwritten the other, so the GPU's
    providers may be gone, or come back with the next update.

    ## How it is judged
    Two of the packages onnxruntime, onnxruntime-gpu, onnxruntime-migraphx and the like are installed. It is a note if
    none of them is for a usable GPU.

    ## Fix safety
    Keeps the package for the usable GPU in its version, removes the others and installs it again.
    """
    yield from _overwritten(situation, _ORT)


@check("GPD462", _ANY, "packages")
def packages_overwrite_each_other(situation: Situation) -> Verdicts:
    """Two installed packages own the same files.

    ## Why it matters
    The one that was installed last has overwritten the other. tensorflow-cpu over tensorflow takes the GPU away. Of
    cupy-cuda12x and cupy-cuda13x only one works. nvidia-cudnn-cu12 and nvidia-cudnn-cu13 put one cuDNN into one
    folder, and removing either removes it.

    ## How it is judged
    The matrix names groups of packages that share a folder. It is an error if the framework's GPU build may be gone,
    or libraries that the files there need are missing; a warning where one of the two still works, and a note if none
    is for a usable GPU.

    ## Fix safety
    Keeps the package for the usable GPU in its version, removes the others and installs it again. If another
    framework uses another CUDA than torch does, it is installed for that of torch. Else nothing is removed: a person
    must choose one CUDA for both.
    """
    yield from _overwritten(situation, _ANY)


def _overwritten(situation: Situation, slug: str) -> Iterator[Finding]:
    for row in situation.matrix.tables.shared_files:
        groups = sharing(row, situation.machine.packages) if row.slug == slug else []
        if groups and row.framework is None:
            yield _pairs(situation, row, groups)
            continue
        for group in groups:
            yield _sharing(situation, row, group)


def _sharing(situation: Situation, row: SharedFiles, group: list[Distribution]) -> Finding:
    keep = _to_keep(situation, row, group)
    names = " and ".join(f"{one.name} {one.version}" for one in group)
    together = "They are installed together, and" if len(group) > 2 else "Both"
    names_of_group = {one.name for one in group}
    broken = any(one.package in names_of_group and one.missing for one in situation.machine.extensions)
    instructions = _instructions(situation, row, keep) if keep else ""
    fixes = (_by_hand(instructions, keep, group) if instructions else _keep_only([keep], group),) if keep else ()
    return Finding(
        severity="note" if not situation.usable else "error" if broken else row.severity if keep else "note",
        message=f"{names} are installed. {together} own {row.what}: a program gets the files of the one that was "
        "installed last.",
        saw=" and ".join(one.name for one in group),
        want=f"only {keep.name}" if keep else "one of them",
        subject=f"{keep.name} {keep.version}" if keep else group[0].name,
        framework=row.framework,
        evidence=tuple(map(Evidence.of_package, group)),
        fixes=fixes,
        refs=(row.source,),
    )


def _pairs(situation: Situation, row: SharedFiles, groups: list[list[Distribution]]) -> Finding:
    """Packages of several CUDAs in the same folders: one cause, and one fix for all."""
    kept = [_to_keep(situation, row, group) for group in groups]
    keep = [one for one in kept if one is not None]
    names = ", ".join(" and ".join(f"{one.name} {one.version}" for one in group) for group in groups)
    own = f"Both own {row.what}" if len(groups) == 1 else f"Each pair owns {row.what}"
    members = [one for group in groups for one in group]
    known = len(keep) == len(groups)
    fixes = (_keep_only(keep, members),) if known else ()
    if row.instructions:
        fixes = (_by_hand(row.instructions, keep[0] if keep else None, members),)
    return Finding(
        severity=row.severity if situation.usable else "note",
        message=f"{names} are installed. {own}: a program gets the files of the one that was installed last.",
        saw=f"{len(groups)} pairs" if len(groups) > 1 else " and ".join(one.name for one in groups[0]),
        want=f"only {', '.join(one.name for one in keep)}" if known else "one of each",
        subject=", ".join(one.name for one in keep) if known else groups[0][0].name,
        evidence=tuple(map(Evidence.of_package, members)),
        fixes=fixes or tuple(_one_cuda(situation)),
        refs=(row.source,),
    )


def _one_cuda(situation: Situation) -> Iterator[Fix]:
    """The other frameworks for the CUDA of torch."""
    if situation.torch_cuda:
        for one in situation.others:
            yield from for_cuda(situation, one, {major_of(situation.torch_cuda)})


def _instructions(situation: Situation, row: SharedFiles, keep: Distribution) -> str:
    """Where a person reads how a build is installed that no package index has."""
    builds = situation.matrix.builds_of(row.framework or "")
    of_package = (
        one for one in builds if one.package == keep.name and package_matches(one.version or "", keep.version)
    )
    return next((one.instructions for one in of_package if not one.install), "")


def _by_hand(instructions: str, keep: Distribution | None, group: list[Distribution]) -> Fix:
    """What a person does where the package index lacks the one to keep."""
    name = keep.name if keep else "the one that you need"
    removed = " ".join(one.name for one in group)
    text = f"pip uninstall -y {removed}\nThen install only {name}, as {instructions} says."
    return by_hand(f"Keep only {name}", text, "replaces")


def _keep_only(keep: list[Distribution], group: list[Distribution]) -> Fix:
    names = keep[0].name if len(keep) == 1 else "one of each pair"
    owner = keep[0].name if len(keep) == 1 else "another package"
    removed = (RemovePackage(one.name, why=f"{owner} owns the same files") for one in group if one not in keep)
    return Fix(f"Keep only {names}", (*removed, *map(rewrite_shared_files, keep)))


def _to_keep(situation: Situation, row: SharedFiles, group: list[Distribution]) -> Distribution | None:
    """The package of a build for the usable GPUs: one that the driver runs, then one whose CUDA is in the
    environment, then that of the newest CUDA. None if none is, or frameworks of different CUDA releases need one
    each. Of packages without a framework, the only one for GPUs, by its name."""
    if row.framework is None:
        named = [one for one in group if re.search(r"-(gpu|cu\d+)\b", one.name)]
        for_gpus = named or [one for one in group if not one.name.endswith(("-cpu", "-lite"))]
        majors = {str(major_of(one.cuda)) for one in situation.frameworks if one.cuda}
        wanted = [one for one in for_gpus if one.name.rpartition("-cu")[2][:2] in majors] or for_gpus
        served = situation.usable_of("nvidia") or not situation.usable
        return wanted[0] if served and len(wanted) == 1 else None
    return best_package(situation, row.framework, group)
