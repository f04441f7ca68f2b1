"""Environment variables that take part in whether a GPU works; never a secret."""

from __future__ import annotations

from gpudoctor.host import Host

# No name of a host or user may be among them: these go into reports.
_PREFIXES = (
    "AMD_",
    "CUBLAS",
    "CUDA_",
    "CUDNN_",
    "FLASH_ATTENTION_",
    "GPU_",
    "HCC_",
    "HIP",
    "HSA_",
    "MIOPEN_",
    "MPS_",
    "NCCL_",
    "NVIDIA_",
    "NV_",
    "PYTORCH_",
    "RCCL_",
    "ROCBLAS_",
    "ROCM_",
    "ROCR_",
    "TENSILE_",
    "TORCHINDUCTOR_",
    "TORCH_",
    "TRITON_",
    "XLA_",
)
_NAMES = frozenset(
    (
        "APPTAINER_CONTAINER",
        "BNB_CUDA_VERSION",
        "CONDA_DEFAULT_ENV",
        "CONDA_PREFIX",
        "DISABLE_ADDMM_CUDA_LT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NIX_LD_LIBRARY_PATH",
        "OMPI_COMM_WORLD_SIZE",
        "PIP_CONSTRAINT",
        "PYTHONHOME",
        "PYTHONNOUSERSITE",
        "PYTHONPATH",
        "PYTHONUSERBASE",
        "RAY_JOB_ID",
        "SINGULARITY_CONTAINER",
        "SLURM_GPUS_ON_NODE",
        "SLURM_JOB_GPUS",
        "SLURM_JOB_ID",
        "SLURM_STEP_GPUS",
        "UV_CONSTRAINT",
        "UV_PROJECT_ENVIRONMENT",
        "VIRTUAL_ENV",
        "WSL_DISTRO_NAME",
        "container",
    )
)
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "AUTH")
_VALUE_LIMIT = 1 << 15


def probe_variables(host: Host) -> dict[str, str]:
    """Those variables of the examined process that matter here, by name; empty values are kept (CUDA reads them)."""
    return {
        name: value[:_VALUE_LIMIT]
        for name, value in sorted(host.environ.items())
        if (name in _NAMES or name.startswith(_PREFIXES)) and not any(word in name.upper() for word in _SECRET)
    }
