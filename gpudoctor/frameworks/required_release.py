"""Fixes that bring what a job requires of a framework: its release, or the CUDA or ROCm that it is built for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.finding import Fix, ReplaceTorch
from gpudoctor.frameworks.gpu_builds import builds_for, installs, release_for, remedies, runs_here, target_of
from gpudoctor.frameworks.torch.gpus_to_serve import gpus_to_serve
from gpudoctor.frameworks.torch.replacements import replacements
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import FrameworkBuild
    from gpudoctor.requirement import Requirement


def fixes_for(situation: Situation, requirement: Requirement) -> tuple[Fix, ...]:
    """Packages to install, best first; none where no release that the matrix knows is what is required."""
    if not situation.machine.environment.value:
        return ()
    if requirement.framework in (None, "torch"):
        return _torch(situation, requirement)
    return tuple(_other(situation, requirement))


def _torch(situation: Situation, requirement: Requirement) -> tuple[Fix, ...]:
    """Builds for the GPUs here; `replacements` offers only those that are required. A missing torch has a finding of
    its own, and so has a GPU build on a machine without its GPU."""
    torch, vendor = situation.torch, situation.built_for
    usable = situation.usable_of(vendor) if vendor else situation.usable
    if (torch is None and requirement.needs_torch) or (vendor and not usable):
        return ()
    found = replacements(situation, gpus_to_serve(situation, usable), keep=torch)
    return tuple(fix for fix in found if any(isinstance(remedy, ReplaceTorch) for remedy in fix.remedies))


def _other(situation: Situation, requirement: Requirement) -> Iterator[Fix]:
    """A GPU build of the installed release, else the newest release of one."""
    name, _, runtime = requirement.name.partition(".")
    installed = next((one for one in situation.others if one.name == name), None)
    if installed is not None and runtime:
        yield from installs(situation, installed, situation.usable)
        return
    title = next(row.title for row in situation.matrix.tables.frameworks if row.framework == name)
    for build in builds_for(situation, name, situation.usable):
        release = release_for(situation, build) if build.install and runs_here(situation, build) else None
        if release and requirement.admits(value_of(build, release, runtime)):
            steps = remedies(situation, title, build, release, installed)
            yield Fix(f"Install {title} {release} for {target_of(build)}", steps)


def value_of(build: FrameworkBuild, release: str, runtime: str) -> str:
    """What a release of a build has of what is required."""
    return {"cuda": build.cuda, "rocm": build.rocm}.get(runtime, release) or ""
