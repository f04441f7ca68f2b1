"""Environment variables that affect whether a GPU works.

They are listed by name: any other variable may hold a secret, or the name of a host or a user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpudoctor.host import Host
from gpudoctor.machine import OVERRIDE

NAMES = frozenset({
    # Which GPUs a process sees, and in which order.
    "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    # NVIDIA's driver and libraries, and the images with them.
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_CACHE_DISABLE", "CUDA_CACHE_MAXSIZE", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_PTX_JIT", "CUDA_HOME", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_PATH", "CUDA_VERSION",
    "CUDNN_VERSION", "NVIDIA_DISABLE_REQUIRE", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_PRODUCT_NAME",
    "NVIDIA_PYTORCH_VERSION", "NVIDIA_REQUIRE_CUDA", "NVIDIA_TF32_OVERRIDE",
    # AMD's runtime and libraries.
    "AMD_LOG_LEVEL", "AMD_SERIALIZE_COPY", "AMD_SERIALIZE_KERNEL", "GPU_MAX_HW_QUEUES",
    "HIPBLASLT_TENSILE_LIBPATH", "HIP_LAUNCH_BLOCKING", "HIP_PATH", "HIP_PLATFORM", "HSA_ENABLE_DXG_DETECTION",
    "HSA_ENABLE_PEER_SDMA", "HSA_ENABLE_SDMA", "HSA_NO_SCRATCH_RECLAIM", "HSA_OVERRIDE_GFX_VERSION",
    "HSA_XNACK", "MIOPEN_FIND_MODE", "ROCBLAS_TENSILE_LIBPATH", "ROCBLAS_USE_HIPBLASLT", "ROCM_HOME",
    "ROCM_PATH",
    # Communication between GPUs.
    "GLOO_SOCKET_IFNAME", "NCCL_ALGO", "NCCL_CUMEM_ENABLE", "NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_NET_GDR_LEVEL",
    "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_PROTO", "NCCL_SHM_DISABLE",
    "OMPI_COMM_WORLD_SIZE", "RCCL_MSCCL_ENABLE", "TP_SOCKET_IFNAME",
    # Frameworks, compilers and extensions.
    "AOTINDUCTOR_REPRO_LEVEL", "BNB_CUDA_VERSION", "BNB_ROCM_VERSION", "CC", "CXX", "DISABLE_ADDMM_CUDA_LT",
    "FLASHINFER_DISABLE_VERSION_CHECK", "FLASH_ATTENTION_TRITON_AMD_ENABLE", "JAX_CUDA_VISIBLE_DEVICES",
    "JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_ROCM_VISIBLE_DEVICES", "KERAS_BACKEND", "NUMBA_CUDA_DRIVER",
    "NUMBA_DISABLE_CUDA", "NUMBA_ENABLE_CUDASIM", "OLLAMA_LLM_LIBRARY",
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_NO_HIP_MEMORY_CACHING", "PYTORCH_NVML_BASED_CUDA_CHECK", "PYTORCH_ROCM_ARCH",
    "PYTORCH_TUNABLEOP_ENABLED", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_USE_LEGACY_KERAS", "TF_XLA_FLAGS",
    "TORCHDYNAMO_DISABLE", "TORCHDYNAMO_REPRO_LEVEL", "TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS",
    "TORCHINDUCTOR_CPP_GEMM_MAX_K_SLICES", "TORCHINDUCTOR_CPP_MIN_CHUNK_SIZE", "TORCHINDUCTOR_MIN_NUM_SPLIT",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_AUTOTUNE_REP", "TORCH_AUTOTUNE_WARMUP",
    "TORCH_BLAS_PREFER_HIPBLASLT", "TORCH_COMPILE_DISABLE", "TORCH_CUDA_ARCH_LIST", "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "TRITON_CACHE_DIR", "TRITON_INTERPRET",
    "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_PTXAS_PATH", "XLA_CLIENT_MEM_FRACTION", "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    # What is loaded from where, and which environment is active.
    "CONDA_DEFAULT_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "NIX_LD_LIBRARY_PATH",
    "PIP_CONSTRAINT", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONWARNINGS",
    "UV_CONSTRAINT", "UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV",
    # What installers take for the machine.
    "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", "CONDA_OVERRIDE_CUDA",
    "CONDA_OVERRIDE_CUDA_ARCH", "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION",
    "NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "UV_AMD_GPU_ARCHITECTURE", "UV_CUDA_DRIVER_VERSION",
    # Containers, batch systems, WSL.
    "APPTAINER_CONTAINER", "RAY_JOB_ID", "SINGULARITY_CONTAINER", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS",
    "SLURM_JOB_ID", "SLURM_STEP_GPUS", "WSL_DISTRO_NAME", "container",
})  # fmt: skip
_OF_COMMUNICATION = ("FI_", "NCCL_", "RCCL_", "TORCH_NCCL_", "UCX_")
"""NCCL and RCCL, torch's use of them, libfabric, UCX: a fleet compares all their settings."""
_WITH_ADDRESSES = frozenset((
    "NCCL_COMM_ID", "NCCL_DEBUG_FILE", "NCCL_HOSTID", "NCCL_IB_ADDR_RANGE", "NCCL_RAS_ADDR", "UCX_LOG_FILE",
))  # fmt: skip
"""Of these, the ones that hold addresses, host names, or names of files for each host."""
_SECRETS = ("AUTH", "CREDENTIAL", "KEY", "PASS", "SECRET", "TOKEN")
_ADDRESS = r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])|(?<![\w:])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
_OF_ONE_GPU = f"{OVERRIDE}_"
_LONGEST_VALUE = 1 << 15


def probe_variables(host: Host, also: Iterable[str] = ()) -> dict[str, str]:
    """The relevant variables of the examined process, by name; empty values stay (CUDA reads them). `also` holds the
    names that the matrix asks for."""
    return relevant_variables(host.environ, also)


def relevant_variables(environ: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """Those of an environment that affect whether a GPU works."""
    names = NAMES.union(also)
    return {
        name: value[:_LONGEST_VALUE]
        for name, value in sorted(environ.items())
        if name in names or _is_of_one_gpu(name) or (is_relevant(name) and not re.search(_ADDRESS, value))
    }


def _is_of_one_gpu(name: str) -> bool:
    return name.startswith(_OF_ONE_GPU) and name[len(_OF_ONE_GPU) :].isdecimal()


def is_relevant(name: str) -> bool:
    """Whether a variable steers how GPUs of several processes communicate, and holds no address and no secret."""
    ours = name.startswith(_OF_COMMUNICATION) and name not in _WITH_ADDRESSES
    return ours and not any(word in name for word in _SECRETS)
