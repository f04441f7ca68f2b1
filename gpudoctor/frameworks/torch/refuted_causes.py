"""Causes of a message that the known facts rule out. What was only assumed rules out nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpudoctor.frameworks.torch.gpu_coverage import has_code
from gpudoctor.frameworks.torch.smoke_faults import BUSY, NO_CODE
from gpudoctor.isa import capability
from gpudoctor.machine import ASSUMED, Gpu
from gpudoctor.machine.pasted_text import DOCKER_DESKTOP, DOCKER_DESKTOP_OF_WINDOWS
from gpudoctor.situation import Situation
from gpudoctor.situation.busy_gpus import why_busy
from gpudoctor.situation.nvidia_driver import driver_verdict, refusals

_ASSUMED_DRIVER = re.compile(r"NVIDIA driver [\d.]+(?! \(serves)")
_ASSUMED_BUILD = re.compile(r" build of torch |^version of torch$")
_NEVER_DROPPED = (8, 0)
"""Compute capability from which on no build of torch has left out a GPU."""


def is_refuted(situation: Situation, slug: str) -> bool:
    """Whether the facts show that it is not so on this machine."""
    rule = _RULES.get(slug)
    return rule is not None and rule(situation)


def _driver_serves(situation: Situation) -> bool:
    torch, gpus = situation.torch, situation.usable_of("nvidia")
    if torch is None or not torch.cuda or not torch.cuda[:1].isdecimal() or _assumed(situation, _ASSUMED_DRIVER):
        return False
    refused = any("driver-too-old" in refusals(situation, gpu) for gpu in gpus)
    return (
        not refused and not _assumed(situation, _ASSUMED_BUILD) and driver_verdict(situation, torch.cuda) == "serves"
    )


def _has_code(situation: Situation) -> bool:
    return has_code(situation) and not _assumed(situation, _ASSUMED_BUILD)


def _is_recent_or_has_code(situation: Situation) -> bool:
    gpus = _known_gpus(situation)
    recent = bool(gpus) and all((capability(gpu.arch.value) or (0, 0)) >= _NEVER_DROPPED for gpu in gpus)
    return recent or _has_code(situation)


def _is_gpu_build(situation: Situation) -> bool:
    return situation.built_for is not None and not _assumed(situation, _ASSUMED_BUILD)


def _is_built_for_the_gpus(situation: Situation) -> bool:
    gpus = _known_gpus(situation)
    return bool(gpus) and _is_gpu_build(situation) and all(gpu.vendor == situation.built_for for gpu in gpus)


def _has_no_amd_gpu(situation: Situation) -> bool:
    return bool(_known_gpus(situation)) and not situation.machine.of_vendor("amd")


def _is_for_amd(situation: Situation) -> bool:
    """Whether torch is a ROCm build, and the GPUs are AMD's: NVIDIA's driver is not why it sees none."""
    return situation.built_for == "amd" and not situation.machine.of_vendor("nvidia")


def _has_no_switches(situation: Situation) -> bool:
    """NVSwitches connect boards for servers alone."""
    gpus = _known_gpus(situation)
    return bool(gpus) and not any(gpu.datacenter for gpu in gpus)


def _was_never_dropped(situation: Situation) -> bool:
    return _each(situation, lambda gpu: situation.matrix.nvidia.last_branch(gpu.arch.value) is None)


def _takes_either_module(situation: Situation, rule: str) -> bool:
    return _each(situation, lambda gpu: situation.matrix.nvidia.module_flavour(gpu.arch.value, gpu.name) != rule)


def _each(situation: Situation, holds: Callable[[Gpu], bool]) -> bool:
    gpus = tuple(gpu for gpu in _known_gpus(situation) if gpu.vendor == "nvidia")
    return bool(gpus) and all(map(holds, gpus))


def _has_room(situation: Situation) -> bool:
    """Whether the driver's tool shows free memory on each GPU, and no program that keeps others away."""
    states = [gpu.nvml for gpu in situation.usable]
    measured = all(state is not None and state.memory and state.memory_used is not None for state in states)
    return bool(states) and measured and not any(map(why_busy, situation.usable))


def _is_outside_wsl(situation: Situation) -> bool:
    system = situation.machine.system
    return system.wsl.absent and system.kernel.known and system.kernel.source != ASSUMED


def _is_in_docker_desktop(situation: Situation) -> bool:
    """Whether its virtual machine lacks the GPU, whatever the host has."""
    return situation.machine.text.tells(DOCKER_DESKTOP) is not None


def _has_the_toolkit_of_docker_desktop(situation: Situation) -> bool:
    """Whether a text is of Windows, where Docker Desktop brings the toolkit, also to WSL."""
    text = situation.machine.text
    return text.foreign == "windows" or text.tells(DOCKER_DESKTOP_OF_WINDOWS) is not None


def _has_a_driver_outside(situation: Situation) -> bool:
    """Whether a text names the driver of a host, whose container was started without the GPUs."""
    text = situation.machine.text
    return bool(text.container_command) and "driver" not in text.unsaid


def _has_gpus_of_the_job(situation: Situation) -> bool:
    """Whether the batch job has GPUs, or a text shows that it asked for them."""
    job = situation.machine.system.job.value
    return job is not None and bool(job.gpus)


def _may_open_kfd(situation: Situation) -> bool:
    """Whether a text lists the node and the groups of the user, who may open it."""
    kfd = situation.machine.amd.kfd
    return kfd.value is not None and kfd.value.opened == "ok" and kfd.source.startswith("text, line")


def _known_gpus(situation: Situation) -> tuple[Gpu, ...]:
    """All GPUs, if what they are is known of each."""
    gpus = situation.machine.gpus
    return gpus if all(gpu.arch.value for gpu in gpus) else ()


def _assumed(situation: Situation, pattern: re.Pattern[str]) -> bool:
    return any(map(pattern.search, situation.machine.assumed))


_RULES: dict[str, Callable[[Situation], bool]] = {
    **dict.fromkeys(NO_CODE, _has_code),
    "torch-dropped-old-gpu": _is_recent_or_has_code,
    "torch-cpu-only": _is_gpu_build,
    "torch-wrong-build-or-cpu": _is_built_for_the_gpus,
    "driver-too-old": _driver_serves,
    "cuda-torch-on-amd": lambda situation: _has_no_amd_gpu(situation) or situation.built_for == "amd",
    "fabric-manager-not-running": _has_no_switches,
    "nvidia-driver-dropped-gpu": _was_never_dropped,
    "blackwell-open-module": lambda situation: _takes_either_module(situation, "required"),
    "open-module-unsupported-gpu": lambda situation: _takes_either_module(situation, "refused"),
    "wsl-driver": _is_outside_wsl,
    "rocm-wsl-unsupported": _is_outside_wsl,
    "rocm-wsl-dxg-env": _is_outside_wsl,
    "no-driver": lambda situation: _has_a_driver_outside(situation) or _is_for_amd(situation),
    "amd-kfd-missing": _is_in_docker_desktop,
    "amd-device-permission": _may_open_kfd,
    "container-toolkit-missing": _has_the_toolkit_of_docker_desktop,
    "job-without-gpu": _has_gpus_of_the_job,
    BUSY: _has_room,
}
