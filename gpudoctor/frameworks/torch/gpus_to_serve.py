"""The usable GPUs for which a build is chosen."""

from __future__ import annotations

from gpudoctor.frameworks.torch.candidates import candidates
from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.driver_choice import driver_options
from gpudoctor.situation.nvidia_driver import refusal
from gpudoctor.situation.working_gpus import for_computing, has_a_better, has_build
from gpudoctor.situation.wsl import never_in_wsl


@answer_once
def gpus_to_serve(situation: Situation, usable: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that a torch build should support.

    These are the discrete GPUs and the integrated ones that are made for computing; or all integrated ones, if no
    build supports any of these. A GPU that no build can support is left out, and one that needs another Python or
    system for it if a better one works. So is the GPU that drives the display, if the others can only be supported
    without it; and one that the present driver refuses, if a better one works or no single driver supports all.
    """
    usable = tuple(gpu for gpu in usable if not never_in_wsl(situation, gpu)) or usable
    gpus = tuple(gpu for gpu in usable if not gpu.integrated or for_computing(situation, gpu))
    if not any(has_build(situation, gpu) for gpu in gpus):
        gpus = usable
    if len(gpus) < 2:
        return gpus
    gpus = tuple(gpu for gpu in gpus if not (refusal(situation, gpu) and has_a_better(situation, gpu))) or gpus
    gpus = tuple(gpu for gpu in gpus if _can_be_served(situation, gpu)) or gpus
    if any(refusal(situation, gpu) for gpu in gpus) and driver_options(situation, gpus):
        gpus = tuple(gpu for gpu in gpus if not refusal(situation, gpu)) or gpus
    without_display = tuple(gpu for gpu in gpus if not gpu.boot_vga)
    if 0 < len(without_display) < len(gpus) and not _served(situation, gpus):
        return without_display if _served(situation, without_display) else gpus
    return gpus


def _served(situation: Situation, gpus: tuple[Gpu, ...]) -> bool:
    choices, _ = candidates(situation, gpus, unconstrained=True)
    return bool(choices)


def _can_be_served(situation: Situation, gpu: Gpu) -> bool:
    policy = situation.matrix.amd.override(gpu.arch.value) if gpu.vendor == "amd" and gpu.arch.value else None
    if bool(policy and policy.value and policy.safety == "safe-class") or _served(situation, (gpu,)):
        return True
    choices, refused = candidates(situation, (gpu,), any_python=True, unconstrained=True)
    elsewhere = bool(choices) or any(one.because == "libc" for one in refused)
    return elsewhere and not has_a_better(situation, gpu)
