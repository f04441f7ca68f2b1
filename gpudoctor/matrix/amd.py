"""Questions about AMD targets, overrides, ROCm and its kernel driver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpudoctor.matrix.versions import Figures, figures, matches, minor

if TYPE_CHECKING:
    from gpudoctor.matrix.gpu_models import Gpus
    from gpudoctor.matrix.rows import AmdgpuDkmsLimit, Override, RocmBlas, RocmRelease, Tables, WslRuntime, WslSupport

R = TypeVar("R")

_SPARE_DAYS = 200
"""Patch releases appear up to half a year after the release with a known date: a span of years is this uncertain."""


class AmdQuestions:
    """Questions that the AMD tables answer."""

    def __init__(self, tables: Tables, gpus: Gpus) -> None:
        self.tables, self._gpus = tables, gpus

    def override(self, gfx: str | None) -> Override | None:
        """Override policy of a target; None if the target is unknown."""
        row = self._gpus.target(gfx)
        return row.override if row else None

    def gfx_of_override(self, value: str | None) -> str | None:
        """The target that an HSA_OVERRIDE_GFX_VERSION value names ("10.3.0" is gfx1030); None: no target."""
        parts = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{1,2})", (value or "").strip())
        if parts is None:
            return None
        major, second, third = (int(part) for part in parts.groups())
        gfx = f"gfx{major}{second:x}{third:x}"
        return gfx if self._gpus.target(gfx) else None

    def blas(self, rocm: str) -> RocmBlas | None:
        """BLAS coverage of a ROCm: its own row, else the row of the same minor release."""
        return _closest(self.tables.rocm_blas, rocm, lambda row: row.rocm)

    def hipblaslt_asked(self, gfx: str, rocm: str) -> bool:
        """Whether torch of that ROCm uses hipBLASLt on that target at all."""
        return any(gfx in row.gfx and matches(row.rocm, rocm) for row in self.tables.hipblaslt_use)

    def rocm_release(self, version: str) -> RocmRelease | None:
        """The release row (exact, else same minor)."""
        return _closest(self.tables.rocm_releases, version, lambda row: row.version)

    def listed_by_amd(self, gfx: str, name: str, rocm: str) -> bool | None:
        """Whether AMD's documents for that ROCm name the GPU; None: unknown (for an APU they name processors)."""
        target = self._gpus.target(gfx)
        releases = [row for row in self.tables.rocm_releases if row.gfx and minor(row.version) == minor(rocm)]
        if target is None or not releases:
            return None
        since = target.official_from
        if not any(gfx in row.gfx for row in releases) and not (since and minor(since) <= minor(rocm)):
            return False
        if not target.official_products:
            return True
        if target.kind == "apu":
            return None
        return any(re.search(rf"\b{re.escape(product)}\b", name) for product in target.official_products)

    def is_for_computing(self, gfx: str | None) -> bool:
        """Whether people buy all products with this target for computing: AMD supports every one of them."""
        target = self._gpus.target(gfx)
        return target is not None and target.official_from is not None and not target.official_products

    def last_rocblas(self, gfx: str) -> str | None:
        """The last ROCm whose rocBLAS has kernels for a target, "" if none had; None: the newest has, or may have."""
        rows = self._with_rocblas()
        having = [row for row in rows if gfx in (*(row.rocblas or ()), *row.rocblas_open)]
        if not having:
            return ""
        return None if having[-1] is rows[-1] else having[-1].rocm

    def image_targets(self, rocm: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The targets that the torch of AMD's images of a ROCm has code for, and those that it may have: the targets
        of rocBLAS that PyTorch's own wheels have, too. Sure are those that the release before had, or that AMD
        supports. Both are empty if that is unknown, as of the releases that are built for each family apart."""
        rows = self._with_rocblas()
        own = self.blas(rocm)
        if own not in rows or own.by_family:
            return (), ()
        earlier = [row.rocblas or () for row in rows if minor(row.rocm) < minor(rocm)]
        builds = (row for row in self.tables.torch_builds if row.rocm and row.origin == "download.pytorch.org")
        wheels = {gfx for row in builds for gfx in row.archs or ()}
        having = [gfx for gfx in (*(own.rocblas or ()), *own.rocblas_open) if gfx in wheels]
        official = {
            row.gfx
            for row in self.tables.gfx_targets
            if row.official_from and minor(row.official_from) <= minor(rocm)
        }
        sure = tuple(gfx for gfx in having if gfx in official or (earlier and gfx in earlier[-1]))
        return sure, tuple(gfx for gfx in having if gfx not in sure)

    def _with_rocblas(self) -> list[RocmBlas]:
        """The releases of ROCm whose rocBLAS is known, oldest first."""
        return sorted((row for row in self.tables.rocm_blas if row.rocblas), key=lambda row: figures(row.rocm))

    def rocm_driver_fits(self, user_space: str, driver: str) -> bool | None:
        """Whether a ROCm user space works on the kernel driver of another ROCm release; None: unknown. `driver` is a
        ROCm release ("6.2.4") or AMD's own driver number ("30.20")."""
        release, driver_release = self.rocm_release(user_space), self._release_of_driver(driver)
        tested = release.kernel_driver if release else ()
        if minor(user_space) == minor(driver) or any(minor(row) == minor(driver) for row in tested):
            return True
        rows = [row for row in self.tables.rocm_releases if minor(row.version) == minor(driver_release)]
        named = {minor(one) for row in rows for one in row.user_space}
        if named and minor(user_space) <= max(named):
            return minor(user_space) in named
        # A driver with a number of its own is of the time of the rule of years.
        ruling = driver_release if any(row.driver for row in rows) else user_space
        for rule in self.tables.rocm_driver_window:
            if matches(rule.rocm, ruling) and rule.rule == "releases":
                return self._within_releases(user_space, driver_release, rule.span)
            if matches(rule.rocm, ruling) and rule.rule == "years":
                within = self._within_days(user_space, driver_release, rule.span * 365)
                return False if within is None and self._settled_between(user_space, driver_release) else within
        return None

    def rocm_driver_outdated(self, user_space: str, driver: str) -> bool:
        """Whether the kernel driver is older than all that the documents of a ROCm name, and its first release is
        further back than AMD's window: what AMD tests ended before."""
        release = self.rocm_release(user_space)
        tested = [minor(self._release_of_driver(row)) for row in release.kernel_driver] if release else []
        fits = self.rocm_driver_fits(user_space, driver)
        return fits is None and bool(tested) and minor(self._release_of_driver(driver)) < min(tested)

    def rocm_driver_is_newer(self, user_space: str, driver: str) -> bool:
        """Whether the kernel driver is from a later ROCm release than the user space."""
        return minor(self._release_of_driver(driver)) > minor(user_space)

    def dkms_limits(self, dkms: str | None, rocm: str | None, kernel: str) -> tuple[AmdgpuDkmsLimit, ...]:
        """Rows that say this amdgpu-dkms breaks on this kernel."""
        return tuple(
            row
            for row in self.tables.amdgpu_dkms_limits
            if row.status == "breaks" and matches(row.kernel, kernel) and _names(row, dkms, rocm)
        )

    def wsl_rocm(self, rocm: str) -> WslSupport | None:
        """The GPUs that ROCm on WSL supports in that release."""
        return _closest(self.tables.wsl_rocm, rocm, lambda row: row.rocm)

    def wsl_runtime(self, rocm: str) -> WslRuntime:
        """Whose runtime finds the GPU inside WSL with that release; none before the oldest release of the table."""
        row = self.wsl_rocm(rocm)
        oldest = min((figures(row.rocm) for row in self.tables.wsl_rocm), default=())
        return row.runtime if row else "none" if figures(rocm) < oldest else "wheel"

    def supported_in_wsl(self, gfx: str) -> bool:
        """Whether some ROCm release supports a target inside WSL."""
        return any(gfx in row.gfx for row in self.tables.wsl_rocm)

    # --- the order of releases -----------------------------------------------------------------

    @cached_property
    def _minors(self) -> list[Figures]:
        return sorted({minor(row.version) for row in self.tables.rocm_releases})

    def is_number_of_a_driver(self, release: str) -> bool:
        """Whether this is AMD's own number of a kernel driver (30.10 came with ROCm 7.0), and no release of ROCm."""
        own = (row.driver for row in self.tables.rocm_releases if row.driver)
        return any(figures(release)[:1] >= figures(number)[:1] for number in own)

    def _release_of_driver(self, driver: str) -> str:
        """The ROCm that AMD's driver number came with. Others are returned unchanged."""
        if not self.is_number_of_a_driver(driver):
            return driver
        numbers = (row for row in self.tables.rocm_releases if row.driver and minor(row.driver) == minor(driver))
        return next((row.version for row in numbers), driver)

    def _settled_between(self, user_space: str, driver: str) -> bool:
        """Whether a ROCm between the kernel driver's and this one is already too far from it."""
        first, last = sorted((minor(driver), minor(user_space)))
        between = (row for row in self.tables.rocm_releases if first < minor(row.version) < last)
        return any(self.rocm_driver_fits(row.version, driver) is False for row in between)

    def _within_releases(self, user_space: str, driver: str, span: int) -> bool | None:
        """Whether two releases are at most so far apart; None: a release without a row may lie between them."""
        earlier, later = sorted((minor(user_space), minor(driver)))
        if sum(earlier < release <= later for release in self._minors) > span:
            return False
        return True if {earlier, later} <= set(self._minors) else None

    def _within_days(self, user_space: str, driver: str, days: int) -> bool | None:
        from datetime import date

        dates = []
        for version in (user_space, driver):
            row = self.rocm_release(version)
            dated = row if row and row.date else self._dated(minor(version))
            if dated is None or not dated.date:
                return None
            dates.append(date.fromisoformat(dated.date))
        apart = abs((dates[0] - dates[1]).days)
        if apart <= days:
            return True
        return False if apart > days + _SPARE_DAYS else None

    def _dated(self, release: Figures) -> RocmRelease | None:
        return next((row for row in self.tables.rocm_releases if row.date and minor(row.version) == release), None)


def _names(row: AmdgpuDkmsLimit, dkms: str | None, rocm: str | None) -> bool:
    """Whether a row is about this driver. The dkms version decides if both have it (without the package's revision,
    "6.12.12-2147987.24.04"), else the ROCm."""
    if row.dkms is not None and dkms is not None:
        return matches(row.dkms, dkms.partition("-")[0])
    return row.rocm is not None and rocm is not None and matches(f"=={row.rocm}", rocm)


def _closest(rows: Iterable[R], version: str, of: Callable[[R], str]) -> R | None:
    """The row of a version: exact, else the newest of the same minor release that is not newer, else any of it."""
    same = sorted((row for row in rows if minor(of(row)) == minor(version)), key=lambda row: figures(of(row)))
    older = [row for row in same if figures(of(row)) <= figures(version)]
    return older[-1] if older else next(iter(same), None)
