"""What a batch job was given, and whether it is meant to run on the CPU."""

from __future__ import annotations

from gpudoctor.situation import Situation

_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def cpu_task(situation: Situation) -> bool:
    """A task of a batch system or of Ray that was made without a GPU on purpose: it hides all of them."""
    return situation.machine.system.job.known and any(situation.variable(name) == "" for name in _VISIBILITY)


def without_request(situation: Situation) -> bool:
    """A batch job that says it has no GPU, or says nothing about GPUs."""
    job = situation.machine.system.job.value
    return job is not None and not job.gpus
