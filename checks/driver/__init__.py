"""Hardware, kernel and driver."""

from gpudoctor.situation import needs

NEEDS = {
    "cuda_start": needs.gpus_or_driver,
    "described_log": needs.log_faults,
    "gpu_hardware": needs.gpus_or_driver,
    "gpu_links": needs.several_gpus,
    "gpu_reset": needs.log_faults,
    "kernel_driver_binding": needs.gpus,
    "module_signature": needs.unserved_gpus,
    "no_driver": needs.gpus_or_driver,
    "no_gpu": needs.no_usable_gpu,
    "nvidia_driver": needs.gpu_traces,
    "nvlink": needs.log_faults,
    "nvml": needs.driver_asked,
    "pcie_atomics": needs.amd_gpus,
    "rdma_ports": needs.rdma,
    "system_memory": needs.log_faults,
    "virtual_gpu": needs.gpu_traces,
    "wsl": needs.wsl,
}
