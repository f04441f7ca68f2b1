"""Healthy environments of frameworks beside torch, some of which look odd: no error, no warning."""

from __future__ import annotations

from collections.abc import Collection

from tests.support.broken_environments.entries import Breaks, Catalogue
from tests.support.broken_environments.environment import Environment
from tests.support.broken_environments.frameworks import (
    DEVICES,
    PROOFS,
    all_of,
    gpu,
    library_path,
    replaced,
    uninstalled,
    untouched,
    variable,
)
from tests.support.broken_environments.requirements import installed, removed

CATALOGUE = Catalogue("healthy")


def healthy(name: str, kind: str, breaks: Breaks = untouched, causes: Collection[str] = (), **more: object) -> None:
    CATALOGUE.add(name, kind, causes, breaks, **{"proof": PROOFS[kind], "limit": 180, **more})


def nvidia_folders(environment: Environment) -> None:
    folders = sorted(str(path) for path in environment.site.glob("nvidia/*/lib"))
    environment.variables["LD_LIBRARY_PATH"] = ":".join(folders)
    environment.described["LD_LIBRARY_PATH"] = environment.variables["LD_LIBRARY_PATH"]


def system_folders(environment: Environment) -> None:
    environment.variables["LD_LIBRARY_PATH"] = "/usr/lib/x86_64-linux-gnu:/usr/lib:"


healthy("JAX for CUDA 12", "jax-12")
healthy("JAX for CUDA 13", "jax-13")
healthy("JAX for CUDA 12 on the oldest driver for it", "jax-12", machine=gpu("RTX 3060", "525.147.05"))
healthy("JAX for CUDA 12 on a P100", "jax-12", machine=gpu("Tesla P100"))
healthy("JAX for CUDA 13 on an RTX 5090", "jax-13", machine=gpu("RTX 5090"))
healthy("JAX for CUDA 13 on a GB10", "jax-13", machine=gpu("GB10", "580.95.05"))
healthy("JAX for CUDA 13 on eight H100", "jax-13", machine=(*gpu("H100"), *("--gpu", "H100") * 7))
healthy("JAX_PLATFORMS=cuda,cpu", "jax-13", variable("JAX_PLATFORMS", "cuda,cpu"))
healthy("JAX with a newer cuDNN", "jax-12", installed("nvidia-cudnn-cu12==9.13.0.50"))
healthy("JAX, and LD_LIBRARY_PATH names the wheels' own libraries", "jax-12", nvidia_folders)
healthy("JAX, and LD_LIBRARY_PATH names the system's folders", "jax-13", system_folders)
healthy(
    "JAX, and LD_LIBRARY_PATH has an older cuDNN, which JAX does not load",
    "jax-13",
    library_path("nvidia-cudnn-cu12==9.1.0.70", "cudnn"),
)
healthy(
    "JAX without a plugin on a machine without a GPU",
    "jax-12",
    all_of(uninstalled("jax-cuda12-plugin"), uninstalled("jax-cuda12-pjrt"), variable("JAX_PLATFORMS", "cpu")),
    gpu=False,
    level="static",
    proof=DEVICES,
)
healthy("a CPU build of ONNX Runtime without a GPU", "onnxruntime", gpu=False, level="static")
healthy("ONNX Runtime for CUDA 12", "onnxruntime-12")
healthy("ONNX Runtime for CUDA 13", "onnxruntime-13")
healthy("ONNX Runtime for CUDA 13 on an H100", "onnxruntime-13", machine=gpu("H100"))
healthy("ONNX Runtime for CUDA 13 on an RTX 5090", "onnxruntime-13", machine=gpu("RTX 5090"))
healthy("ONNX Runtime for CUDA 12 on a V100", "onnxruntime-12", machine=gpu("Tesla V100", "535.183.01"))
healthy(
    "onnxruntime alone on a machine without a GPU",
    "onnxruntime-12",
    replaced("onnxruntime-gpu", "onnxruntime==1.22.0"),
    gpu=False,
    level="static",
    proof="import onnxruntime",
)
healthy("TensorFlow", "tensorflow")
healthy("TensorFlow on an A100", "tensorflow", machine=gpu("A100", "535.183.01"))
healthy("TensorFlow, and LD_LIBRARY_PATH names the wheels' own libraries", "tensorflow", nvidia_folders)
healthy(
    "TensorFlow, and LD_LIBRARY_PATH has a cuDNN 8, which it does not ask for",
    "tensorflow",
    library_path("nvidia-cudnn-cu12==8.9.7.29", "cudnn"),
)
healthy("CuPy for CUDA 12", "cupy-12")
healthy("CuPy for CUDA 13", "cupy-13")
healthy("CuPy for CUDA 12 on a V100", "cupy-12", machine=gpu("Tesla V100", "550.54.15"))
healthy("CuPy for CUDA 13 on a B200", "cupy-13", machine=gpu("B200"))
healthy("numba-cuda for CUDA 12", "numba-12")
healthy("numba-cuda for CUDA 13", "numba-13")
healthy("NUMBA_ENABLE_CUDASIM=0", "numba-12", variable("NUMBA_ENABLE_CUDASIM", "0"))
healthy("CTranslate2, and LD_LIBRARY_PATH names cuBLAS", "ctranslate2", nvidia_folders)
healthy("bitsandbytes", "bitsandbytes")
healthy(
    "bitsandbytes without the library for this CUDA takes its neighbour",
    "bitsandbytes",
    removed("bitsandbytes/libbitsandbytes_cuda128.so"),
)
