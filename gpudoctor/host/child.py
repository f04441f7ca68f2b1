"""Runs another program with a time limit and an output limit, and leaves nothing of it behind."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpudoctor.host.base import CommandResult
from gpudoctor.host.bound_child import bound_command
from gpudoctor.host.interrupts import Interruptions, deferred
from gpudoctor.host.process_tree import ProcessTree
from gpudoctor.host.supervision import supervising
from gpudoctor.machine import Fact, absent, known, unknown

BARE_PYTHON = (sys.executable, "-I", "-S", "-B")
OUTPUT_LIMIT = 1 << 20
FLOOD_LIMIT = 64 * OUTPUT_LIMIT
CLOSING_SECONDS = 0.2
"""How long output may stay open after the child itself has ended (a daemon that it left holds it)."""
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
    run = run_bound((*BARE_PYTHON, *bound_command(argv)), seconds, environ=variables, cwd=cwd)
    return unknown(run.failure, source) if run.failure else known(run.output, source)


def run_bound(argv: Sequence[str], seconds: float, *, environ: Mapping[str, str], cwd: str | None = None) -> BoundRun:
    """Run `argv`, an interpreter with the arguments from `bound`. After `seconds` kill it with all that it started.

    At most OUTPUT_LIMIT bytes of each stream are kept. The child has the C locale, no standard input and its own
    session. A signal that arrives meanwhile (Ctrl-C, SIGTERM) takes effect when the child is gone.
    """
    try:
        with deferred() as interruptions, supervising(seconds):
            return _run(argv, seconds, environ, cwd, interruptions)
    except OSError as error:
        return BoundRun(failure=f"cannot be run: {error}")


def _run(
    argv: Sequence[str], seconds: float, environ: Mapping[str, str], cwd: str | None, interruptions: Interruptions
) -> BoundRun:
    """Start it, read its output, end it. Raises Interrupted if a signal arrived."""
    try:
        tree = ProcessTree(argv, environ={**environ, "LC_ALL": "C"}, cwd=cwd, cpu_seconds=seconds)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return BoundRun(failure=f"cannot be started: {error}")
    streams: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    gone = False
    try:
        failure = _collect(tree, streams, seconds, interruptions)
    finally:
        gone = tree.end()
    output = CommandResult(
        stdout=streams["stdout"].decode("utf-8", "replace"),
        stderr=streams["stderr"].decode("utf-8", "replace"),
        rc=tree.process.returncode or 0,
    )
    if not gone:
        failure = f"{failure}, and {_UNDYING}" if failure else _UNDYING
    return BoundRun(output, failure, gone)


def _collect(tree: ProcessTree, streams: dict[str, bytearray], seconds: float, interruptions: Interruptions) -> str:
    """Read both streams until the child has ended. Returns why it did not end, or ""."""
    deadline = time.monotonic() + seconds
    ended: float | None = None
    seen = 0
    with selectors.DefaultSelector() as selector:
        selector.register(interruptions, selectors.EVENT_READ)
        for name, buffer in streams.items():
            selector.register(getattr(tree.process, name), selectors.EVENT_READ, buffer)
        open_streams = len(streams)
        while True:
            now = time.monotonic()
            if ended is None and tree.has_ended:
                ended = now
            if ended is not None and (not open_streams or now - ended > CLOSING_SECONDS):
                return ""
            if ended is None and now >= deadline:
                return f"no answer within {seconds:g} s"
            if seen > FLOOD_LIMIT:
                return f"printed more than {FLOOD_LIMIT >> 20} MiB"
            ready = selector.select(min(0.05 if open_streams else 0.002, max(0.0, deadline - now)))
            interruptions.check()
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                seen += len(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
                    open_streams -= 1
                elif len(key.data) < OUTPUT_LIMIT:
                    key.data.extend(chunk[: OUTPUT_LIMIT - len(key.data)])
