"""What a choice starts from: the GPUs that count, and whether the present driver runs them."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import choice_before_torch
from gpudoctor.situation.nvidia_driver import kernel_driver, refusal


def gpus_that_count(situation: Situation) -> tuple[Gpu, ...]:
    """The usable ones; else those that a fix could make usable."""
    return situation.usable or tuple(
        standing.gpu
        for standing in situation.standings
        if standing.granted != "no" and standing.selected != "no" and not standing.gpu.reserved
    )


def archs_of(gpus: Iterable[Gpu]) -> str:
    """Their known architectures in words: "sm_86 and sm_120"."""
    return " and ".join(dict.fromkeys(gpu.arch.value for gpu in gpus if gpu.arch.value))


def driver_fault(situation: Situation, gpus: tuple[Gpu, ...]) -> str:
    """Why no present or possible driver runs all of the GPUs; "" if one does."""
    for gpu in gpus:
        if why := driver_refusal(situation, gpu):
            return why
    if choice_before_torch(situation, gpus):
        return "no single driver supports all of these GPUs"
    return ""


def driver_refusal(situation: Situation, gpu: Gpu) -> str:
    """Why the present driver does not run a GPU at all; "" if it does."""
    why = refusal(situation, gpu)
    if why is None:
        return ""
    matrix = situation.matrix
    sm, name, version = gpu.arch.value or "", gpu.name, kernel_driver(situation)[0]
    first, last = matrix.first_driver(sm, gpu.chip), matrix.last_branch(sm)
    reason = {
        "driver-too-old": f"does not know {name} (from {first} on)",
        "nvidia-driver-dropped-gpu": f"has dropped {name} (branch {last} is its last)",
        "blackwell-open-module": f"has proprietary kernel modules, and {name} needs the open ones",
        "open-module-unsupported-gpu": f"has open kernel modules, and {name} needs the proprietary ones",
    }[why]
    return f"driver {version or 'of unknown version'} {reason}"
