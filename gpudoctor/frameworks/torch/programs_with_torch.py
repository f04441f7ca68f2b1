"""Programs that are installed for themselves and choose their torch (vLLM, SGLang): one fix for both."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.finding import Fix, ReplacePackage
from gpudoctor.frameworks.gpu_builds import builds_for, release_for, supports
from gpudoctor.frameworks.torch.candidates import Choice, candidates
from gpudoctor.frameworks.torch.compiled_packages import dependent_row
from gpudoctor.frameworks.torch.nearest_build import fix_by
from gpudoctor.machine import Distribution, Gpu, Torch
from gpudoctor.matrix.rows.packages import Framework
from gpudoctor.matrix.versions import local_version, major_of, package_matches
from gpudoctor.situation import Situation


def with_the_program(
    situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None, *, driver: str | None = None
) -> Iterator[Fix]:
    """For each such program that is installed: the torch that its release pins, if the program and that torch support
    the GPUs on this driver, or on another `driver`; else the newest release that does, with its torch."""
    choices, _ = candidates(situation, gpus, driver=driver)
    for row in situation.matrix.tables.frameworks_on_torch:
        package = _present(situation, row) if row.chooses_torch and gpus else None
        if package is None:
            continue
        for release, cuda in _releases(situation, row, package, gpus):
            if choice := _its_torch(situation, Distribution(package.name, release), cuda, choices):
                yield _together(fix_by(situation, choice, keep), row, package, release)
                break


def _present(situation: Situation, row: Framework) -> Distribution | None:
    """The program as it is installed; of a text that is about it, and tells a nightly or nothing of its release, its
    name alone. A wheel for another CUDA, or one that was built here, says nothing of the torch beside it."""
    package = situation.machine.installed(row.packages[0])
    untold = ".dev" in package.version if package else situation.machine.text.about == row.framework
    if situation.machine.pasted is not None and untold:
        return Distribution(name=row.packages[0], version="")
    if package is None:
        return None
    return None if local_version(package.version) or package.direct_url else package


def _releases(
    situation: Situation, row: Framework, package: Distribution, gpus: tuple[Gpu, ...]
) -> Iterator[tuple[str, str]]:
    """The installed release, if a build of it supports all the GPUs, and the CUDA of that build; then the newest of
    each build that does."""
    serving = [
        build
        for build in builds_for(situation, row.framework, gpus)
        if build.install and build.cuda and all(supports(situation, build, gpu) for gpu in gpus)
    ]
    for build in serving if package.version else ():
        if build.version is None or package_matches(build.version, package.version):
            yield package.version, build.cuda or ""
    for build in serving:
        if release := release_for(situation, build):
            yield release, build.cuda or ""


def _its_torch(situation: Situation, package: Distribution, cuda: str, choices: tuple[Choice, ...]) -> Choice | None:
    """The build of torch that goes with a release of a program, for the same CUDA: the package index's own, as the
    program is, or else the best."""
    pinned = dependent_row(situation, package)
    fitting = [
        one
        for one in choices
        if pinned
        and package_matches(pinned.torch, one.version)
        and major_of(one.cuda) == major_of(pinned.cuda or cuda)
    ]
    return next((one for one in fitting if not one.index_url), fitting[0] if fitting else None)


def _together(fix: Fix, row: Framework, package: Distribution, release: str) -> Fix:
    if release == package.version:
        return fix
    if not package.version:
        why, title = f"{row.title} runs with the torch that it pins alone", f"{fix.title} with {row.title} {release}"
    else:
        why = f"{row.title} {package.version} has no build for the GPUs and the driver here"
        title = f"{fix.title}, and {row.title} {package.version} by {release}"
    return Fix(title, (*fix.remedies, ReplacePackage(package.name, f"=={release}", why=why)))
