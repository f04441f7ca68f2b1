"""Packages that must be of one release (GPD472)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, RemovePackage, ReplacePackage
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import figures, public_version
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import SameRelease


@check("GPD472", "packages-of-different-releases", "packages")
def packages_of_different_releases(situation: Situation) -> Verdicts:
    """Packages that must be of one release are not.

    ## Why it matters
    `import flashinfer` stops with "flashinfer-cubin version does not match flashinfer version", and so do vLLM and
    SGLang where they use it.

    ## How it is judged
    The matrix names packages whose import compares the releases. A local version ("+cu130") does not count, nor does
    a build without a version. With the variable that turns the comparison off, nothing is reported. It is a warning
    on a machine without a usable GPU.

    ## Fix safety
    Replaces only the packages with the kernels, or removes those that have no such release.
    """
    for row in situation.matrix.tables.same_releases:
        first = situation.machine.installed(row.package)
        if first is None or situation.variable(row.unless) or public_version(first.version) == "0.0.0":
            continue
        wanted = public_version(first.version)
        there = [one for name in row.others if (one := situation.machine.installed(name)) is not None]
        wrong = [one for one in there if public_version(one.version) != wanted]
        if wrong:
            names = ", ".join(f"{one.name} {one.version}" for one in wrong)
            yield Finding(
                severity="error" if situation.usable else "warning",
                message=f"{first.name} {first.version} cannot be imported beside {names}.",
                saw=names,
                want=f"release {wanted}",
                subject=f"{first.name} {first.version}",
                evidence=(Evidence.of_package(first), *map(Evidence.of_package, wrong)),
                fixes=(_of_one_release(row, first, wrong),),
                refs=(row.source,),
            )


def _of_one_release(row: SameRelease, first: Distribution, others: list[Distribution]) -> Fix:
    """The release of the first package for the others. What has no such release goes: it is not needed."""
    wanted = public_version(first.version)
    gone = [name for name, last in row.last_releases.items() if figures(wanted) > figures(last)]
    gone = [one.name for one in others if one.name in gone]
    why = f"it has no release {wanted}, and {first.name} does without it"
    removed = (RemovePackage(name, why=why) for name in gone)
    why_new = f"{first.name}'s release"
    new = (ReplacePackage(one.name, f"=={wanted}", why=why_new) for one in others if one.name not in gone)
    title = f"Remove {', '.join(gone)}: the index has no release {wanted}"
    return Fix(title if gone else f"Install the release of {first.name}", (*removed, *new))
