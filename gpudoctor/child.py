"""Running another program with a time limit, a limit on its output, and nothing left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gpudoctor.machine import Fact, absent, known, unknown

if TYPE_CHECKING:
    from gpudoctor.host import CommandResult

OUTPUT_LIMIT = 1 << 20


def run_limited(
    argv: Sequence[str],
    seconds: float,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Fact[CommandResult]:
    """Run `argv`, read at most OUTPUT_LIMIT bytes of each stream, kill its whole group after `seconds`.

    The child speaks the C locale, has no standard input and its own process group.
    """
    from gpudoctor.host import CommandResult

    source = " ".join(argv[:2]) if argv[0].endswith("python") else argv[0]
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**(os.environ if environ is None else environ), "LC_ALL": "C"},
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError:
        return absent(source, "no such command")
    except (OSError, ValueError) as error:
        return unknown(f"cannot be started: {error}", source)
    streams: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    deadline = time.monotonic() + seconds
    try:
        finished = _collect(process, streams, deadline)
    finally:
        _kill_group(process)
    if not finished:
        return unknown(f"no answer within {seconds:g} s", source)
    return known(
        CommandResult(
            stdout=streams["stdout"].decode("utf-8", "replace"),
            stderr=streams["stderr"].decode("utf-8", "replace"),
            rc=process.returncode,
        ),
        source,
    )


def _collect(process: subprocess.Popen[bytes], streams: dict[str, bytearray], deadline: float) -> bool:
    """Read both streams until they close; False when time or output runs out first."""
    with selectors.DefaultSelector() as selector:
        for name, buffer in streams.items():
            selector.register(getattr(process, name), selectors.EVENT_READ, buffer)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(key.data) < OUTPUT_LIMIT:
                    key.data.extend(chunk[: OUTPUT_LIMIT - len(key.data)])
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
