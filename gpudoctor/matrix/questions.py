"""The questions that the matrix answers: pure functions over its rows.

`Matrix` holds the rows. The questions are grouped by subject, a module for each group, which is imported when its
first question is asked. Nothing here reads a file. Versions are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from gpudoctor.dependencies import TRITONS, normalised
from gpudoctor.matrix.versions import major_of, package_matches

if TYPE_CHECKING:
    from gpudoctor.machine import Distribution
    from gpudoctor.matrix.amd import AmdQuestions
    from gpudoctor.matrix.driver_packages import DriverPackageQuestions
    from gpudoctor.matrix.errors import ErrorQuestions
    from gpudoctor.matrix.gpu_models import Gpus
    from gpudoctor.matrix.gpu_rates import RateQuestions
    from gpudoctor.matrix.images import ImageQuestions
    from gpudoctor.matrix.nvidia import NvidiaQuestions
    from gpudoctor.matrix.rows import FrameworkBuild, LibraryRole, RequirementUse, SharedFiles, Tables
    from gpudoctor.matrix.rows.packages import ProgramBuild
    from gpudoctor.matrix.torch_builds import TorchQuestions


class Matrix:
    """The loaded rows and the questions that they answer."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    @cached_property
    def gpus(self) -> Gpus:
        """Products, compute capabilities and gfx targets."""
        from gpudoctor.matrix.gpu_models import Gpus

        return Gpus(self.tables)

    @cached_property
    def nvidia(self) -> NvidiaQuestions:
        """NVIDIA drivers, CUDA and kernel modules."""
        from gpudoctor.matrix.nvidia import NvidiaQuestions

        return NvidiaQuestions(self.tables, self.gpus)

    @cached_property
    def amd(self) -> AmdQuestions:
        """AMD targets, overrides, ROCm and its kernel driver."""
        from gpudoctor.matrix.amd import AmdQuestions

        return AmdQuestions(self.tables, self.gpus)

    @cached_property
    def torch(self) -> TorchQuestions:
        """Builds of torch, their indexes and their companions."""
        from gpudoctor.matrix.torch_builds import TorchQuestions

        return TorchQuestions(self.tables)

    @cached_property
    def distributions(self) -> DriverPackageQuestions:
        """Drivers and kernels that distributions ship."""
        from gpudoctor.matrix.driver_packages import DriverPackageQuestions

        return DriverPackageQuestions(self.tables, self.nvidia, self.images)

    @cached_property
    def images(self) -> ImageQuestions:
        """Public container images and distributions."""
        from gpudoctor.matrix.images import ImageQuestions

        return ImageQuestions(self.tables)

    @cached_property
    def errors(self) -> ErrorQuestions:
        """Messages of programs and of the kernel."""
        from gpudoctor.matrix.errors import ErrorQuestions

        return ErrorQuestions(self.tables)

    @cached_property
    def rates(self) -> RateQuestions:
        """How fast a GPU is."""
        from gpudoctor.matrix.gpu_rates import RateQuestions

        return RateQuestions(self.tables)

    @property
    def variables(self) -> frozenset[str]:
        """Names of the variables that known issues, frameworks and programs depend on, but for a person's name."""
        issues = self.tables.known_issues
        names = {name for row in issues for name in (*(one.name for one in row.when.env), *row.variables)}
        names |= {row.chosen_by for row in self.tables.programs if row.chosen_by}
        names |= {row.unless for row in self.tables.same_releases}
        names |= {row.variable for row in self.tables.framework_flags}
        rows = (row for row in self.tables.framework_variables if row.names != "user")
        return frozenset(names | {name for row in rows for name in row.variables})

    def builds_of(self, framework: str) -> tuple[FrameworkBuild, ...]:
        """The GPU builds of a framework beside torch."""
        return tuple(row for row in self.tables.framework_builds if row.framework == framework)

    def programs_named(self, words: str) -> tuple[ProgramBuild, ...]:
        """The programs with a build of their own for a GPU that words name; those of a text in small letters."""
        return tuple(row for row in self.tables.program_builds if re.search(row.pattern, words))

    def framework_of_package(self, package: str) -> str | None:
        """The framework beside torch that a distribution brings, or a GPU build of which it is a part."""
        name = normalised(package)
        tables = self.tables
        brings = ((row.framework, row.packages) for row in tables.frameworks)
        builds = ((row.framework, (row.package,)) for row in tables.framework_builds)
        found = (framework for framework, packages in (*brings, *builds) if name in packages)
        known = {row.framework for row in (*tables.frameworks, *tables.frameworks_on_torch)}
        return next((framework for framework in found if framework in known), None)

    @property
    def gpu_packages(self) -> frozenset[str]:
        """Packages that work with GPUs, and those that they use without requiring them."""
        uses = self.tables.requirement_uses
        names = {row.package for row in uses} | {row.requires for row in uses if row.optional}
        names |= {row.package for row in self.tables.torch_dependents}
        return frozenset(names | {row.package for row in self.tables.extension_builds})

    def shared_folder(self, name: str) -> str:
        """What packages of one folder have in common: whichever of them goes takes files of the others along. ""
        for a package with a folder of its own."""
        if name in TRITONS:
            return TRITONS[0]
        return next((group for row in self.tables.shared_files if (group := group_of(row, name))), "")

    def roles_of(self, library: str) -> Iterator[LibraryRole]:
        """The rows for a library, by the end of its path."""
        rows = (row for row in self.tables.library_roles if any(part in library for part in row.needles))
        return (row for row in rows if re.search(f"/{row.library}$", library))

    def use_of(self, requirement: str, package: str, version: str) -> RequirementUse | None:
        """What breaks where a package lacks this requirement."""
        rows = (row for row in self.tables.requirement_uses if row.package == package)
        named = (row for row in rows if _is_named(row.requires, requirement))
        return next((row for row in named if row.version is None or package_matches(row.version, version)), None)


def _is_named(pattern: str, name: str) -> bool:
    """Whether a whole name matches; most patterns are names themselves, and need not be compiled."""
    if pattern.replace("-", "").replace("|", "").isalnum():
        return name in pattern.split("|")
    return re.fullmatch(pattern, name) is not None


def sharing(row: SharedFiles, listed: Iterable[Distribution]) -> list[list[Distribution]]:
    """The installed packages that own the same files of a row, together."""
    groups: dict[tuple[str, int], list[Distribution]] = {}
    for one in listed:
        if group := group_of(row, one.name):
            groups.setdefault((group, major_of(one.version) if row.per_major else 0), []).append(one)
    return [group for group in groups.values() if len(group) > 1]


def group_of(row: SharedFiles, name: str) -> str:
    """What the packages that own the same files have in common; "" for a package that owns none of a row's."""
    for part in row.needles:
        if part in name:
            break
    else:  # most packages, of hundreds
        return ""
    found = re.fullmatch(row.packages, name)
    return "" if found is None else found.groupdict().get("one") or row.id
