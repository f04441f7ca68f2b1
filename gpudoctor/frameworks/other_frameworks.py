"""What the checks of frameworks beside torch share. Holds no checks itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from gpudoctor.dependencies import parsed
from gpudoctor.finding import Evidence, Finding, Fix, ReinstallPackage, Severity, by_hand
from gpudoctor.machine import Distribution
from gpudoctor.matrix.questions import group_of
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.frameworks import InstalledFramework

JAX_PLUGIN = r"jax-cuda\d+-(?:plugin|pjrt)"
"""jaxlib does not compare its version with that of a ROCm plugin."""


def works_beside(situation: Situation, framework: InstalledFramework) -> bool:
    """Whether another framework here uses the GPUs, so that this one may be for other work. A text may tell it."""
    return bool(situation.machine.text.works) or any(
        one.meant_for_gpu and one.vendor and situation.usable_of(one.vendor)
        for one in situation.frameworks
        if one.name != framework.name
    )


def version_evidence(framework: InstalledFramework) -> tuple[Evidence, ...]:
    """Where its version was read."""
    one = framework.distribution
    return (Evidence.of_package(one),) if one else ()


def finding_of(framework: InstalledFramework, severity: Severity, *facts: Evidence, **parts: Any) -> Finding:
    """A finding about a framework, on its version and these facts; `parts` are the other fields of a Finding."""
    evidence = (*version_evidence(framework), *facts)
    return Finding(severity=severity, subject=framework.named, framework=framework.name, evidence=evidence, **parts)


def reinstall(package: Distribution) -> Fix:
    """What brings back the files of a package."""
    again = ReinstallPackage(package.name, package.version, why="its files are gone")
    return Fix(f"Install {package.name} {package.version} again", (again,))


def sharing_frameworks(situation: Situation) -> frozenset[str]:
    """Frameworks of which several packages own the same files."""
    return frozenset(framework for framework, _ in _sharing(situation))


def in_one_folder(situation: Situation, package: str) -> bool:
    """Whether another installed package has overwritten the files of this one, or lost its own to it."""
    return any(package in names for _, names in _sharing(situation))


def refused_plugins(situation: Situation) -> tuple[Distribution, ...]:
    """The CUDA plugins that JAX leaves alone, because they are of another release than jaxlib."""
    jaxlib = situation.machine.installed("jaxlib")
    plugins = (one for one in situation.machine.packages if re.fullmatch(JAX_PLUGIN, one.name))
    return tuple(one for one in plugins if jaxlib and release_of(one.version) != release_of(jaxlib.version))


def release_of(version: str) -> str:
    """ "0.12.0.1" of "0.12.0.1.post2", as jaxlib compares it; PEP 440 allows what follows."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return found[0] if found else ""


@answer_once
def _sharing(situation: Situation) -> tuple[tuple[str, list[str]], ...]:
    """Frameworks of which several installed packages own the same files, and these packages."""
    found = (
        (row.framework, [one.name for one in situation.machine.packages if group_of(row, one.name)])
        for row in situation.matrix.tables.shared_files
        if row.framework
    )
    return tuple((framework, names) for framework, names in found if len(names) > 1)


def rewrite_shared_files(package: Distribution) -> ReinstallPackage:
    """Fixes that write the files again which went with another package that owned them, too."""
    return ReinstallPackage(package.name, package.version, why="removing the other one takes its files away")


def on_the_loaders_path(folders: Iterable[str]) -> Fix:
    """What makes the loader look into folders of NVIDIA's wheels."""
    value = ":".join((*folders, "$LD_LIBRARY_PATH"))
    text = f'Set the variable before the program starts: export LD_LIBRARY_PATH="{value}"'
    return by_hand("Name the folders of NVIDIA's wheels in LD_LIBRARY_PATH", text)


def parts_of(package: Distribution) -> Iterator[str]:
    """Packages that belong to the same release: those that it pins to its own version (jax-cuda12-pjrt of
    jax-cuda12-plugin)."""
    for line in package.requires:
        what = parsed(line)
        if what is not None and "extra" not in what.marker and what.specifier == f"=={package.version}":
            yield what.name


def parts_here(situation: Situation, package: Distribution) -> Iterator[str]:
    """The installed parts of a package, by its own metadata or by the matrix: a package that was only described
    requires nothing."""
    listed = (
        name for row in situation.matrix.tables.framework_builds if row.package == package.name for name in row.parts
    )
    names = dict.fromkeys((*parts_of(package), *listed))
    yield from (name for name in names if situation.machine.installed(name))


def framework_of(situation: Situation, package: str) -> InstalledFramework | None:
    """The framework that a package is the GPU build of, or a part of it."""
    for one in situation.others:
        build = situation.machine.installed(one.build.package) if one.build else None
        if build is not None and package in (build.name, *parts_here(situation, build)):
            return one
    return None
