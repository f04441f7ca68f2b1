"""GPUs that no longer answer: what follows from that, and the fix that resets one."""

from __future__ import annotations

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import Gpu

EFFECTS_OF_A_LOST_GPU = ("driver-init-failed-hw", "driver-init-failed-bios", "no-driver")
"""What a GPU that has left the bus looks like to the driver."""


def reset(gpu: Gpu, *, drained: bool = False) -> Fix:
    """Reset one GPU; `drained` if its programs may end by themselves."""
    first = "Let the programs on the GPU end and start no new ones" if drained else "End the programs on the GPU"
    which = gpu.nvml.index if gpu.nvml else gpu.bdf or gpu.index
    text = f"{first}, then as root `nvidia-smi --gpu-reset -i {which}`; where that fails, reboot."
    return by_hand("Reset the GPU", text, "root")
