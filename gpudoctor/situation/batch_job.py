"""What a batch job was given, and whether it should run on the CPU."""

from __future__ import annotations

from gpudoctor.situation import Situation

_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def cpu_task(situation: Situation) -> bool:
    """Whether this is a task of a batch system or of Ray that hides all GPUs on purpose, to run on the CPU."""
    return situation.machine.system.job.known and any(situation.variable(name) == "" for name in _VISIBILITY)


def without_request(situation: Situation) -> bool:
    """Whether this is a batch job that says that it has no GPU, or says nothing about GPUs."""
    job = situation.machine.system.job.value
    return job is not None and not job.gpus
