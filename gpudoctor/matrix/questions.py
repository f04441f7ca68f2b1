"""The questions that the matrix answers: pure functions over its rows.

`Matrix` holds the rows and the few look-up tables over them. Nothing here reads a file.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpudoctor.machine import Torch, Vendor
from gpudoctor.matrix.rows import (
    AmdgpuDkmsLimit,
    Capability,
    Companion,
    DriverBranch,
    GfxTarget,
    KnownIssue,
    NvidiaKernelLimit,
    Override,
    RocmBlas,
    RocmRelease,
    Tables,
    TorchBuild,
    TorchRelease,
    WslSupport,
)

DriverVerdict = Literal["serves", "minor-version", "too-old", "unknown"]
"""`serves`: at least the driver that the toolkit bundles; `minor-version`: between the major's floor and
that (CUDA minor-version compatibility); `too-old`: below the floor."""


class Identity(Struct, frozen=True):
    """A card that the matrix knows: what a PCI id, a board name or a described name stands for."""

    vendor: Vendor
    name: str
    arch: str
    """ "sm_120" or "gfx1031"."""
    chip: str | None = None
    family: str | None = None
    """Blackwell, Ampere ...; RDNA2, CDNA3 ..."""
    pci_id: str | None = None
    integrated: bool = False
    datacenter: bool = False
    """Eligible for CUDA forward compatibility (cuda-compat)."""
    jetson: bool = False
    source: str = ""


class Matrix:
    """The loaded rows and their indexes. Questions about versions take and give texts."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    # --- cards ---------------------------------------------------------------------------------

    def card_by_pci(self, pci_id: str, revision: str | None = None) -> Identity | None:
        """The card of a PCI id such as "10de:2b85" or "1002:73df" (any case); None if no row has it."""
        raise NotImplementedError

    def card_by_device_tree(self, compatible: str) -> Identity | None:
        """The SoC whose device-tree names occur in `compatible` (NULs or not)."""
        raise NotImplementedError

    def cards_by_name(self, name: str) -> tuple[Identity, ...]:
        """All different architectures that a name may stand for: as people write it ("rx 6700xt", "4090"), as a
        driver prints it ("NVIDIA H100 80GB HBM3"), a PCI id, a chip, "sm_90", "gfx1031". Empty: unknown;
        more than one: ambiguous."""
        raise NotImplementedError

    def names_near(self, name: str) -> tuple[str, ...]:
        """At most five known names that resemble an unknown one."""
        raise NotImplementedError

    # --- NVIDIA --------------------------------------------------------------------------------

    def capability(self, sm: str) -> Capability | None:
        """The row of "sm_89" (or "8.9")."""
        raise NotImplementedError

    def last_branch(self, sm: str) -> str | None:
        """Last driver branch that runs a card of this capability ("580"); None: not dropped, or unknown."""
        raise NotImplementedError

    def first_driver(self, sm: str, chip: str | None = None) -> str | None:
        """Oldest driver that knows the chip (or any chip of the capability), where a row says so."""
        raise NotImplementedError

    def module_flavour(self, sm: str, name: str = "") -> Literal["refused", "supported", "required"] | None:
        """What the card says to the open kernel modules (`name` decides Grace Hopper)."""
        raise NotImplementedError

    def floor(self, cuda: str) -> str | None:
        """Oldest driver that serves any toolkit of that CUDA's major."""
        raise NotImplementedError

    def bundled_driver(self, cuda: str) -> str | None:
        """Driver that the first release of this toolkit bundles ("12.8" gives the GA's)."""
        raise NotImplementedError

    def driver_for_cuda(self, driver: str, cuda: str) -> DriverVerdict:
        """Does this driver run this CUDA?"""
        raise NotImplementedError

    def branch(self, driver: str) -> DriverBranch | None:
        """The branch row of a driver version."""
        raise NotImplementedError

    def branch_to_install(self, sms: tuple[str, ...], at_least: str | None) -> tuple[str, str] | None:
        """(branch, minimum version) to install for these cards: a maintained branch that still runs all of
        them and is no older than `at_least`; None where no such branch exists."""
        raise NotImplementedError

    def kernel_limits(self, driver: str, kernel: str) -> tuple[NvidiaKernelLimit, ...]:
        """Rows that say this NVIDIA driver breaks on this kernel."""
        raise NotImplementedError

    # --- AMD -----------------------------------------------------------------------------------

    def target(self, gfx: str) -> GfxTarget | None:
        """The row of a gfx target."""
        raise NotImplementedError

    def override(self, gfx: str) -> Override | None:
        """Override policy of a target; None if the target is unknown."""
        raise NotImplementedError

    def gfx_of_override(self, value: str) -> str | None:
        """The target that an HSA_OVERRIDE_GFX_VERSION value names ("10.3.0" is gfx1030); None: no target."""
        raise NotImplementedError

    def blas(self, rocm: str) -> RocmBlas | None:
        """BLAS coverage of a ROCm: its own row, else the row of the same minor release."""
        raise NotImplementedError

    def hipblaslt_asked(self, gfx: str, rocm: str) -> bool:
        """Whether torch of that ROCm asks hipBLASLt on that target at all."""
        raise NotImplementedError

    def rocm_release(self, version: str) -> RocmRelease | None:
        """The release row (exact, else same minor)."""
        raise NotImplementedError

    def rocm_driver_fits(self, user_space: str, driver: str) -> bool | None:
        """Whether a ROCm user space works on the kernel driver of another ROCm release; None: not known."""
        raise NotImplementedError

    def dkms_limits(self, dkms: str | None, rocm: str | None, kernel: str) -> tuple[AmdgpuDkmsLimit, ...]:
        """Rows that say this amdgpu-dkms breaks on this kernel."""
        raise NotImplementedError

    def wsl_rocm(self, rocm: str) -> WslSupport | None:
        """What ROCm on WSL supports in that release."""
        raise NotImplementedError

    # --- torch ---------------------------------------------------------------------------------

    def build_of(self, torch: Torch, platform: str) -> TorchBuild | None:
        """The row of an installed torch: same version, build, platform, and the origin where it is known
        (an unknown origin matches the index builds; nightlies match their pattern rows)."""
        raise NotImplementedError

    def builds(self, platform: str | None = None) -> tuple[TorchBuild, ...]:
        """All installable builds (no nightlies), newest first."""
        raise NotImplementedError

    def index_url(self, build: TorchBuild) -> str:
        """Wheel index of a build; "" for the package index's own. A `wheel_index` overlay replaces
        pytorch-stable."""
        raise NotImplementedError

    def release(self, version: str) -> TorchRelease | None:
        """The release row of "2.9.1" (local part ignored)."""
        raise NotImplementedError

    def newest_torch(self) -> str:
        """Newest torch release that the matrix knows."""
        raise NotImplementedError

    def companion(self, torch: str) -> Companion | None:
        """What goes with a torch release (exact, local part ignored)."""
        raise NotImplementedError

    def companion_fits(self, package: Literal["torchvision", "torchaudio"], version: str, torch: str) -> bool | None:
        """Whether an installed torchvision or torchaudio goes with a torch; None: not known."""
        raise NotImplementedError

    # --- issues --------------------------------------------------------------------------------

    def known_issues(self) -> tuple[KnownIssue, ...]:
        """All known issues."""
        raise NotImplementedError
