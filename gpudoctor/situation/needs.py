"""What a check needs before it has anything to say; without it the engine does not run the check."""

from __future__ import annotations

from gpudoctor.situation import Situation


def torch(situation: Situation) -> bool:
    """A torch is installed."""
    return situation.torch is not None


def rocm_torch(situation: Situation) -> bool:
    """A torch built for AMD's GPUs is installed."""
    return situation.built_for == "amd"


def rocm(situation: Situation) -> bool:
    """A torch built for AMD's GPUs is installed; or none is, but a ROCm that other programs use."""
    return situation.built_for == "amd" or (situation.torch is None and bool(situation.machine.amd.rocm.value))


def kernels(situation: Situation) -> bool:
    """Smoke kernels of torch were requested."""
    return situation.machine.smoke is not None and situation.machine.smoke.framework == "torch"


def other_kernels(situation: Situation) -> bool:
    """Another framework was asked to compute."""
    return situation.machine.smoke is not None and situation.machine.smoke.framework != "torch"


def errors(situation: Situation) -> bool:
    """A person saw error messages."""
    return bool(situation.machine.errors)


def requirements(situation: Situation) -> bool:
    """A job requires something of this machine."""
    return bool(situation.required)


def pasted(situation: Situation) -> bool:
    """The machine was read from a text that somebody pasted."""
    return situation.machine.pasted is not None
