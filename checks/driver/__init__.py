"""Hardware, kernel and driver."""

from gpudoctor.check import Need
from gpudoctor.situation import Situation, needs

NEEDS: dict[str, Need[Situation]] = {
    "cuda_start": needs.gpus_or_driver,
    "driver_start": needs.gpus_or_driver,
    "gpu_hardware": needs.gpus_or_driver,
    "gpu_links": lambda situation: len(situation.usable) > 1,
    "gpu_reset": needs.log_faults,
    "kernel_log": needs.log_faults,
    "kernel_driver_binding": lambda situation: bool(situation.machine.gpus),
    "module_signature": needs.unserved_gpus,
    "no_driver": needs.gpus_or_driver,
    "no_gpu": needs.no_usable_gpu,
    "nvidia_driver": needs.gpu_traces,
    "nvml": lambda situation: situation.machine.level != "static",
    "pcie_atomics": lambda situation: bool(situation.machine.of_vendor("amd")),
    "rdma_ports": needs.rdma,
    "virtual_gpu": needs.gpu_traces,
    "wsl": needs.wsl,
}
