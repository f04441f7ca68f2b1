"""The wheel of torch that a command installs, as far as the matrix tells."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.requirements import torch_wheel
from gpudoctor.dockerfile.torch_requests import Source, TorchRequest
from gpudoctor.matrix.versions import figures, package_matches

if TYPE_CHECKING:
    from gpudoctor.machine import Vendor
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import TorchBuild


class ImageTorch(Struct, frozen=True):
    """The torch of an image. `build` or `version` is "" if unknown."""

    version: str
    build: str
    line: int
    source: Source
    asked: TorchRequest | None = None
    certain: bool = True
    """False if the version is only the newest known one that matches."""

    @property
    def known(self) -> bool:
        """Whether version and build are those of a wheel that can be checked."""
        return bool(self.version and re.fullmatch(r"cpu|xpu|cu\d+|rocm[\d.]+", self.build))

    @property
    def vendor(self) -> Vendor | None:
        if self.build.startswith("rocm"):
            return "amd"
        return "nvidia" if re.match(r"cu\d", self.build) else None


def installed_by(image: Image, matrix: Matrix, asked: TorchRequest) -> ImageTorch:
    """The torch that one command installs, as far as gpudoctor can tell."""
    build = asked.local or asked.build
    if wheel := torch_wheel(asked.requirement.specifier.lstrip("@ ")):
        version, _, local = wheel.partition("+")
        return ImageTorch(version, build or local, asked.line, asked.source, asked)
    python = python_of(image)
    specifier = asked.requirement.specifier
    if asked.tool == "conda" and asked.channel != "conda-forge":
        row = matrix.images.removed_package("pytorch", "pytorch")
        specifier = ",".join(filter(None, (specifier, f"<={row.last}" if row else "")))
    rows = _matching(wheels_for(matrix, image.platform, python), specifier)
    if asked.source == "package index" and not asked.local:
        own = next((row for row in rows if row.origin == "pypi"), None)
        return ImageTorch(
            own.version if own else asked.pinned,
            own.build if own else "",
            asked.line,
            asked.source,
            asked,
            bool(asked.pinned),
        )
    if asked.source == "both" and not asked.local:
        offered = [row for row in rows if row.origin == "pypi" or row.build == build]
        newest = [row for row in offered if row.version == offered[0].version]
        newest.sort(key=lambda row: row.build != build)  # pip takes 2.9.1+cu128 before 2.9.1
        return _of_row(asked, next(iter(newest), None), build)
    if build:
        best = next((row for row in rows if row.build == build and row.origin != "pypi"), None)
        if best is None and not asked.requirement.specifier:
            return ImageTorch(matrix.torch.newest_old_release(build), build, asked.line, asked.source, asked, False)
        return _of_row(asked, best, build)
    return ImageTorch("", "", asked.line, asked.source, asked, False)


def _of_row(asked: TorchRequest, row: TorchBuild | None, build: str) -> ImageTorch:
    if row is None:
        return ImageTorch(
            asked.pinned, build if asked.source != "both" else "", asked.line, asked.source, asked, False
        )
    source = "package index" if row.origin == "pypi" else asked.source
    return ImageTorch(row.version, row.build, asked.line, source, asked, bool(asked.pinned))


def outrun(image: Image, matrix: Matrix, held: ImageTorch, asked: TorchRequest) -> TorchBuild | None:
    """The build that an extra index was named for, if pip instead installs a newer torch of the package index."""
    if asked.source != "both" or asked.pinned or held.asked != asked or held.build in ("", asked.build):
        return None
    rows = (row for row in wheels_for(matrix, image.platform, python_of(image)) if row.build == asked.build)
    wanted = next(rows, None)
    return wanted if wanted is not None and figures(wanted.version) < figures(held.version) else None


@lru_cache
def wheels_for(matrix: Matrix, platform: str, python: str | None) -> tuple[TorchBuild, ...]:
    """The builds that pip may install there, newest first."""
    rows = (row for row in matrix.torch.builds(platform) if row.origin in ("pypi", "download.pytorch.org"))
    return tuple(row for row in rows if python is None or python in row.pythons)


def _matching(rows: tuple[TorchBuild, ...], specifier: str) -> list[TorchBuild]:
    public = re.sub(r"\+[\w.]+", "", specifier)
    versions = {row.version for row in rows}
    matching = {version for version in versions if not public or package_matches(public, version)}
    return [row for row in rows if row.version in matching]
