"""The frameworks beside torch that an image's commands install, by the rows of the matrix: which build of each, and
whether its CUDA libraries come along."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import figures, major_of, package_matches
from gpudoctor.situation.frameworks import unknown_build

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Framework, FrameworkBuild

_FOR_GPUS = re.compile(r"cuda|rocm|gpu")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


class InstalledPackage(Struct, frozen=True):
    """One package that a command installs, and that no later one removes."""

    requirement: Requirement
    step: Step
    order: int
    """The number of its command."""

    @property
    def name(self) -> str:
        return self.requirement.name

    @property
    def pinned(self) -> str:
        """Its exact version; "" if it is open."""
        return self.requirement.exact


class ImageFramework(Struct, frozen=True):
    """A framework of an image."""

    row: Framework
    package: InstalledPackage
    build: FrameworkBuild | None
    """Its GPU build; None: a CPU build, or unknown."""
    version: str = ""
    """The exact version, or the newest that the matrix knows; "" if unknown."""
    whole: bool = False
    """Whether the CUDA libraries that it needs come with it."""
    cpu: bool = False
    """Whether it is a CPU build for certain."""
    by: str = ""
    """The package that brings it, if the file does not name it."""
    cudnn: str | None = None
    """The major release of the cuDNN that it needs here."""
    lacks: tuple[str, ...] = ()
    """Extras for GPUs that the file asks for and that this release does not have."""

    @property
    def line(self) -> int:
        return self.package.step.command.line

    @property
    def certain(self) -> bool:
        """Whether the file pins its version."""
        return bool(self.package.pinned)

    @property
    def text(self) -> str:
        brought = f" of {self.by}" if self.by else ""
        return f"{self.row.title} {self.version}{brought}".replace("  ", " ").strip()


def packages_of(image: Image) -> tuple[tuple[InstalledPackage, ...], ...]:
    """What pip and uv install, environment by environment, without what a later command removes or may or may not
    install."""
    environments: dict[str, dict[str, InstalledPackage]] = {}
    for order, step in enumerate(image.steps):
        command, install = step.command, step.pip
        place = environments.setdefault(os.path.dirname(command.argv[0]) if command.argv else "", {})
        if step.installs and not install.elsewhere:
            for requirement in install.requirements:
                if command.maybe:
                    place.pop(requirement.name, None)
                else:
                    place[requirement.name] = InstalledPackage(requirement, step, order)
        elif "uninstall" in command.argv:
            for word in command.argv[command.argv.index("uninstall") + 1 :]:
                found = _NAME.match(word)
                place.pop(normalised(found[0]) if found else "", None)
    return tuple(tuple(place.values()) for place in environments.values() if place)


def frameworks_of(image: Image, matrix: Matrix) -> Iterator[ImageFramework]:
    """The frameworks that the image's commands install, in the matrix's order."""
    python = python_of(image)
    for place in packages_of(image):
        by_name = {one.name: one for one in place}
        for row in matrix.tables.frameworks:
            found = _framework(row, by_name, image, python, matrix)
            if found is not None:
                yield found


def _framework(
    row: Framework, by_name: dict[str, InstalledPackage], image: Image, python: str | None, matrix: Matrix
) -> ImageFramework | None:
    there = [by_name[name] for name in row.packages if name in by_name]
    by = ""
    users = [by_name[name] for name in row.brought_by if name in by_name]
    if not there and users and package_matches(row.brought_by[users[0].name], users[0].pinned or "999"):
        there = [replace(users[0], requirement=Requirement(row.packages[0], file=users[0].requirement.file))]
        by, by_name = users[0].name, {**by_name, row.packages[0]: there[0]}
    if not there:
        return None
    package = there[0]
    own = (one for name, one in by_name.items() if name in row.packages or name.startswith(row.framework))
    lacks = _missing_extras(row, package, matrix, python)
    local = any(re.search(r"\+|^@", one.requirement.specifier) for one in own)
    extras = {extra for extra in _extras(package) if normalised(extra) not in lacks}
    builds = [one for one in matrix.builds_of(row.framework) if image.platform in one.platforms]
    direct = [one for one in builds if one.package in by_name]
    brought = [one for one in builds if one.install == package.name and one.package != package.name]
    brought = [one for one in brought if any(extra.startswith(one.extra) for extra in extras)]
    if local or any(one.file for one in direct):
        return ImageFramework(row, package, None)
    if not direct and not brought:
        listed = (Distribution(name=name, version=one.pinned) for name, one in by_name.items())
        if unknown_build(row, listed):
            return ImageFramework(row, package, None, package.pinned)
        page = package.step.pip.find_links  # it may hold builds for GPUs
        cpu = not extras and row.gpu != "always" and (not page or bool(lacks))
        return ImageFramework(row, package, None, package.pinned, cpu=cpu, lacks=lacks)
    built = by_name.get(direct[0].package, package) if direct else package
    build, release = _chosen(direct or brought, built, python)
    if build is None:
        return ImageFramework(row, package, None, lacks=lacks)
    needed = set(build.extra.split(",")) if build.extra else set()
    # An extra such as cuda12-local brings the build without its libraries.
    whole = bool(needed) and all(
        any(re.fullmatch(rf"{one}(_pip|-pip)?", extra) for extra in extras) for one in needed
    )
    version = package.pinned or (release if build.install == package.name else "")
    cudnn = cudnn_of(build) if users or not row.brought_by else None
    return ImageFramework(row, package, build, version, whole, by=by, cudnn=cudnn, lacks=lacks)


def _chosen(
    rows: list[FrameworkBuild], package: InstalledPackage, python: str | None
) -> tuple[FrameworkBuild | None, str]:
    """The build that pip installs, and its newest release there: the build of the exact version, or the newest with
    wheels for the image's Python; "" if the release is unknown."""
    if package.pinned:
        # A row without versions that serves CPUs, too, tells nothing of old releases.
        of_version = (
            row for row in rows if (package_matches(row.version, package.pinned) if row.version else not row.default)
        )
        found = next(of_version, None)
        return found, (found.newest or "") if found else ""
    specifier = package.requirement.specifier
    if all(row.version is None and not row.pythons for row in rows):
        return rows[0], rows[0].newest or ""
    newest = [(row, release) for row in rows if (release := newest_for(row, python))]
    fitting = [pair for pair in newest if not specifier or package_matches(specifier, pair[1])]
    if not fitting or (python is None and len({major_of(row.cuda) for row in rows}) > 1):
        return None, ""
    return max(fitting, key=lambda pair: figures(pair[1]))


def newest_for(row: FrameworkBuild, python: str | None) -> str:
    """The newest release of a build with wheels for a Python; "" if none is known."""
    if not row.pythons or python is None or python in row.pythons:
        return row.newest or ""
    return row.older.get(python, "")


def _extras(package: InstalledPackage) -> list[str]:
    return re.findall(r"[\w.-]+", package.requirement.extras)


def _missing_extras(row: Framework, package: InstalledPackage, matrix: Matrix, python: str | None) -> tuple[str, ...]:
    """The extras for GPUs that a file asks for and that the release does not have: pip leaves them out."""
    version, specifier = package.pinned, package.requirement.specifier
    rows = [one for one in matrix.builds_of(row.framework) if one.install == package.name]
    if not version and not specifier and python is not None:
        version = max((newest_for(one, python) for one in rows), key=figures, default="")
    if figures(version) > max((figures(one.newest or "") for one in rows), default=()):
        return ()  # a release that came after the matrix may have more extras
    return tuple(
        name
        for name in map(normalised, _extras(package))
        if row.extras
        and _FOR_GPUS.search(name)
        and (name not in row.extras or (version and not package_matches(row.extras[name], version)))
    )


def cudnn_of(build: FrameworkBuild) -> str | None:
    """The major release of the cuDNN that a build opens."""
    if build.cudnn:
        return build.cudnn
    found = (name.removeprefix("libcudnn.so.") for name in build.opens if name.startswith("libcudnn.so."))
    return next(found, None)


def missing_libraries(image: Image, framework: ImageFramework, matrix: Matrix) -> tuple[str, ...]:
    """The CUDA libraries that a framework needs and its base image does not have, as people call them: "CUDA 13",
    "cuDNN 9". Empty if it brings them, or if that is unknown."""
    build, facts = framework.build, image.facts
    if build is None or build.vendor != "nvidia" or not build.cuda or not facts.known or facts.vendor == "amd":
        return ()
    rows = matrix.builds_of(framework.row.framework)
    if framework.whole or not any(row.extra or row.opens for row in rows):
        return ()
    if facts.cuda is None and (build.default or facts.vendor is not None):
        return ()  # for CPUs, or an image whose tag does not tell its CUDA
    missing = []
    if not facts.libraries or major_of(facts.cuda) != major_of(build.cuda):
        missing.append(f"the libraries of CUDA {major_of(build.cuda)}")
    if framework.cudnn is not None and facts.cudnn != framework.cudnn:
        missing.append(f"cuDNN {framework.cudnn}")
    return tuple(missing)


def distributions(framework: ImageFramework) -> tuple[str, ...]:
    """What a description says of it: "jax==0.12.0.1", "jax-cuda12-plugin==0.12.0.1"."""
    build, version = framework.build, framework.version
    if not version or (build is None and not framework.cpu):
        return ()
    own = f"{framework.package.name}=={version}"
    if build is None or build.package == framework.package.name:
        return (own,)
    return (own, f"{build.package}=={version}") if build.package.startswith(build.framework) else ()
