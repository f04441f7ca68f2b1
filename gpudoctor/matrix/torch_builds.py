"""Questions about torch builds, their indexes and their companions."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.machine import Torch
from gpudoctor.machine.torch import CompanionName
from gpudoctor.matrix.rows.torch import TorchBuild, index_url
from gpudoctor.matrix.versions import figures, matches, minor, package_matches, public_version

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import Companion, PublishedArchs, Tables, TorchRelease, WheelIndex

_RELEASE = r"\d+(\.\d+)*(\.post\d+)?$"
_INDEX_ORIGINS = ("pypi", "download.pytorch.org")
_FIRST_LISTED = (1, 13)
"""The first release of torch_builds."""


def cuda_of(build: str) -> str | None:
    """ "12.8" of cu128; None for a build without CUDA."""
    found = re.fullmatch(r"cu(\d+)(\d)", build)
    return f"{found[1]}.{found[2]}" if found else None


def rocm_of(build: str) -> str | None:
    """ "6.4" of rocm6.4; None for a build without ROCm."""
    return build.removeprefix("rocm") if build.startswith("rocm") else None


class TorchQuestions:
    """Questions that the torch tables answer."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def build_of(self, torch: Torch, platform: str) -> TorchBuild | None:
        """The row of an installed torch: same version, build, platform, and origin if known. An unknown origin
        matches the index builds; nightlies match their pattern rows."""
        public, _, local = torch.version.partition("+")
        build = torch.build or local or None
        rows = [row for row in self._by_version(public) if row.build == build and row.platform == platform]
        if torch.origin in ("unknown", *_INDEX_ORIGINS):
            own = [row for row in rows if row.origin == torch.origin]
            index = [row for row in rows if row.origin in (*_INDEX_ORIGINS, "nightly")]
            return next(iter(own or index), None)
        return next((row for row in rows if row.origin == torch.origin), None)

    def kin_of(self, torch: Torch, platform: str) -> TorchBuild | None:
        """The build that most likely has the same architectures as an index build without a row. It is the same build
        of its release (for a nightly, a candidate, a patch release); for a nightly also of the release before."""
        if torch.origin not in ("nightly", *_INDEX_ORIGINS):
            return None
        own = minor(torch.release)
        releases = (own, (own[0], own[1] - 1)) if torch.origin == "nightly" else (own,)
        rows = [
            row
            for row in self.tables.torch_builds
            if row.archs and (row.build, row.platform) == (torch.build, platform)
            if row.origin in ("nightly", *_INDEX_ORIGINS)
        ]
        rows.sort(key=lambda row: row.origin != torch.origin)
        return next((row for release in releases for row in rows if minor(row.version) == release), None)

    def published_archs(self, torch: Torch) -> PublishedArchs | None:
        """What the publisher of an installed torch (NGC, conda-forge, Jetson) says that it builds for."""
        release = re.search(r"\.nv(\d+\.\d+)", torch.version)
        for row in self.tables.published_archs:
            if row.origin != torch.origin:
                continue
            if row.cuda is not None and not (torch.cuda and matches(row.cuda, torch.cuda)):
                continue
            if row.release is not None and not (release and matches(row.release, release[1])):
                continue
            return row
        return None

    def builds(self, platform: str | None = None) -> tuple[TorchBuild, ...]:
        """All installable builds (no nightlies), newest first."""
        return self._installable if platform is None else self._installable_on.get(platform, ())

    def pypi_build(self, version: str, platform: str) -> str | None:
        """The build that the package index has of a release for a platform; None: none, or unknown."""
        rows = self._by_version(version)
        return next((row.build for row in rows if (row.origin, row.platform) == ("pypi", platform)), None)

    def published_builds(self, version: str, platform: str) -> tuple[str, ...]:
        """The builds of a release that are known for a platform."""
        rows = (row for row in self._by_version(version) if row.platform == platform and row.origin != "nightly")
        return tuple(dict.fromkeys(row.build for row in rows))

    def is_published(self, version: str, build: str, platform: str) -> bool | None:
        """Whether an index ever had this build of a release; None: unknown, as for releases newer than the matrix."""
        if not re.match(_RELEASE, version) or figures(version) > figures(self.newest_torch()):
            return None
        rows = [row for row in self._by_version(version) if row.origin != "nightly"]
        if any(row.build == build and row.platform == platform for row in rows):
            return True
        release = self.release(version)
        if release is None:
            # Every release since 1.2 has rows. Of an old one all builds for x86-64 are listed.
            return False if figures(version) >= (1, 2) and (platform == "linux-x86_64" or not rows) else None
        elsewhere = any(row.build == build for row in rows)
        return False if platform in release.all_builds_of or (release.all_builds_of and not elsewhere) else None

    def is_cuda(self, version: str) -> bool:
        """Whether NVIDIA released a CUDA of that number."""
        return (
            any(minor(row.cuda) == minor(version) for row in self.tables.cuda_toolkits)
            or any(row.cuda and minor(row.cuda) == minor(version) for row in self.tables.torch_builds)
            or any(cuda_of(build) == version for row in self.tables.old_torch_builds for build in row.builds)
        )

    def newest_old_release(self, build: str) -> str:
        """The newest release of the table of old builds that has a build; "" if none has."""
        rows = (row for row in self.tables.old_torch_builds if build in row.builds)
        return max((version for row in rows for version in row.torch), key=figures, default="")

    def is_rocm(self, version: str) -> bool:
        """Whether AMD released a ROCm of that number, as far as its first two figures tell."""
        known = (
            *(row.version for row in self.tables.rocm_releases),
            *(row.rocm for row in self.tables.torch_builds if row.rocm),
            *(build[4:] for row in self.tables.old_torch_builds for build in row.builds if build.startswith("rocm")),
        )
        return minor(version) in set(map(minor, known))

    def index_url(self, build: TorchBuild) -> str:
        """Wheel index of a build; "" for the package index's own. A `wheel_index` overlay replaces pytorch-stable."""
        if build.origin == "pypi":
            return ""
        by_origin = {"download.pytorch.org": "pytorch-stable", "nightly": "pytorch-nightly", "amd": "amd-multi-arch"}
        id = build.index or by_origin.get(build.origin)
        mirror = self.tables.wheel_index
        if id == "pytorch-stable" and mirror is not None:
            return index_url(mirror.template, mirror.base, build.build, build.rocm or "")
        index = self._indexes.get(id or "")
        return index_url(index.template, index.base, build.build, build.rocm or "") if index else ""

    def wheel_index(self, id: str) -> WheelIndex | None:
        return self._indexes.get(id)

    def release(self, version: str) -> TorchRelease | None:
        """The release row of "2.9.1" (local part ignored)."""
        return self._releases.get(public_version(version))

    def cudnn_of(self, build: TorchBuild) -> str | None:
        """Version of the cuDNN that comes with a CUDA build; None: unknown."""
        release = self.release(build.version)
        if build.cudnn or release is None or build.cuda is None:
            return build.cudnn
        return release.cudnn if build.cuda == release.cuda else None

    def glibc_of(self, build: TorchBuild) -> str | None:
        """Oldest glibc that a build runs with; None: unknown."""
        release = self.release(build.version)
        return build.glibc or (release.glibc if release else None)

    def newest_torch(self) -> str:
        """Newest torch release that the matrix knows."""
        return max(self._releases, key=figures)

    def companion(self, torch: str) -> Companion | None:
        """The companions of a torch release (exact, local part ignored)."""
        return self._companions.get(public_version(torch))

    def companion_fits(self, package: CompanionName, version: str, torch: str) -> bool | None:
        """Whether an installed torchvision or torchaudio matches a torch; None: unknown."""
        version, torch = public_version(version), public_version(torch)
        if not re.match(_RELEASE, torch) or not re.match(_RELEASE, version):
            return None
        row = self._companions.get(torch)
        if row is not None and version in row.releases_of(package):
            return True
        for stable in self.tables.stable_companions:
            if stable.package == package and figures(version) >= figures(stable.version):
                return package_matches(stable.torch, torch)
        if row is None:
            return None
        # Releases before the stable ones pin one torch; a patch release's pin is often stricter than the ABI.
        pairs = {minor(partner) for partner in row.releases_of(package)}
        return None if minor(version) in pairs else False

    @cached_property
    def _installable(self) -> tuple[TorchBuild, ...]:
        rows = (row for row in self.tables.torch_builds if row.origin != "nightly")
        return tuple(sorted(rows, key=lambda row: figures(row.version), reverse=True))

    @cached_property
    def _installable_on(self) -> dict[str, tuple[TorchBuild, ...]]:
        platforms = {row.platform for row in self._installable}
        return {name: tuple(row for row in self._installable if row.platform == name) for name in platforms}

    @cached_property
    def _versions(self) -> dict[str, list[TorchBuild]]:
        found: dict[str, list[TorchBuild]] = {}
        for row in self.tables.torch_builds:
            found.setdefault(row.version, []).append(row)
        return found

    def _by_version(self, public: str) -> list[TorchBuild]:
        patterns = [
            version for version in self._versions if version.endswith("*") and public.startswith(version[:-1])
        ]
        rows = [row for version in (public, *patterns) for row in self._versions.get(version, ())]
        return rows or self._old_builds(public)

    def _old_builds(self, public: str) -> list[TorchBuild]:
        """Builds of a torch before 1.13: no candidates, but known where they are installed or described."""
        if not () < figures(public) < _FIRST_LISTED:
            return []
        found = []
        for row in self.tables.old_torch_builds:
            for build in row.builds if public in row.torch else ():
                made = TorchBuild(
                    version=public,
                    build=build,
                    origin="download.pytorch.org",
                    platform="linux-x86_64",
                    pythons=row.pythons,
                    cuda=cuda_of(build),
                    rocm=build[4:] if build.startswith("rocm") else None,
                    archs=row.archs,
                    ptx=row.ptx,
                    basis=row.basis,
                    source=row.source,
                )
                found += [made, replace(made, origin="pypi")] if row.on_pypi else [made]
                found += [replace(made, origin="pypi", platform="linux-aarch64")] if build == "cpu" else []
        return found

    @cached_property
    def _indexes(self) -> dict[str, WheelIndex]:
        return {row.id: row for row in self.tables.wheel_indexes}

    @cached_property
    def _releases(self) -> dict[str, TorchRelease]:
        return {row.version: row for row in self.tables.torch_releases}

    @cached_property
    def _companions(self) -> dict[str, Companion]:
        return {row.torch: row for row in self.tables.companions}
