"""Running another program with a time limit, a limit on its output, and nothing left behind."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence

from gpudoctor.host.base import CommandResult
from gpudoctor.host.interrupts import Interruptions, deferred
from gpudoctor.host.processes import end_all, has_ended
from gpudoctor.machine import Fact, absent, known, unknown

OUTPUT_LIMIT = 1 << 20
FLOOD_LIMIT = 64 * OUTPUT_LIMIT
CLOSING_SECONDS = 0.2
"""How long output may stay open after the child itself has ended (a daemon it left behind holds it)."""


def run_limited(
    argv: Sequence[str],
    seconds: float,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    pass_fds: tuple[int, ...] = (),
) -> Fact[CommandResult]:
    """Run `argv`, keep at most OUTPUT_LIMIT bytes of each stream, and kill it and all it started after `seconds`.

    The child speaks the C locale, has no standard input and its own session. A program that starts but does
    not end in time, or floods its output, is unknown; one that is not there is absent. A signal that comes
    meanwhile (Ctrl-C, SIGTERM) takes its course when the child is gone.
    """
    source = " ".join(argv[:2]) if argv[0].endswith("python") else argv[0]
    try:
        with deferred() as interruptions:
            return _run(argv, source, seconds, environ, cwd, pass_fds, interruptions)
    except OSError as error:
        return unknown(f"cannot be run: {error}", source)


def _run(
    argv: Sequence[str],
    source: str,
    seconds: float,
    environ: Mapping[str, str] | None,
    cwd: str | None,
    pass_fds: tuple[int, ...],
    interruptions: Interruptions,
) -> Fact[CommandResult]:
    """Start it, read what it prints, end it. Raises Interrupted where a signal came."""
    watch, held = os.pipe()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**(os.environ if environ is None else environ), "LC_ALL": "C"},
            cwd=cwd,
            start_new_session=True,
            pass_fds=(held, *pass_fds),
        )
    except FileNotFoundError as error:
        os.close(watch)
        return absent(source, "no such command") if error.filename != cwd else unknown(f"no folder {cwd}", source)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.close(watch)
        return unknown(f"cannot be started: {error}", source)
    finally:
        os.close(held)
    streams: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        failure = _collect(process, streams, seconds, interruptions)
    finally:
        end_all(process, watch)
    if failure:
        return unknown(failure, source)
    return known(
        CommandResult(
            stdout=streams["stdout"].decode("utf-8", "replace"),
            stderr=streams["stderr"].decode("utf-8", "replace"),
            rc=process.returncode,
        ),
        source,
    )


def _collect(
    process: subprocess.Popen[bytes], streams: dict[str, bytearray], seconds: float, interruptions: Interruptions
) -> str:
    """Read both streams until the child has ended. Returns why that did not happen, or nothing."""
    deadline = time.monotonic() + seconds
    ended: float | None = None
    seen = 0
    with selectors.DefaultSelector() as selector:
        selector.register(interruptions, selectors.EVENT_READ)
        for name, buffer in streams.items():
            selector.register(getattr(process, name), selectors.EVENT_READ, buffer)
        open_streams = len(streams)
        while True:
            now = time.monotonic()
            if ended is None and has_ended(process):
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
