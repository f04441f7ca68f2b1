"""CUDA and ROCm libraries, and the variables that steer them."""

from gpudoctor.situation import needs

NEEDS = {
    "driver_and_libcuda": needs.nvidia_gpus_or_wsl,
    "gpudirect": needs.rdma,
    "rocm_variables": needs.no_other_torch,
    "nccl_network": needs.network_settings,
    "rocm_runtime": needs.rocm,
}
