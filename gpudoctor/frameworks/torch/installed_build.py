"""The installed torch as a build: where it came from, what people call it, and the fixes that replace it."""

from __future__ import annotations

from gpudoctor.finding import Evidence, Fix
from gpudoctor.frameworks.torch import builds
from gpudoctor.machine import UNKNOWN_VERSION, Distribution, Gpu, Torch
from gpudoctor.situation import Situation

FROM_AN_INDEX = ("pypi", "download.pytorch.org", "unknown")
"""Origins whose versions pair as the package index says; others bring pairs of their own."""

REPAIRED_WITH_TORCH = (
    "torch-install-damaged", "torch-import-fails", "torchvision-mismatch", "torchaudio-mismatch",
    "numpy2-old-torch", "cudnn-mismatch", "nccl-shadowed", "libstdcxx-too-old", "ptxas-too-old",
)  # fmt: skip
"""Problems of the present build that vanish with another build."""


def build_name(torch: Torch) -> str:
    """How a person knows this build: "torch 2.9.1+cu128", "torch 2.9.1 (CUDA 12.8)", "torch (CUDA 12.8)"."""
    if "+" in torch.version:
        return f"torch {torch.version}"
    with_ = f" (CUDA {torch.cuda})" if torch.cuda else f" (ROCm {torch.rocm})" if torch.rocm else ""
    if torch.version == UNKNOWN_VERSION:
        return "torch" if with_.endswith("unknown)") else f"torch{with_}"
    return f"torch {torch.version}{with_}"


def version_evidence(torch: Torch, package: Distribution) -> tuple[Evidence, ...]:
    """What a judgement about a package beside torch is based on."""
    return (Evidence.of_version(package), Evidence.of_torch(torch))


def better_torch(situation: Situation) -> tuple[Fix, ...]:
    """Fixes with another torch, chosen for the GPUs that it should support."""
    return builds.replacements(situation, gpus_meant(situation), keep=situation.torch)


def gpus_meant(situation: Situation) -> tuple[Gpu, ...]:
    """The GPUs that torch should support: those of its vendor, or all where it is for the other vendor's."""
    vendor = situation.built_for
    usable = situation.usable_of(vendor) if vendor else ()
    return builds.gpus_to_serve(situation, usable or situation.usable)
