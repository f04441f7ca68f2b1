"""What installers ask of a machine when they choose a build by themselves, and where their answers differ; pure.

uv takes the NVIDIA driver's version, else one AMD GPU. conda takes the driver's CUDA and the least compute
capability. The providers of the wheel-variants draft take the driver's CUDA and the greatest compute capability, or
all AMD GPUs.
Sources: astral-sh/uv crates/uv-torch/src/accelerator.rs; conda's CEP 46; wheelnext/nvidia-variant-provider and
wheelnext/amd-variant-provider.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from gpudoctor.isa import Capability, capability
from gpudoctor.matrix.versions import figures, minor
from gpudoctor.recommend.starting_point import gpus_that_count
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import gpu_names
from gpudoctor.situation.nvidia_driver import cuda_driver, stated_cuda

_MAJORS = range(11, 16)
_MINORS = range(21)
_OLDEST = (5, 0)


class VariantProperty(Struct, frozen=True):
    """A property of the wheel-variants draft: the values that this machine takes, the best first."""

    namespace: str
    feature: str
    values: tuple[str, ...]


class Installer(Struct, frozen=True):
    """What one installer finds here. The variables make it find the same on a machine without the GPU."""

    name: str
    variables: dict[str, str]
    present: dict[str, str] = field(default_factory=dict)
    """Those of its variables that are set: it takes them for the machine."""


class Variants(Struct, frozen=True):
    """The answer of `gpudoctor variants`."""

    installers: tuple[Installer, ...]
    properties: tuple[VariantProperty, ...]
    disagreements: tuple[str, ...]
    """Where installers choose by different GPUs, or by none."""
    unknown: tuple[str, ...] = ()
    """What could not be read."""


def variants(situation: Situation) -> Variants:
    """What installers find on this machine."""
    return _Asked(situation).answer()


class _Asked:
    """One machine, with the values that several installers ask for."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        gpus = gpus_that_count(situation)
        self.nvidia = tuple(gpu for gpu in gpus if gpu.vendor == "nvidia")
        self.amd = tuple(gpu for gpu in gpus if gpu.vendor == "amd")
        self.driver = cuda_driver(situation.machine) if self.nvidia else None
        self.cuda = self._cuda() if self.nvidia else None
        known = (capability(gpu.arch.value) for gpu in self.nvidia if gpu.arch.value)
        self.capabilities = tuple(sorted({own for own in known if own}))
        self.targets = tuple(sorted({gpu.arch.value for gpu in self.amd if gpu.arch.value}))
        installs = situation.machine.amd.rocm.value or ()
        self.rocm = max((one.version for one in installs), key=figures, default=None)

    def answer(self) -> Variants:
        held = self.situation.machine.variables
        installers = []
        for name, variables in self._installers():
            present = {key: held[key] for key in variables if key in held}
            said = {key: value for key, value in variables.items() if value}
            if said or present:
                installers.append(Installer(name, said, present))
        return Variants(tuple(installers), tuple(self._properties()), tuple(self._disagreements()), self._unknown())

    def _cuda(self) -> str | None:
        """The CUDA that the driver supports, as it says itself, else by its version."""
        said = stated_cuda(self.situation.machine)
        return said or (self.situation.matrix.nvidia.cuda_served(self.driver) if self.driver else None)

    def _targets_of(self, installer: str) -> tuple[str, ...]:
        rows = self.situation.matrix.tables.installer_targets
        listed = next((row.targets for row in rows if row.installer == installer), ())
        return tuple(target for target in listed if target in self.targets)

    def _installers(self) -> Iterator[tuple[str, dict[str, str]]]:
        amd = "" if self.driver else next(iter(self._targets_of("uv")), "")
        yield "uv", {"UV_CUDA_DRIVER_VERSION": self.driver or "", "UV_AMD_GPU_ARCHITECTURE": amd}
        least = _with_dot(self.capabilities[0]) if self.capabilities else ""
        yield "conda", {"CONDA_OVERRIDE_CUDA": self.cuda or "", "CONDA_OVERRIDE_CUDA_ARCH": least}
        greatest = _with_dot(self.capabilities[-1]) if self.capabilities else ""
        yield (
            "nvidia-variant-provider",
            {
                "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": self.cuda or "",
                "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": greatest,
            },
        )
        yield (
            "amd-variant-provider",
            {
                "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH": ",".join(self._targets_of("amd-variant-provider")),
                "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION": _three(self.rocm) if self.amd and self.rocm else "",
            },
        )

    def _properties(self) -> Iterator[VariantProperty]:
        cuda_major, cuda_minor = minor(self.cuda or "")
        if cuda_major in _MAJORS:
            yield VariantProperty("nvidia", "cuda_version_lower_bound", tuple(_up_to(cuda_major, cuda_minor)))
            yield VariantProperty("nvidia", "cuda_version_upper_bound", tuple(_above(cuda_major, cuda_minor)))
            if self.capabilities and self.capabilities[-1] >= _OLDEST:
                major, own = self.capabilities[-1]
                real = tuple(f"{major}{each}_real" for each in range(own, -1, -1))
                yield VariantProperty("nvidia", "sm_arch", (*real, f"{major}0_virtual"))
        if targets := self._targets_of("amd-variant-provider"):
            yield VariantProperty("amd", "gfx_arch", tuple(sorted(targets)))
        if self.amd and self.rocm:
            yield VariantProperty("amd", "rocm_version", (_three(self.rocm).rpartition(".")[0],))

    # --- where they differ -----------------------------------------------------------------------------

    def _disagreements(self) -> Iterator[str]:
        if self.driver and self.amd:
            yield f"uv chooses for the NVIDIA driver alone: {gpu_names(self.amd)} gets no build."
        if len(self.capabilities) > 1:
            least, greatest = _with_dot(self.capabilities[0]), _with_dot(self.capabilities[-1])
            yield (
                f"The NVIDIA GPUs differ: conda takes compute capability {least}, nvidia-variant-provider {greatest},"
                " and uv looks at none. A build that suits one need not have code for the others."
            )
        elif self.nvidia and self.driver:
            yield "uv looks at the driver alone, and may choose a build without code for the GPU."
        for installer in ("uv", "amd-variant-provider"):
            if self.targets and not self._targets_of(installer) and not (installer == "uv" and self.driver):
                yield f"{installer} does not know {' or '.join(self.targets)}: it chooses a build for the CPU."
        known = self._targets_of("uv")
        if len(self.targets) > 1 and known and not self.driver:
            yield f"uv takes one AMD GPU of several, {known[0]}; amd-variant-provider takes all that it knows."

    def _unknown(self) -> tuple[str, ...]:
        found = []
        if self.nvidia and not self.driver:
            found.append("the version of the NVIDIA driver")
        elif self.nvidia:
            assumed = (one for one in self.situation.machine.assumed if one.startswith("NVIDIA driver"))
            found += [f"whether it has {one}: that is assumed, --driver tells it" for one in assumed]
        if self.nvidia and not self.cuda:
            found.append("the CUDA that the NVIDIA driver supports")
        found += [f"the architecture of {gpu.name}" for gpu in (*self.nvidia, *self.amd) if not gpu.arch.value]
        if self.amd and not self.rocm:
            found.append("a ROCm of the system: none was found")
        return tuple(found)


def _up_to(major: int, release: int) -> Iterator[str]:
    """The CUDA releases that this one serves, the newest first; a bare major stands behind its releases."""
    for each in range(major, _MAJORS[0] - 1, -1):
        newest = release if each == major else _MINORS[-1]
        yield from (f"{each}.{one}" for one in range(newest, -1, -1))
        yield str(each)


def _above(major: int, release: int) -> Iterator[str]:
    for each in range(_MAJORS[-1], major - 1, -1):
        oldest = release + 1 if each == major else 0
        yield from (f"{each}.{one}" for one in range(_MINORS[-1], oldest - 1, -1))
        if each != major:
            yield str(each)


def _with_dot(own: Capability) -> str:
    return f"{own[0]}.{own[1]}"


def _three(version: str) -> str:
    return ".".join(map(str, (*figures(version)[:3], 0, 0)[:3]))
