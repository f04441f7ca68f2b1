"""Device nodes, containers, jobs, visibility variables: whether a process reaches the GPUs."""

from gpudoctor.situation import needs

NEEDS = {
    "batch_job": needs.job,
    "container": needs.container,
    "rdma_limits": needs.rdma,
    "rocm_wsl": needs.wsl,
}
