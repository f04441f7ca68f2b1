"""The ROCm release of AMD's kernel driver, and whether a user space of another release works on it."""

from __future__ import annotations

from msgspec import Struct

from gpudoctor.finding import Fix, InstallRocmDriver, Reboot, by_hand
from gpudoctor.matrix.versions import figures, minor
from gpudoctor.situation import Situation


class RocmDriver(Struct, frozen=True):
    """What is known of the release that the loaded amdgpu-dkms came with."""

    release: str
    """That release ("6.0.0"), AMD's own number of the driver ("30.20"), or the first release after it."""
    older: bool = False
    """Whether only a later release is known: no row has the driver's number."""
    own_number: bool = False

    @property
    def text(self) -> str:
        if self.own_number:
            return f"AMD's release {self.release}"
        return f"{'older than ' if self.older else ''}that of ROCm {self.release}"


def rocm_driver(situation: Situation) -> RocmDriver | None:
    """The loaded amdgpu-dkms; None for the kernel's own driver, and if unknown."""
    version = situation.machine.amd.module.value
    if not version or not figures(version) or version == "in-tree":
        return None
    if situation.matrix.amd.is_number_of_a_driver(version):
        return RocmDriver(version, own_number=True)
    rows = [row for row in situation.matrix.tables.rocm_releases if row.dkms]
    own = [row.version for row in rows if row.dkms == version.partition("-")[0]]
    later = [row.version for row in rows if figures(row.dkms or "") > figures(version)]
    release = min(own or later, key=minor, default=None)
    return RocmDriver(release, older=not own) if release else None


def too_far_apart(situation: Situation, rocm: str) -> RocmDriver | None:
    """The kernel driver, if AMD does not test it with this ROCm user space."""
    driver, matrix = rocm_driver(situation), situation.matrix
    if driver is None or matrix.amd.rocm_driver_fits(rocm, driver.release) is not False:
        return None
    # A driver that is older than a later release may well fit an older user space.
    return None if driver.older and matrix.amd.rocm_driver_is_newer(rocm, driver.release) else driver


def untested(situation: Situation, rocm: str) -> RocmDriver | None:
    """The kernel driver, if its release is known, and nothing says that AMD tests it with this newer ROCm: patch
    releases without a known date leave open whether they are too far apart."""
    driver, amd = rocm_driver(situation), situation.matrix.amd
    if driver is None or driver.older or amd.rocm_driver_is_newer(rocm, driver.release):
        return None
    return driver if amd.rocm_driver_outdated(rocm, driver.release) else None


def current_driver(situation: Situation, rocm: str) -> Fix:
    """The fix that brings a kernel driver for this ROCm: on the host if this is a container."""
    if situation.in_container:
        text = f"On the host, outside this container: install the amdgpu driver of ROCm {rocm}, or one near it."
        return by_hand(f"Install the kernel driver of ROCm {rocm} on the host", text, "reboot")
    install = InstallRocmDriver(why=f"its release must be near ROCm {rocm}")
    return Fix("Install a current AMD kernel driver", (install, Reboot(why="the module is loaded at boot")))
