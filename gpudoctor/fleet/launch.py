"""Follows a program that was started for a limited time, line by line."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from gpudoctor.host import InputError
from gpudoctor.host.bound_child import BECOME, BoundChild
from gpudoctor.host.interrupts import deferred
from gpudoctor.host.supervision import supervising

_GRACE = 3.0
_LONGEST_LINE = 1 << 16
Heard = Callable[[str, bytes], None]


def launch(argv: Sequence[str], seconds: float, heard: Heard, environ: Mapping[str, str]) -> int | None:
    """Run a command, pass on what it prints ("stdout" or "stderr", bytes; b"" at the end), and leave nothing of it
    behind. Its exit code; None if it had to be ended after `seconds`. Raises InputError if it cannot be started.

    It is asked to end a little earlier: only then does srun take back its job, and mpiexec what it started elsewhere.
    """
    grace = min(_GRACE, seconds / 10)
    in_time = True

    def hear(stream: str, data: bytes) -> None:
        if in_time:  # what it says when it is ended is not the cause
            heard(stream, data)

    if shutil.which(argv[0], path=environ.get("PATH")) is None:
        raise InputError(f"{argv[0]} is not installed here (it is not in PATH)")
    try:
        with deferred() as interruptions, supervising(seconds):
            child = BoundChild(BECOME, argv, hear, interruptions, env=dict(environ), may_trace=True)
            ended = False
            try:
                ended = child.follow(seconds - grace)
                if not ended:
                    in_time = False
                    child.process.terminate()
                    child.follow(grace)
            finally:
                child.end()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InputError(f"{argv[0]} cannot be started: {error}") from None
    return child.process.returncode if ended else None


def by_line(take: Callable[[str], None]) -> Heard:
    """A listener that passes on whole lines. What is far too long for a line is cut."""
    open_lines: dict[str, bytes] = {}

    def heard(stream: str, data: bytes) -> None:
        *lines, rest = (open_lines.pop(stream, b"") + data).split(b"\n")
        if rest and (not data or len(rest) > _LONGEST_LINE):
            lines, rest = [*lines, rest], b""
        for line in lines:
            take(line[:_LONGEST_LINE].decode("utf-8", "replace"))
        if rest:
            open_lines[stream] = rest

    return heard
