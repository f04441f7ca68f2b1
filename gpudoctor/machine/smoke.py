"""The results of smoke kernels."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from gpudoctor.machine.facts import Record

SmokeStatus = Literal["pass", "wrong", "error", "crash", "timeout", "skipped"]


LISTING = "devices"
"""Name of the result for a torch that could not list its devices."""


class SmokeDevice(Record, frozen=True):
    """A device as torch names it ("cuda:0" on CUDA and ROCm alike, "cpu")."""

    name: str
    product: str = ""
    arch: str = ""
    """ "sm_90" or "gfx1030": as the runtime tells it, so an override of the gfx name shows here."""
    bdf: str | None = None
    uuid: str = ""
    memory: int | None = None
    free: int | None = None
    """Bytes that were free before the kernels ran."""


class SmokeKernel(Record, frozen=True):
    """The result of one smoke kernel on one device with one dtype."""

    name: str
    device: str
    dtype: str = ""
    status: SmokeStatus = "pass"
    ms: float | None = None
    error: float | None = None
    """Largest deviation from the float64 reference, in the measure that `tolerance` bounds."""
    tolerance: float | None = None
    detail: str = ""
    """One sentence for a person: what was wrong, why it was skipped."""
    message: str = ""
    """The error as raised, or the last output of a process that died."""
    signal: str = ""
    """SIGSEGV ... if a signal ended the process."""
    measures: dict[str, float] = field(default_factory=dict)
    """Measured rates: gb_per_s, tflops."""


class Smoke(Record, frozen=True):
    """Smoke kernels that ran in the examined interpreter, in order."""

    level: Literal["quick", "standard", "full"]
    devices: tuple[SmokeDevice, ...] = ()
    kernels: tuple[SmokeKernel, ...] = ()
    why: str = ""
    """Why nothing, or not everything, ran."""
    asked: bool = True
    """Whether a person asked for the level (otherwise it was the default)."""
    gpu_asked: bool = False
    """Whether a person named a GPU ("cuda:0", "cuda") to compute on."""
    cpu_asked: bool = False
    """Whether a person named the CPU alone."""
    framework: str = "torch"
    """What computed: torch, or another framework by the matrix's name."""
