"""Builds and releases of torch, where they are published, and the packages that match them."""

import re
from typing import Literal

from msgspec import Struct

from gpudoctor.matrix.rows.row import Basis, Row


class TorchBuild(Row, frozen=True, kw_only=True):
    """One build of torch: keyed by version, build, origin and platform."""

    version: str
    """"2.9.1"; a nightly row ends in ".dev*"."""
    build: str
    """cpu, cu128, rocm6.4 ..."""
    origin: Literal["pypi", "download.pytorch.org", "nightly", "amd"]
    platform: str
    """linux-x86_64 or linux-aarch64."""
    pythons: tuple[str, ...] = ()
    cuda: str | None = None
    rocm: str | None = None
    archs: tuple[str, ...] | None = None
    """sm_NN or gfxNNNN; empty for CPU builds; None: unknown."""
    ptx: tuple[str, ...] | None = None
    partial: tuple[str, ...] = ()
    linalg: tuple[str, ...] | None = None
    cudnn: str | None = None
    """Its cuDNN pin, if it differs from that of the package index's own build of its release."""
    glibc: str | None = None
    """Oldest glibc that its wheel runs with, if it differs from its release's."""
    basis: Basis = "unknown"
    late_archs: tuple[str, ...] = ()
    """Architectures that nightlies of this release may lack if they are older than `late_from`."""
    late_from: str | None = None
    """Day in the version of a nightly, "20251108"."""
    index: str | None = None
    """id of its wheel index; by default `pytorch-stable` for download.pytorch.org."""
    community: bool = False
    extra: str | None = None
    """An extra that selects device code: "device-{gfx}" makes torch[device-gfx1031]."""


class OldTorchBuilds(Row, frozen=True, kw_only=True):
    """Builds of torch before 1.13 that share their architectures. They are judged where they are installed or
    described, and never proposed."""

    torch: tuple[str, ...]
    """Versions, without local part."""
    builds: tuple[str, ...]
    """cu102, rocm4.2 ..."""
    pythons: tuple[str, ...]
    archs: tuple[str, ...]
    ptx: tuple[str, ...] = ()
    on_pypi: bool = False
    """Whether it is the package index's own build, too."""
    basis: Basis = "documented"


class NgcImage(Row, frozen=True, kw_only=True):
    """What a release of NVIDIA's PyTorch image holds."""

    release: str
    """"25.10"."""
    cuda: str


class PublishedArchs(Row, frozen=True, kw_only=True):
    """The GPUs for which a publisher outside the wheel indexes builds torch; used if its libraries cannot be read."""

    origin: Literal["ngc", "conda-forge", "jetson"]
    cuda: str | None = None
    """PEP 440 specifier of the CUDA of the build."""
    release: str | None = None
    """PEP 440 specifier of the publisher's own release: "25.10" for a version that ends in .nv25.10."""
    archs: tuple[str, ...]
    ptx: tuple[str, ...] = ()
    basis: Basis = "documented"


class WheelIndex(Row, frozen=True, kw_only=True):
    """Where builds are published: `template` gets {base}, {build}, {rocm}."""

    id: str
    base: str
    template: str = "{base}/{build}"
    flat: bool = False
    """A page of wheels: pip takes it with --find-links, and finds nothing there as an index."""

    def __post_init__(self) -> None:
        _check_index(self.base, self.template)


class WheelIndexOverride(Struct, frozen=True, forbid_unknown_fields=True):
    """`wheel_index` of an overlay: a mirror that replaces pytorch-stable."""

    base: str
    template: str = "{base}/{build}"

    def __post_init__(self) -> None:
        _check_index(self.base, self.template)


def index_url(template: str, base: str, build: str, rocm: str) -> str:
    """The index that a template names; an absolute path becomes a URL, which all tools accept."""
    if base.startswith("/"):
        from urllib.parse import quote

        base = f"file://{quote(base)}"
    return template.format(base=base.rstrip("/"), build=build, rocm=rocm)


def _check_index(base: str, template: str) -> None:
    from gpudoctor.safe_arguments import is_index

    check_template(template, "base", "build", "rocm")
    if re.search("[?#]", base) or not is_index(index_url(template, base, "cu128", "6.4")):
        raise ValueError(
            "base and template make no index that pip and uv can use: a base is a URL (http, https or file:///, in "
            "ASCII) or an absolute path"
        )


def check_template(template: str, *names: str) -> None:
    """Raise ValueError for a template with anything but these names in braces."""
    for name in names:
        template = template.replace(f"{{{name}}}", "")
    if "{" in template or "}" in template:
        *others, last = (f"{{{name}}}" for name in names)
        raise ValueError(f"a template is made of {', '.join(others)}{' and ' if others else ''}{last}")


class TorchRelease(Row, frozen=True, kw_only=True):
    """What one torch release pins and needs."""

    version: str
    cuda: str | None = None
    """CUDA of the package index's own build."""
    cudnn: str | None = None
    nccl: str | None = None
    triton: str | None = None
    glibc: str | None = None
    """Oldest glibc that its wheels run with, by their platform tag or the symbols that they need."""
    all_builds_of: tuple[str, ...] = ()
    """Platforms of which torch_builds has every build of this release: what is missing there was never published."""


class Companion(Row, frozen=True, kw_only=True):
    """The packages that match a torch release. A specifier that is None pins nothing."""

    torch: str
    torchvision: str | None = None
    torchvision_torch: str | None = None
    """The torch that this torchvision requires."""
    torchvision_also: tuple[str, ...] = ()
    torchaudio: str | None = None
    torchaudio_torch: str | None = None
    triton: str | None = None
    triton_rocm_package: str | None = None

    def release_of(self, package: str) -> str | None:
        """The torchvision or torchaudio of the row; None for another package."""
        return next(iter(self.releases_of(package)), None)

    def releases_of(self, package: str) -> tuple[str, ...]:
        """The releases of torchvision or torchaudio that match, the best first; none of another package."""
        first = {"torchvision": self.torchvision, "torchaudio": self.torchaudio}.get(package)
        also = self.torchvision_also if package == "torchvision" else ()
        return (*((first,) if first else ()), *also)


class StableCompanion(Row, frozen=True, kw_only=True):
    """A companion with a stable ABI: from `version` on it works with every torch that matches."""

    package: str
    version: str
    torch: str
