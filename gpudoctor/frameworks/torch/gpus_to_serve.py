"""The usable GPUs for which a build is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.frameworks.torch.candidates import candidates, platform_of, python_of
from gpudoctor.machine import Gpu, Machine
from gpudoctor.situation.no_common_driver import apart
from gpudoctor.situation.nvidia_driver import refusal

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


def gpus_to_serve(machine: Machine, matrix: Matrix, usable: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that a torch build should support.

    These are the discrete GPUs, or the integrated ones if there are no others. A GPU that no build can support is
    left out. So is the GPU that drives the display, if the others can only be supported without it. If no single
    driver supports all NVIDIA GPUs, those count that the present one supports.
    """
    gpus = tuple(gpu for gpu in usable if not gpu.integrated) or usable
    if len(gpus) < 2:
        return gpus
    gpus = tuple(gpu for gpu in gpus if _can_be_served(machine, matrix, gpu)) or gpus
    if any(refusal(machine, matrix, gpu) for gpu in gpus) and apart(machine, matrix, gpus):
        gpus = tuple(gpu for gpu in gpus if not refusal(machine, matrix, gpu)) or gpus
    without_display = tuple(gpu for gpu in gpus if not gpu.boot_vga)
    if 0 < len(without_display) < len(gpus) and not _served(machine, matrix, gpus):
        return without_display if _served(machine, matrix, without_display) else gpus
    return gpus


def _served(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...]) -> bool:
    choices, _ = candidates(machine, matrix, gpus, python_of(machine), platform_of(machine))
    return bool(choices)


def _can_be_served(machine: Machine, matrix: Matrix, gpu: Gpu) -> bool:
    policy = matrix.override(gpu.arch.value) if gpu.vendor == "amd" and gpu.arch.value else None
    return bool(policy and policy.value and policy.safety == "safe-class") or _served(machine, matrix, (gpu,))
