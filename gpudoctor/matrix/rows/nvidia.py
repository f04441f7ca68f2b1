"""What NVIDIA's drivers and libraries support."""

from typing import Literal

from gpudoctor.matrix.rows.row import Row


class CudaFloor(Row, frozen=True, kw_only=True):
    """Oldest Linux driver that supports any toolkit of this major (minor-version compatibility)."""

    major: str
    driver: str


class ForwardCompatibility(Row, frozen=True, kw_only=True):
    """The kernel drivers that the libcuda of cuda-compat runs on, on GPUs that may use it."""

    cuda: str
    """Specifier of the CUDA that the package is of."""
    branches: tuple[str, ...]
    """Driver branches; of these only those before the package's own count."""


class ImageRequirement(Row, frozen=True, kw_only=True):
    """NVIDIA_REQUIRE_CUDA of the images nvidia/cuda: where the driver is older than their CUDA, the container toolkit
    starts them on these branches only."""

    cuda: str
    """Specifier of the CUDA of the image."""
    geforce: tuple[str, ...]
    """Driver branches that GeForce GPUs may have."""


class VgpuSeries(Row, frozen=True, kw_only=True):
    """A series of NVIDIA's vGPU types, by the letter at the end of their names (A16-4Q)."""

    series: Literal["A", "B", "C", "Q"]
    use: str
    cuda: bool
    """Whether NVIDIA supports CUDA on it."""


class CudnnFloor(Row, frozen=True, kw_only=True):
    """Oldest GPU that cuDNN releases have kernels for. It is the same for every CUDA that a release is built for."""

    cudnn: str
    """Specifier of cuDNN's version."""
    lowest: str
    """"sm_50"."""


class CudaToolkit(Row, frozen=True, kw_only=True):
    """A toolkit release and the Linux driver it bundles."""

    cuda: str
    update: str | None = None
    driver: str | None = None


class DriverBranch(Row, frozen=True, kw_only=True):
    branch: str
    kind: Literal["production", "new-feature", "long-term", "legacy", "unknown"]
    end_of_life: str | None = None
    latest: str | None = None
    """A release of the branch that is known to exist."""
    cuda: str | None = None
    """The CUDA that it supports, if no toolkit bundles it."""


class DriverPackage(Row, frozen=True, kw_only=True):
    """NVIDIA driver packages of some releases of a distribution: one branch in one module flavour."""

    distribution: str
    """Regular expression for the id and version of os-release, with a hyphen."""
    example: str
    """A real spelling that the pattern matches (checked at load)."""
    branch: str
    flavour: Literal["open", "proprietary"]
    version: str | None = None
    """A release of the branch that is known to be there."""
    packages: tuple[str, ...]
    server: tuple[str, ...] = ()
    """The same in the distribution's own packages for servers."""
    pin: str = ""
    """The package that keeps NVIDIA's repository to the branch: apt takes older versions once it is installed."""
    stream: str = ""
    """The dnf module stream of nvidia-driver to enable first."""
    locked: bool = False
    """The repository has several branches: locking the versions keeps to one."""
    repository: str = ""
    """Whose packages they are; "" for the distribution's own."""
    by_hand: bool = False
    """A person sets up the repository and installs from it."""
    then: str = ""
    """What is left to do, as a sentence."""


class DriverInstruction(Row, frozen=True, kw_only=True):
    """How a person installs an NVIDIA driver on a distribution that is not changed by a package manager's command."""

    distribution: str
    example: str
    flavour: Literal["open", "proprietary"] | None = None
    text: str
    """{branch} stands for the branch."""


class NvidiaKernelLimit(Row, frozen=True, kw_only=True):
    """A driver that does not build or run on some kernels (PEP 440 specifiers)."""

    driver: str
    kernel: str
    status: Literal["breaks", "tested"]
    fixed_by: str = ""
