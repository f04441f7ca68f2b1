"""Processes that a journal names, distinguished from later ones with the same number."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from gpudoctor.fix.errors import RepairError


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


def end_session(known: Process) -> None:
    """Make sure that a step and all it started have ended, also after gpudoctor itself was killed.

    Its number is its session's: it cannot be given to another process while one of the session lives.
    """
    for _ in range(100):
        members = _members(known)
        if not members:
            return
        for number in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.02)
    raise cannot_be_ended(known)


def cannot_be_ended(known: Process) -> RepairError:
    """What is said of a step that goes on."""
    return RepairError(f"Process {known.pid} of an earlier step cannot be ended: end it, then try again.")


def _members(known: Process) -> list[int]:
    if known.pid == os.getsid(0):
        return []  # a step has a session of its own
    try:
        leader = process(known.pid)
    except OSError:
        leader = None
    if leader is not None and leader != known:
        return []
    try:
        if leader is None and process(os.getpid()).boot != known.boot:
            return []
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [number for number in numbers if _session(number) == known.pid and _is_running(number)]


def _session(number: int) -> int:
    try:
        return os.getsid(number)
    except OSError:
        return -1


def _is_running(number: int) -> bool:
    try:
        return is_alive(process(number))
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
