"""GPUs that no longer answer: what follows from that, and the fix that resets one."""

from __future__ import annotations

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import Gpu, Vendor

EFFECTS_OF_A_LOST_GPU = ("driver-init-failed-hw", "driver-init-failed-bios", "no-driver")
"""What a GPU that has left the bus looks like to the driver."""


def awaits_mig(gpu: Gpu) -> bool:
    """Whether MIG mode was switched on or off, which takes effect at the GPU's next reset."""
    now, then = gpu.asked.mig, gpu.asked.mig_pending
    return None not in (now, then) and now != then


def reset(*gpus: Gpu, drained: bool = False) -> Fix:
    """Reset some GPUs; `drained` if their programs may end by themselves."""
    them = "the GPU" if len(gpus) == 1 else "the GPUs"
    first = f"Let the programs on {them} end and start no new ones" if drained else f"End the programs on {them}"
    which = ",".join(str(gpu.nvml.index if gpu.nvml else gpu.bdf or gpu.index) for gpu in gpus)
    text = f"{first}, then as root `nvidia-smi --gpu-reset -i {which}`; where that fails, reboot."
    return by_hand(f"Reset {them}", text, "root")


def power_cycle(vendor: Vendor) -> Fix:
    """Take the power from a GPU that no reset brings back."""
    report = "First save the report of `sudo nvidia-bug-report.sh`. " if vendor == "nvidia" else ""
    text = (
        f"{report}Shut the machine down, disconnect its power for a minute, and start it again. If the GPU is lost "
        "again: reseat it, check its power cables and temperature, and try another slot without a riser. If that "
        "does not help, have it replaced."
    )
    title = "Power-cycle the machine and check the GPU's seat, power and cooling"
    return by_hand(title, text, "reboot")
