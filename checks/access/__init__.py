"""Device nodes, containers, jobs, visibility variables: whether a process reaches the GPUs."""

from gpudoctor.check import Need
from gpudoctor.situation import Situation, needs

NEEDS: dict[str, Need[Situation]] = {
    "batch_job": lambda situation: situation.machine.system.job.value is not None,
    "container": needs.container,
    "container_cgroup": needs.container,
    "container_host": lambda situation: bool(situation.machine.nvidia.cdi.value),
    "device_nodes": needs.gpu_traces,
    "rdma_limits": needs.rdma,
    "rocm_wsl": needs.wsl,
    "visible_devices": needs.gpus_or_selection,
}
