"""The torch that installed packages were compiled for, as a fix: one change instead of one for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudoctor.finding import Fix
from gpudoctor.frameworks.torch import builds
from gpudoctor.frameworks.torch.compiled_packages import built_for, cuda_needed, dependent_row
from gpudoctor.frameworks.torch.installed_build import gpus_meant
from gpudoctor.frameworks.torch.nearest_build import nearest
from gpudoctor.machine import Torch
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.versions import local_version, major_of, package_matches
from gpudoctor.situation import Situation, answer_once


def torch_of(situation: Situation, torch: Torch, wanted: str, packages: Iterable[str]) -> tuple[Fix, ...]:
    """The nearest build of the `wanted` release that supports the GPUs here, for the CUDA of the packages that were
    compiled for it; none if there is no such build."""
    choices, _ = builds.candidates(situation, gpus_meant(situation))
    if torch.cuda and situation.machine.pasted and not situation.usable:  # a text that does not tell the GPU
        choices = tuple(choice for choice in choices if choice.cuda)
    majors = {major_of(cuda) for package in packages if (cuda := cuda_needed(situation, package))}
    fitting = tuple(
        choice
        for choice in choices
        if package_matches(wanted, choice.version) and (not choice.cuda or majors <= {major_of(choice.cuda)})
    )
    own = set(_cuda_of_programs(situation, packages))
    fitting = tuple(choice for choice in fitting if choice.cuda and major_of(choice.cuda) in own) or fitting
    alike = tuple(choice for choice in fitting if choice.build == torch.build)
    fitting = tuple(choice for choice in alike if choice.origin == torch.origin) or alike or fitting
    return tuple(builds.fix_by(situation, choice, torch) for choice in nearest(situation, fitting, torch)[:1])


def _cuda_of_programs(situation: Situation, packages: Iterable[str]) -> Iterator[int]:
    """Majors of the CUDA that the package index's wheels of programs need (SGLang's kernels), with any torch."""
    for row in situation.matrix.tables.frameworks_on_torch:
        for name in set(row.packages).intersection(packages) if row.chooses_torch else ():
            installed = situation.machine.installed(name)
            known = (
                dependent_row(situation, installed) if installed and not local_version(installed.version) else None
            )
            if known and known.cuda:
                yield major_of(known.cuda)


@answer_once
def agreed_torch(situation: Situation) -> tuple[Fix, ...]:
    """The torch for which at least two installed packages were compiled that do not work with the present one, if it
    suits all that are installed."""
    torch = situation.torch
    if torch is None:
        return ()
    release = torch.release
    compiled = [name for name, _ in _compiled(situation)]
    for other in dict.fromkeys(_releases(situation)):
        judged = tuple(_judged(situation, release, other))
        broken = sum(not works for works, _ in judged)
        all_agree = broken > 1 and all(would_work for _, would_work in judged)
        if all_agree and (fixes := torch_of(situation, torch, f"=={other}", compiled)):
            return fixes
    return ()


def _releases(situation: Situation) -> Iterator[str]:
    rows = situation.matrix.tables.companions
    for _, wanted in _compiled(situation):
        yield from (row.torch for row in rows if package_matches(wanted, row.torch))


def _judged(situation: Situation, release: str, other: str) -> Iterator[tuple[bool, bool]]:
    """Whether each compiled package works with this torch, and whether with the other."""
    for _, wanted in _compiled(situation):
        yield package_matches(wanted, release), package_matches(wanted, other)
    for name in COMPANIONS:
        installed = situation.machine.installed(name)
        if installed is not None:
            fits = situation.matrix.torch.companion_fits
            yield (
                fits(name, installed.version, release) is not False,
                fits(name, installed.version, other) is not False,
            )


def _compiled(situation: Situation) -> Iterator[tuple[str, str]]:
    """Packages for which the torch that they were compiled for is known: they state it, or the matrix does."""
    for name in sorted({row.package for row in situation.matrix.tables.torch_dependents}):
        installed = situation.machine.installed(name)
        wanted, _ = built_for(situation, installed) if installed else ("", "")
        if wanted:
            yield name, wanted
