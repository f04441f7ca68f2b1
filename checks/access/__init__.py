"""Device nodes, containers, jobs, visibility variables: whether a process reaches the GPUs."""

from gpudoctor.situation import needs

NEEDS = {
    "batch_job": needs.job,
    "container": needs.container,
    "container_host": needs.cdi_specifications,
    "device_nodes": needs.gpu_traces,
    "rdma_limits": needs.rdma,
    "rocm_wsl": needs.wsl,
    "visible_devices": needs.gpus_or_selection,
}
