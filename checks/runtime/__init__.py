"""CUDA and ROCm libraries, and the variables that steer them."""

from gpudoctor.situation import needs

NEEDS = {
    "cuda_libraries": needs.torch,
    "cudnn": needs.torch_or_cudnn,
    "driver_for_cuda": needs.nvidia_gpus_or_wsl,
    "gpudirect": needs.rdma,
    "libcuda": needs.nvidia_gpus_or_wsl,
    "rocm_variables": needs.rocm_settings,
    "nccl_network": needs.network_settings,
    "rocm_runtime": needs.rocm,
}
