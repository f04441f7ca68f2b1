"""Names of the libraries that GPU work needs: those of CUDA, of ROCm, and of torch's GPU builds."""

from __future__ import annotations

import re
from functools import lru_cache

_STEMS = frozenset({
    "cudart", "cublas", "cublasLt", "cufft", "curand", "cusolver", "cusolverMg", "cusparse", "cusparseLt", "cutensor",
    "cutensorMg", "cupti", "cufile", "cudss", "nvrtc", "nvrtc-builtins", "nvJitLink", "nvjpeg", "nvcomp",
    "nvonnxparser", "nccl",
    "amdhip64", "hipblas", "hipblaslt", "hipfft", "hiprand", "hiprtc", "hipsolver", "hipsparse", "hipsparselt",
    "hiptensor", "rocblas", "rocfft", "rocrand", "rocsolver", "rocsparse", "rocm_smi64", "roctracer64", "roctx64",
    "rccl", "MIOpen", "hsa-runtime64",
})  # fmt: skip
_FAMILIES = ("cudnn", "nvinfer", "nvshmem", "npp", "migraphx")
"""First parts of names that many libraries share."""

OF_TORCH = frozenset((
    "libtorch", "libtorch_cpu", "libtorch_cuda", "libtorch_hip", "libtorch_python",
    "libc10", "libc10_cuda", "libc10_hip",
))  # fmt: skip
OF_GPU_TORCH = frozenset(("libtorch_cuda", "libc10_cuda", "libtorch_hip", "libc10_hip"))


@lru_cache(maxsize=2048)  # libraries ask for the same few names
def is_gpu_library(name: str) -> bool:
    """Whether it is one of the vendors' libraries for computing; the driver's own are not."""
    stem, suffixed, _ = name.partition(".so")
    short = stem[3:]
    return bool(suffixed) and stem[:3] == "lib" and (short in _STEMS or short.startswith(_FAMILIES))


def is_own_copy(name: str) -> bool:
    """The same for a package's own copy, with a hash in its name: libnvjpeg.8dd2b5e6.so.12, libnccl-1a2b3c4d.so.2."""
    return is_gpu_library(name) or is_gpu_library(re.sub(r"[.-][0-9a-f]{8}(?=\.so)", "", name, count=1))
