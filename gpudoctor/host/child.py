"""Runs another program with a time limit and an output limit, and leaves nothing of it behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpudoctor.host.base import CommandResult
from gpudoctor.host.bound_child import BECOME, BoundChild
from gpudoctor.host.interrupts import deferred
from gpudoctor.host.supervision import supervising
from gpudoctor.machine import Fact, absent, known, unknown

OUTPUT_LIMIT = 1 << 20
FLOOD_LIMIT = 64 * OUTPUT_LIMIT
_MISSING = "no such command"
_UNDYING = "something that it started cannot be ended"


class BoundRun(Struct, frozen=True):
    """A child's output, even if nothing else is known about it, and how it ended."""

    output: CommandResult = CommandResult()
    failure: str = ""
    """Why its status is unknown: "no answer within 20 s"."""
    gone: bool = True
    """Whether it has ended, with everything that it started."""


def run_limited(
    argv: Sequence[str], seconds: float, *, environ: Mapping[str, str] | None = None, cwd: str | None = None
) -> Fact[CommandResult]:
    """Run a command as `run_bound` does. A missing command is absent. One that starts but does not end in time, or
    floods its output, is unknown."""
    source, variables = argv[0], os.environ if environ is None else environ
    if shutil.which(source, path=variables.get("PATH")) is None:
        there = "/" in source and os.path.exists(source)
        return unknown("cannot be started: it is not executable", source) if there else absent(source, _MISSING)
    run = run_bound(BECOME, argv, seconds, environ=variables, cwd=cwd)
    return unknown(run.failure, source) if run.failure else known(run.output, source)


def run_bound(
    program: str, arguments: Sequence[str], seconds: float, *, environ: Mapping[str, str], cwd: str | None = None
) -> BoundRun:
    """Run a Python program with its arguments. After `seconds` it is killed with all that it started.

    At most OUTPUT_LIMIT bytes of each stream are kept. The child has the C locale, no standard input and its own
    session. A signal that arrives meanwhile (Ctrl-C, SIGTERM) takes effect when the child is gone.
    """
    said, failure, gone = _Said(), "", True
    variables = {**environ, "LC_ALL": "C"}
    try:
        with deferred() as interruptions, supervising(seconds):
            child = BoundChild(
                program, arguments, said.hear, interruptions, env=variables, cwd=cwd, cpu_seconds=seconds
            )
            try:
                if not child.follow(seconds):
                    failure = f"no answer within {seconds:g} s"
            except _FloodError:
                failure = f"printed more than {FLOOD_LIMIT >> 20} MiB"
            finally:
                gone = child.end()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return BoundRun(failure=f"cannot be started: {error}", gone=gone)
    if not gone:
        failure = f"{failure}, and {_UNDYING}" if failure else _UNDYING
    output = CommandResult(said.text("stdout"), said.text("stderr"), child.process.returncode or 0)
    return BoundRun(output, failure, gone)


class _Said:
    def __init__(self) -> None:
        self._streams = {"stdout": bytearray(), "stderr": bytearray()}
        self._seen = 0

    def hear(self, name: str, data: bytes) -> None:
        """Keep it. Raises _FloodError."""
        self._seen += len(data)
        if self._seen > FLOOD_LIMIT:
            raise _FloodError
        stream = self._streams[name]
        stream += data[: OUTPUT_LIMIT - len(stream)]

    def text(self, name: str) -> str:
        return self._streams[name].decode("utf-8", "replace")


class _FloodError(Exception):
    """A child prints endlessly."""
