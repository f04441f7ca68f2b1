"""CUDA and ROCm libraries, and the variables that steer them."""

from gpudoctor.situation import needs

NEEDS = {
    "gpudirect": needs.rdma,
    "rocm_variables": needs.no_other_torch,
    "nccl_network": needs.network_settings,
    "rocm_runtime": needs.rocm,
}
