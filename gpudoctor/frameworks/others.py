"""What the checks of frameworks beside torch share. Holds no checks itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.dependencies import parsed
from gpudoctor.finding import Evidence
from gpudoctor.machine import Distribution, Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework


def any_installed(situation: Situation) -> bool:
    """Whether there is a framework beside torch."""
    return bool(situation.others)


def works_beside(situation: Situation, framework: InstalledFramework) -> bool:
    """Whether another framework here uses the GPUs, so that this one may be for other work."""
    return any(
        one.meant_for_gpu and one.vendor and situation.usable_of(one.vendor)
        for one in situation.frameworks
        if one.name != framework.name
    )


def version_evidence(framework: InstalledFramework) -> tuple[Evidence, ...]:
    """Where its version was read."""
    one = framework.distribution
    return (Evidence(one.name, one.version, one.path),) if one else ()


def gpu_names(gpus: tuple[Gpu, ...]) -> str:
    """Each name once."""
    return ", ".join(dict.fromkeys(gpu.name for gpu in gpus))


def sharing_frameworks(situation: Situation) -> frozenset[str]:
    """Frameworks of which several packages own the same files."""
    listed = situation.environment.distributions.value if situation.environment else None
    names = [one.name for one in listed or ()]
    rows = (row for row in situation.matrix.tables.shared_files if row.framework)
    return frozenset(
        row.framework or "" for row in rows if sum(bool(re.fullmatch(row.packages, name)) for name in names) > 1
    )


def parts_of(package: Distribution) -> Iterator[str]:
    """The names of packages that it is one with: those that it pins to its own version (jax-cuda12-pjrt of
    jax-cuda12-plugin)."""
    for line in package.requires:
        what = parsed(line)
        if what is not None and "extra" not in what.marker and what.specifier == f"=={package.version}":
            yield what.name


def in_one_folder(situation: Situation, package: str) -> bool:
    """Whether another installed package has overwritten the files of this one, or lost its own to it."""
    listed = situation.environment.distributions.value if situation.environment else None
    rows = (row for row in situation.matrix.tables.shared_files if row.framework)
    row = next((row for row in rows if re.fullmatch(row.packages, package)), None)
    others = (one.name for one in listed or () if one.name != package)
    return row is not None and any(re.fullmatch(row.packages, name) for name in others)


def framework_of(situation: Situation, package: str) -> InstalledFramework | None:
    """The framework that a package is the GPU build of, or a part of it."""
    for one in situation.others:
        build = situation.machine.installed(one.build.package) if one.build else None
        if build is not None and package in (build.name, *parts_of(build)):
            return one
    return None
