"""Linux distributions and public container images."""

from typing import Literal

from gpudoctor.matrix.rows.row import Row


class ModuleKey(Row, frozen=True, kw_only=True):
    """The machine owner key with which a distribution signs the kernel modules that are built on the machine."""

    id: str
    """Of os-release; it holds for what is like it, too."""
    create: str
    certificate: str
    sign: str
    """The command before the path of a module."""


class DistributionKernel(Row, frozen=True, kw_only=True):
    """The newest kernel that a release of a distribution ships under one package name."""

    distribution: str
    """Regular expression for the id and version of os-release, with a hyphen."""
    example: str
    kernel: str
    package: str
    repository: str = ""
    """The part of the archive that must be enabled first; "" for what is enabled from the start."""
    rolling: bool = False
    """The release takes on new kernels for as long as it lives: it has this one or a newer one."""
    backports: bool = False
    """The distributor adds newer GPU drivers: the number does not tell which GPUs it knows."""


class Distribution(Row, frozen=True, kw_only=True):
    """A release of a Linux distribution, as image names write it, and what it brings."""

    distribution: str
    """Regular expression for the part of an image's name, such as "ubuntu24.04" or "ubuntu:noble", and for the id and
    version of os-release with a hyphen."""
    example: str
    """A real spelling that the pattern matches (checked at load)."""
    base: str = ""
    """The release whose packages it uses, by id and version: "ubuntu-24.04" of Linux Mint 22; that of the row itself
    for Ubuntu and Debian."""
    python: str | None = None
    libc: str | None = None
    """Its C library: "glibc 2.31" or "musl"."""
    managed: bool = False
    """Its Python has the file EXTERNALLY-MANAGED: pip and uv refuse to install into it."""


class DistributionKin(Row, frozen=True, kw_only=True):
    """A Linux distribution by the ID of its os-release, with its ID_LIKE."""

    id: str
    like: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """How people call it, too, in lower case."""
    base: str = ""
    """The release whose packages it uses; {version} stands for its own version ("fedora-{version}", "arch")."""
    image: str = ""
    """What replaces its root as a whole (rpm-ostree ...): packages are not installed one by one."""
    figures: int | None = None
    """How many figures of its version name a release, if further ones name a point release with the same packages:
    two of ubuntu-22.04.5."""


class RemovedImage(Row, frozen=True, kw_only=True):
    """Images that Docker Hub had once, or that people suppose there. It answers that there is no such manifest."""

    pattern: str
    """Regular expression for the whole name with its tag, without docker.io."""
    example: str
    """A real name that the pattern matches (checked at load)."""
    version: str = ""
    """The version to write in place of the pattern's group `version`, if another update of that release is there."""
    instead: str
    """What to use, if `version` is empty or that tag is not there either."""


class RemovedPackage(Row, frozen=True, kw_only=True):
    """A package that an index or a channel has no longer, or only as a stub whose installation fails."""

    package: str
    channel: str = ""
    """The channel of conda; "" for the package index."""
    last: str
    """Its last real release."""
    stub: str = ""
    """The release that fails; "" if there is none."""
    instead: str
    """What to write in its place: the words of an install command."""


class BaseImage(Row, frozen=True, kw_only=True):
    """What a public container image holds. A field that is None may be a group of the pattern: the tag tells.
    A group `distribution` names a row of that table, which gives the image's Python."""

    pattern: str
    """Regular expression for the whole name with its tag, without the registry docker.io and library/."""
    example: str
    """A real name that the pattern matches (checked at load)."""
    vendor: Literal["nvidia", "amd"] | None = None
    """The vendor whose GPUs it is made for."""
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    """The Python behind `python3` or `pip`, if the image or its distribution brings one."""
    python_from: str | None = None
    """The oldest Python that a tag such as `latest` may have today."""
    prefix: str = ""
    """Where that Python lies: /usr for a distribution's own; "": unknown."""
    managed: bool = False
    """Whether that is a distribution's own, into which pip refuses to install."""
    torch: str | None = None
    """Version without local part, if it holds a torch and the tag tells."""
    release: str | None = None
    """The publisher's own number of the image (NGC)."""
    origin: Literal["pypi", "download.pytorch.org", "ngc", "amd", "jetson", "unknown"] = "unknown"
    """The origin of its torch."""
    platform: Literal["", "linux-aarch64"] = ""
    """The only platform that it is made for, if the name tells."""
    cudnn: str | None = None
    """Major release of its cuDNN; in a row, that of a tag with `cudnn` and no number. The pattern's group `cudnn`
    finds it in the tag."""
    has_torch: bool = False
    compiler: bool = False
    """It has nvcc."""
    libraries: bool = False
    """It has CUDA's libraries (cuBLAS, cuSPARSE ...) below /usr/local/cuda."""
    compat: bool = False
    """It has cuda-compat of its CUDA, which the container toolkit loads where it helps."""
    archs: tuple[str, ...] = ()
    """AMD targets that it has code for, at least."""
    cpu: bool = False
    """Its program also runs without a GPU, and is often used so."""
    musl: bool = False

    @property
    def known(self) -> bool:
        """Whether the matrix knows the image at all."""
        return bool(self.pattern)
