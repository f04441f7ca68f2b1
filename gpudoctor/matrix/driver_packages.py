"""Questions about the drivers and kernels that distributions ship."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gpudoctor.matrix.versions import at_least, figures, matches, minor

if TYPE_CHECKING:
    from gpudoctor.machine import Os
    from gpudoctor.matrix.images import ImageQuestions
    from gpudoctor.matrix.nvidia import NvidiaQuestions
    from gpudoctor.matrix.rows import (
        AmdgpuDkmsSystem,
        DistributionKernel,
        DriverPackage,
        FirmwarePackage,
        ModuleKey,
        Tables,
    )

Flavour = Literal["open", "proprietary"]


class DriverPackageQuestions:
    """Questions that the tables of driver packages answer."""

    def __init__(self, tables: Tables, nvidia: NvidiaQuestions, images: ImageQuestions) -> None:
        self.tables, self._nvidia, self._images = tables, nvidia, images

    def driver_packages(self, os: Os) -> tuple[DriverPackage, ...]:
        """The NVIDIA driver packages for a release: its own first, then those of the release it is based on. None
        where a person installs the driver in another way."""
        own, base = self._own_and_base(os)
        return own + base

    def _own_and_base(self, os: Os) -> tuple[tuple[DriverPackage, ...], tuple[DriverPackage, ...]]:
        if os not in self._packages:  # asked for every GPU and every combination of them
            self._packages[os] = self._packages_for(os) if os.id else ((), ())
        return self._packages[os]

    @cached_property
    def _packages(self) -> dict[Os, tuple[tuple[DriverPackage, ...], tuple[DriverPackage, ...]]]:
        return {}

    def _packages_for(self, os: Os) -> tuple[tuple[DriverPackage, ...], tuple[DriverPackage, ...]]:
        if self.driver_instruction(os, "open", "") or self.driver_instruction(os, "proprietary", ""):
            return (), ()
        table = self.tables.driver_packages
        own, *others = (
            tuple(row for row in table if re.fullmatch(row.distribution, name)) for name in self._images.releases(os)
        )
        return own, (others[0] if others else ())

    def driver_package(self, os: Os, branch: str, flavour: Flavour) -> DriverPackage | None:
        """The package of one branch and flavour for a release."""
        rows = (row for row in self.driver_packages(os) if row.branch == branch.partition(".")[0])
        return next((row for row in rows if row.flavour == flavour), None)

    def driver_instruction(self, os: Os, flavour: Flavour, branch: str) -> str | None:
        """What a person does for a driver where no package manager's command installs it."""
        name = self._images.releases(os)[0]
        rows = (row for row in self.tables.driver_instructions if row.flavour in (None, flavour))
        found = next((row for row in rows if re.fullmatch(row.distribution, name)), None)
        return found.text.replace("{branch}", branch) if found else None

    def driver_to_package(
        self,
        os: Os,
        sms: tuple[str, ...],
        at_least: str | None,
        flavours: Sequence[Flavour],
        *,
        present: str | None = None,
    ) -> DriverPackage | None:
        """The package to install for these GPUs: of the `present` driver's branch if it is there; no legacy branch
        where another serves; one that replaces the present driver; the distribution's own before a repository that
        must be set up, the first of the `flavours`, a long-term branch."""
        own, base = self._own_and_base(os)
        if not own and not base:
            return None
        minimum = max(self._needed(sms, at_least), key=figures, default=None)
        last = min((last for last in map(self._nvidia.last_branch, sms) if last), key=figures, default=None)
        rows = [row for row in own + base if row.flavour in flavours and _fits(row, minimum, last)]
        own_rows = set(map(id, own))

        def rank(row: DriverPackage) -> tuple[bool, bool, bool, bool, bool, int, bool, int]:
            return (
                present is None or row.branch != present.partition(".")[0],
                row.branch in self._legacy,
                keeps_newer(row, present),
                bool(row.repository),
                id(row) not in own_rows,
                flavours.index(row.flavour),
                row.branch not in self._long_term,
                -figures(row.branch)[0],
            )

        return min(rows, key=rank, default=None)

    @cached_property
    def _long_term(self) -> frozenset[str]:
        return frozenset(row.branch for row in self.tables.driver_branches if row.kind == "long-term")

    @cached_property
    def _legacy(self) -> frozenset[str]:
        return frozenset(row.branch for row in self.tables.driver_branches if row.kind == "legacy")

    def _needed(self, sms: tuple[str, ...], at_least: str | None) -> Iterator[str]:
        yield from (driver for driver in (at_least, *(self._nvidia.first_driver(sm) for sm in sms)) if driver)

    def firmware_package(self, os: Os) -> FirmwarePackage | None:
        """The firmware package for AMD GPUs that a release keeps at one date."""
        names, table = self._images.releases(os), self.tables.firmware_packages
        return next((row for name in names for row in table if re.fullmatch(row.distribution, name)), None)

    def amdgpu_dkms_systems(self, os: Os) -> tuple[AmdgpuDkmsSystem, ...]:
        """The kernels of a release that AMD supports amdgpu-dkms on."""
        names, table = self._images.releases(os), self.tables.amdgpu_dkms_systems
        return tuple(row for name in names for row in table if re.fullmatch(row.distribution, name))

    def supports_amdgpu_dkms(self, os: Os, kernel: str) -> bool:
        """Whether AMD supports amdgpu-dkms on a release; on its kernel too, if that is known."""
        rows = self.amdgpu_dkms_systems(os)
        return any(not kernel or matches(row.kernel, kernel) for row in rows)

    def module_key(self, os: Os) -> ModuleKey | None:
        """The key for modules that are built on the machine."""
        rows = {row.id: row for row in self.tables.module_keys}
        return next((rows[name] for name in (os.id, *os.like) if name in rows), None)

    def kernels(self, os: Os) -> tuple[DistributionKernel, ...]:
        """The kernels that a release ships, oldest first: its own, else those of the release it is based on."""
        table = self.tables.distribution_kernels
        found = (
            tuple(row for row in table if re.fullmatch(row.distribution, name))
            for name in self._images.releases(os)
            if os.id
        )
        return tuple(sorted(next(filter(None, found), ()), key=lambda row: figures(row.kernel)))

    def has_backports(self, os: Os | None, kernel: str) -> bool:
        """Whether Red Hat or SUSE built the kernel, by its name or by the release that ships it ("6.4.0-150600.23",
        "5.14" of RHEL 9). They add newer GPU drivers: its number does not tell which GPUs it knows."""
        shipped = self.kernels(os) if os else ()
        by_name = re.search(r"\.el\d|-150\d{3}\.", kernel) is not None
        return by_name or any(row.backports and minor(row.kernel) == minor(kernel) for row in shipped)

    def later_release(self, os: Os, kernel: str) -> DistributionKernel | None:
        """The kernel of the next release of a distribution that ships this one or a newer one."""
        for name in self._images.releases(os) if os.id else ():
            id, _, version = name.rpartition("-")
            rows = [row for row in self.tables.distribution_kernels if row.example.rpartition("-")[0] == id]
            later = [row for row in rows if figures(_release(row)) > figures(version) and reaches(row, kernel)]
            if later:
                return min(later, key=lambda row: (figures(_release(row)), figures(row.kernel)))
        return None


def _release(row: DistributionKernel) -> str:
    return row.example.rpartition("-")[2]


_CLOUDS = ("aws", "azure", "gcp", "oracle")


def kernel_package(row: DistributionKernel, kernel: str) -> str:
    """The package of a kernel beside the running one: Ubuntu has its own for each cloud, in the same versions."""
    flavour = kernel.rpartition("-")[2]
    return f"linux-{flavour}" if row.package.startswith("linux-generic") and flavour in _CLOUDS else row.package


def reaches(row: DistributionKernel, kernel: str) -> bool:
    """Whether the release has that kernel or a newer one; a release that takes on new kernels will have it."""
    return row.rolling or (not row.backports and figures(row.kernel) >= figures(kernel))


def keeps_newer(row: DriverPackage, present: str | None) -> bool:
    """Whether the present driver stays where these packages are installed: a package manager keeps a newer version of
    the same name, which came from elsewhere. A name with the branch is another package; a repository that holds
    several branches has a way to go back."""
    newer = present is not None and figures(present)[:1] > figures(row.branch)[:1]
    return newer and not row.repository and not any(row.branch in name for name in row.packages)


def _fits(row: DriverPackage, minimum: str | None, last: str | None) -> bool:
    if last is not None and figures(row.branch) > figures(last):
        return False
    if minimum is None or figures(row.branch)[:1] > figures(minimum)[:1]:
        return True
    same = figures(row.branch)[:1] == figures(minimum)[:1]
    return same and (row.version is None or at_least(row.version, minimum))
