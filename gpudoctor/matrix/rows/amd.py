"""What AMD's drivers and ROCm support."""

from typing import Literal

from gpudoctor.matrix.rows.row import Basis, Row


class RocmRelease(Row, frozen=True, kw_only=True):
    version: str
    date: str | None = None
    gfx: tuple[str, ...] = ()
    """Targets its documents support."""
    kernel_driver: tuple[str, ...] = ()
    """Kernel-driver releases tested with its user space (ROCm numbers up to 6.4, AMD's own from 30.10 on)."""
    user_space: tuple[str, ...] = ()
    """All ROCm releases that the documents of the kernel driver that came with it name."""
    driver: str | None = None
    """AMD's own number of the kernel driver that came with it (30.10 with 7.0)."""
    dkms: str | None = None
    """Version of its amdgpu-dkms, where known."""


class RocmDriverWindow(Row, frozen=True, kw_only=True):
    """How far the AMD kernel driver (by the ROCm it came with) and the user space may differ."""

    rocm: str
    """PEP 440 specifier for the user-space release."""
    rule: Literal["releases", "years"]
    span: int


class AmdgpuDkmsLimit(Row, frozen=True, kw_only=True):
    dkms: str | None = None
    rocm: str | None = None
    kernel: str
    status: Literal["breaks", "needed"]
    fixed_by: str = ""


class AmdgpuDkmsSystem(Row, frozen=True, kw_only=True):
    """A release and its kernels that AMD supports amdgpu-dkms on."""

    distribution: str
    """Regular expression for the id and version of os-release, with a hyphen."""
    example: str
    kernel: str


class FirmwarePackage(Row, frozen=True, kw_only=True):
    """The firmware package for AMD GPUs of a release that keeps it at one date."""

    distribution: str
    """Regular expression for the id and version of os-release, with a hyphen."""
    example: str
    version: str
    newer: str = ""
    """Where the distribution has a newer one, and of which date."""


class RocmBlas(Row, frozen=True, kw_only=True):
    """gfx targets for which the rocBLAS of a ROCm has kernels; None: unknown."""

    rocm: str
    rocblas: tuple[str, ...] | None = None
    rocblas_basis: Basis = "unknown"
    rocblas_open: tuple[str, ...] = ()
    """Targets for which that list leaves it open."""
    by_family: bool = False
    """Its libraries are built for families of GPUs apart (TheRock)."""


class HipblasltUse(Row, frozen=True, kw_only=True):
    """From which ROCm (specifier) torch uses hipBLASLt on which targets."""

    rocm: str
    gfx: tuple[str, ...]


WslRuntime = Literal["wheel", "system", "none"]


class WslSupport(Row, frozen=True, kw_only=True):
    """ROCm on WSL: GPUs (gfx) and ROCm releases that AMD's documents name."""

    rocm: str
    gfx: tuple[str, ...] = ()
    excluded_names: tuple[str, ...] = ()
    dxg_variable: bool = False
    """HSA_ENABLE_DXG_DETECTION=1 must be set (before ROCm 7.13; later releases look for /dev/dxg themselves)."""
    librocdxg: bool = False
    """Its packages bring librocdxg, which the runtime reaches the GPU through; others need it installed."""
    runtime: WslRuntime = "wheel"
    """Whose libhsa-runtime64 finds the GPU: torch's own, ROCm for WSL's in its place, or none of that release."""
