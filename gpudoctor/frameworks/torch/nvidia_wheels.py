"""Which of NVIDIA's wheels brings which library, and which of them torch pins."""

from __future__ import annotations

from functools import lru_cache

DISTRIBUTIONS = {
    "libcudart": "nvidia-cuda-runtime", "libcublas": "nvidia-cublas", "libcublasLt": "nvidia-cublas",
    "libcudnn": "nvidia-cudnn", "libcusparse": "nvidia-cusparse", "libcusparseLt": "nvidia-cusparselt",
    "libnvJitLink": "nvidia-nvjitlink", "libcufft": "nvidia-cufft", "libcurand": "nvidia-curand",
    "libcusolver": "nvidia-cusolver", "libcupti": "nvidia-cuda-cupti", "libnvrtc": "nvidia-cuda-nvrtc",
    "libnccl": "nvidia-nccl",
}  # fmt: skip
"""The distribution that brings each library, without its CUDA suffix."""

FIRST_WITHOUT_SUFFIX = 13
"""From this CUDA on, most of NVIDIA's wheels have names without it: nvidia-cublas is none of CUDA 12."""


def stem_of(name: str) -> str:
    """libcudnn of libcudnn.so.9."""
    return name.partition(".so")[0]


def family_of(name: str) -> str:
    """libcudnn of libcudnn_ops.so.9, libnvrtc of libnvrtc-builtins.so.12.8: what one wheel brings together."""
    return stem_of(name).partition("_")[0].partition("-")[0]


def opens_beside(library: str, other: str) -> bool:
    """Whether a library is the other one, or opens it from its own folder: libnvrtc-builtins.so.12.8 of
    libnvrtc.so.12, but no second edition of it (libnvrtc-builtins.alt.so)."""
    return family_of(other) == stem_of(library) and ".so" in other and "." not in stem_of(other)


def distribution_of(name: str) -> str | None:
    """nvidia-cudnn of libcudnn_ops.so.9."""
    return DISTRIBUTIONS.get(family_of(name))


@lru_cache(maxsize=2048)  # asked of all packages, for each of NVIDIA's libraries
def without_cuda(distribution: str) -> str:
    """nvidia-cublas of nvidia-cublas-cu12."""
    base, suffixed, cuda = distribution.rpartition("-cu")
    return base if suffixed and cuda.isdecimal() else distribution


def of_cuda(distribution: str, major: int) -> str:
    """rmm-cu13 of rmm-cu12; "" for a name without the major release of a CUDA, and for one with this major."""
    base = without_cuda(distribution)
    other = f"{base}-cu{major}"
    return other if len(distribution) - len(base) == len("-cu12") and distribution != other else ""
