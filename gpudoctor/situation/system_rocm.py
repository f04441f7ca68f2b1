"""The ROCm of the system, which programs use that bring none of their own: llama.cpp, vLLM's images."""

from __future__ import annotations

from msgspec import Struct

from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation


class SystemRocm(Struct, frozen=True):
    """An installed ROCm, in the form that known issues compare with a torch."""

    rocm: str
    path: str
    blas_gfx: tuple[str, ...] | None
    version: str = ""
    cuda: str | None = None


def system_rocm(situation: Situation) -> SystemRocm | None:
    """The ROCm that programs find: at ROCM_PATH, else in /opt/rocm, else the only one."""
    installed = situation.machine.amd.rocm.value or ()
    for folder in (situation.variable("ROCM_PATH") or "/opt/rocm", "/opt/rocm"):
        for one in installed:
            if one.path == folder.rstrip("/"):
                return SystemRocm(one.version, one.path, one.blas_gfx)
    return SystemRocm(installed[0].version, installed[0].path, installed[0].blas_gfx) if len(installed) == 1 else None


def for_display(situation: Situation, gpu: Gpu) -> bool:
    """Whether a GPU is the graphics of a processor beside a usable GPU that computes."""
    return gpu.integrated and any(not other.integrated for other in situation.usable)
