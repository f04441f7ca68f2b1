"""The ROCm release of AMD's kernel driver, and whether a user space of another release works on it."""

from __future__ import annotations

from msgspec import Struct

from gpudoctor.matrix.versions import figures, minor
from gpudoctor.situation import Situation


class RocmDriver(Struct, frozen=True):
    """What is known of the release that the loaded amdgpu-dkms came with."""

    release: str
    """That release ("6.0.0"), AMD's own number of the driver ("30.20"), or the first release after it."""
    older: bool = False
    """Whether only a later release is known: no row has the driver's number."""

    @property
    def text(self) -> str:
        return f"{'older than ' if self.older else ''}that of ROCm {self.release}"


def rocm_driver(situation: Situation) -> RocmDriver | None:
    """The loaded amdgpu-dkms; None for the kernel's own driver, and if unknown."""
    version = situation.machine.amd.module.value
    if not version or not figures(version) or version == "in-tree":
        return None
    if figures(version)[0] >= 30:
        return RocmDriver(version)
    rows = [row for row in situation.matrix.tables.rocm_releases if row.dkms]
    own = [row.version for row in rows if row.dkms == version.partition("-")[0]]
    later = [row.version for row in rows if figures(row.dkms or "") > figures(version)]
    release = min(own or later, key=minor, default=None)
    return RocmDriver(release, older=not own) if release else None


def too_far_apart(situation: Situation, rocm: str) -> RocmDriver | None:
    """The kernel driver, if AMD does not test it with this ROCm user space."""
    driver, matrix = rocm_driver(situation), situation.matrix
    if driver is None or matrix.rocm_driver_fits(rocm, driver.release) is not False:
        return None
    # A driver that is older than a later release may well fit an older user space.
    return None if driver.older and matrix.rocm_driver_is_newer(rocm, driver.release) else driver
