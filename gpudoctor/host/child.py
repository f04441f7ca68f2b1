"""Running another program with a time limit, a limit on its output, and nothing left behind."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpudoctor.host.base import CommandResult
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
) -> Fact[CommandResult]:
    """Run `argv`, keep at most OUTPUT_LIMIT bytes of each stream, and kill it and all it started after `seconds`.

    The child speaks the C locale, has no standard input and its own session. A program that starts but does
    not end in time, or floods its output, is unknown; one that is not there is absent.
    """

    source = " ".join(argv[:2]) if argv[0].endswith("python") else argv[0]
    try:
        watch, held = os.pipe()
    except OSError as error:
        return unknown(f"cannot be started: {error}", source)
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**(os.environ if environ is None else environ), "LC_ALL": "C"},
            cwd=cwd,
            start_new_session=True,
            pass_fds=(held,),
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
        failure = _collect(process, streams, seconds)
    finally:
        _end(process, watch)
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


def _collect(process: subprocess.Popen[bytes], streams: dict[str, bytearray], seconds: float) -> str:
    """Read both streams until the child has ended. Returns why that did not happen, or nothing."""
    deadline = time.monotonic() + seconds
    ended: float | None = None
    seen = 0
    with selectors.DefaultSelector() as selector:
        for name, buffer in streams.items():
            selector.register(getattr(process, name), selectors.EVENT_READ, buffer)
        while True:
            now = time.monotonic()
            if ended is None and _has_ended(process):
                ended = now
            if ended is not None and (not selector.get_map() or now - ended > CLOSING_SECONDS):
                return ""
            if ended is None and now >= deadline:
                return f"no answer within {seconds:g} s"
            if seen > FLOOD_LIMIT:
                return f"printed more than {FLOOD_LIMIT >> 20} MiB"
            if not selector.get_map():
                time.sleep(0.002)
            for key, _ in selector.select(min(0.05, max(0.0, deadline - now))) if selector.get_map() else ():
                chunk = os.read(key.fd, 1 << 16)
                seen += len(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(key.data) < OUTPUT_LIMIT:
                    key.data.extend(chunk[: OUTPUT_LIMIT - len(key.data)])


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; not collected yet, so that its number cannot become another process's."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _end(process: subprocess.Popen[bytes], watch: int) -> None:
    """Kill the child's group and whatever left the group; collect the child.

    Every descendant has inherited the writing end of `watch`: while one lives, reading it does not end.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    for _ in range(3):
        if select.select([watch], [], [], 0.05)[0]:
            break
        for number in _holders(f"pipe:[{os.fstat(watch).st_ino}]"):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
    os.close(watch)


def _holders(pipe: str) -> list[int]:
    """Processes of this user that hold the writing end of a pipe."""
    found: list[int] = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        folder = f"/proc/{number}/fd"
        with suppress(OSError):
            for descriptor in os.listdir(folder):
                link = f"{folder}/{descriptor}"
                if os.readlink(link) == pipe and os.lstat(link).st_mode & 0o200:
                    found.append(int(number))
    return found
