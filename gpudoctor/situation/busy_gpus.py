"""Why a usable GPU is not free."""

from __future__ import annotations

from gpudoctor.machine import Gpu, NvmlDevice

_FULL = 0.97


def why_busy(gpu: Gpu) -> str:
    """Why a new program cannot compute on this GPU now: its mode, or other programs; "" if nothing prevents it."""
    state = gpu.asked
    if state.compute_mode == "prohibited":
        return "its compute mode allows no program (prohibited)"
    if state.compute_mode == "exclusive" and state.processes:
        return "another program uses it in exclusive mode"
    return "its memory is full" if is_full(state) else ""


def is_full(state: NvmlDevice) -> bool:
    """Whether no program finds memory on it."""
    return bool(state.memory and state.memory_used and state.memory_used > _FULL * state.memory)
