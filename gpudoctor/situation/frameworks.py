"""The installed frameworks as the rest of the program knows them: whose GPUs each is built for, and what it needs.

torch is one of them. All others are rows of the matrix (`frameworks`, `framework_builds`) beside what the environment
has: its distributions, and the few files that the probe read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.machine import Distribution, FrameworkFiles, PythonEnvironment, Torch, Vendor
from gpudoctor.matrix.versions import package_matches

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Framework, FrameworkBuild

TORCH = "torch"


class InstalledFramework(Struct, frozen=True):
    """One framework of the examined environment."""

    name: str
    """As the matrix names it: "torch", "jax"."""
    title: str
    """As its users call it: "JAX"."""
    version: str
    vendor: Vendor | None
    """Whose GPUs the installed build is for; None: a CPU build, or unknown."""
    cuda: str | None = None
    """CUDA that it was built with: "12.8", or its major alone."""
    rocm: str | None = None
    source: str = ""
    distribution: Distribution | None = None
    """The one that gives the version."""
    row: Framework | None = None
    build: FrameworkBuild | None = None
    """The GPU build that is installed."""
    unknown_build: str = ""
    """The distribution that makes it a GPU build of which the matrix knows nothing."""
    files: FrameworkFiles | None = None

    @property
    def meant_for_gpu(self) -> bool:
        """Whether it was installed for a GPU: a package that serves both kinds of machines tells by its libraries."""
        if self.vendor is None or self.build is None or not self.build.default:
            return self.vendor is not None
        return self.files is not None and self.files.not_found.value == ()

    @property
    def is_cpu_build(self) -> bool:
        return self.vendor is None and not self.unknown_build

    @property
    def has_cpu_build(self) -> bool:
        return self.row is None or self.row.gpu != "always"

    @property
    def named(self) -> str:
        """ "JAX 0.12.0"."""
        return f"{self.title} {self.version}"

    @property
    def text(self) -> str:
        """ "JAX 0.12.0 (CUDA 12)"."""
        made_for = f"CUDA {self.cuda}" if self.cuda else f"ROCm {self.rocm}" if self.rocm else ""
        if self.is_cpu_build:
            made_for = "CPU build"
        return self.named + (f" ({made_for})" if made_for else "")


def installed_frameworks(environment: PythonEnvironment, matrix: Matrix) -> tuple[InstalledFramework, ...]:
    """The frameworks beside torch, in the matrix's order."""
    by_name = {one.name: one for one in environment.packages}
    if not by_name:
        return ()
    found = (_installed(row, by_name, environment, matrix) for row in matrix.tables.frameworks)
    return tuple(one for one in found if one is not None)


def _installed(
    row: Framework, by_name: dict[str, Distribution], environment: PythonEnvironment, matrix: Matrix
) -> InstalledFramework | None:
    there = [by_name[name] for name in row.packages if name in by_name]
    if not there:
        return None
    files = environment.frameworks.files_of(row.framework)
    distribution = next((one for one in there if one.name == files.owner), there[0])
    builds = _builds(row, by_name, matrix)
    # What was read of the files counts; a machine that was only described has its distributions alone.
    wanted = (build for build in builds if (build.package == files.build if files.source else not build.file))
    build = next(wanted, None)
    return InstalledFramework(
        name=row.framework,
        title=row.title,
        version=distribution.version,
        vendor=build.vendor if build else None,
        cuda=(files.cuda or build.cuda) if build and build.vendor == "nvidia" else None,
        rocm=build.rocm if build else None,
        source=distribution.path,
        distribution=distribution,
        row=row,
        build=build,
        unknown_build="" if build else unknown_build(row, by_name.values()),
        files=files,
    )


def unknown_build(row: Framework, listed: Iterable[Distribution]) -> str:
    """The distribution by whose name or version a framework is a GPU build, where no row of the matrix says so."""
    found = (one.name for one in listed if row.for_gpus and re.fullmatch(row.for_gpus, f"{one.name}=={one.version}"))
    return next(found, "")


def _builds(row: Framework, by_name: dict[str, Distribution], matrix: Matrix) -> Iterator[FrameworkBuild]:
    for build in matrix.builds_of(row.framework):
        one = by_name.get(build.package)
        if one is not None and (build.version is None or package_matches(build.version, one.version)):
            yield build


def torch_framework(torch: Torch, vendor: Vendor | None) -> InstalledFramework:
    """torch in the same form."""
    return InstalledFramework(
        name=TORCH,
        title=TORCH,
        version=torch.version,
        vendor=vendor,
        cuda=torch.cuda if vendor == "nvidia" else None,
        rocm=torch.rocm if vendor == "amd" else None,
        source=torch.source,
    )
