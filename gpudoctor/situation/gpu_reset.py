"""The fix that resets a GPU."""

from __future__ import annotations

from gpudoctor.finding import Manual, WayOut
from gpudoctor.machine import Gpu


def reset(gpu: Gpu, *, drained: bool = False) -> WayOut:
    """Reset one card; `drained`: its programs may end by themselves."""
    first = "Let the programs on the card end and start no new ones" if drained else "End the programs on the card"
    which = gpu.nvml.index if gpu.nvml else gpu.bdf or gpu.index
    text = f"{first}, then as root `nvidia-smi --gpu-reset -i {which}`; where that fails, reboot."
    return WayOut("Reset the card", (Manual(text, risk="root"),))
