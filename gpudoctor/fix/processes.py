"""Processes that a journal names, distinguished from later ones with the same number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct


class Process(Struct, frozen=True, omit_defaults=True):
    """A process that cannot be mistaken for a later one of the same number."""

    pid: Annotated[int, Meta(ge=1, le=1 << 22)]
    start: Annotated[int, Meta(ge=0)]
    """Clock ticks from boot to its start."""
    boot: str


def process(pid: int) -> Process:
    """The process that has this number now. OSError where there is none."""
    fields = _stat(pid)
    return Process(pid=pid, start=int(fields[19]), boot=_boot())


def is_alive(known: Process) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        return process(known.pid) == known and _stat(known.pid)[0] not in "ZX"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the program's name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
