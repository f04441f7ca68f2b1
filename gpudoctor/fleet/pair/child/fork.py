"""A function in a fork of this process, with a time limit: whatever becomes of the fork is an answer."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict

Message = Dict[str, Any]
Work = Callable[[Callable[..., None], Message], None]

_TAIL_LIMIT = 1 << 14
_LINES = 5
_END_SECONDS = 2.0
"""A process that waits in a driver may not end at all."""
_SET_DEATH_SIGNAL = 1


def run_in_fork(work: Work, task: Message, seconds: float, private: tuple[int, ...] = ()) -> Message:
    """What `work(tell, task)` told, its last lines of output (`words`), and how it ended: "done", "raised", "late"
    or the number of a status or signal. The descriptors of `private` are closed in the fork."""
    told_read, told_write = os.pipe()
    said_read, said_write = os.pipe()
    parent = os.getpid()
    number = os.fork()
    if number == 0:
        try:
            for descriptor in (*private, told_read, said_read):
                os.close(descriptor)
            _become(parent, said_write)
            _work(work, task, told_write)
        finally:
            os._exit(1)
    for descriptor in (told_write, said_write):
        os.close(descriptor)
    try:
        return _follow(number, told_read, said_read, time.monotonic() + seconds)
    finally:
        for descriptor in (told_read, said_read):
            os.close(descriptor)


def last_line(error: BaseException) -> str:
    """The error as the last line of a traceback shows it, on one line."""
    text = " ".join(str(error).split())
    return (type(error).__name__ + (": " + text if text else ""))[:2000]


# --- in the fork ---


def _become(parent: int, said: int) -> None:
    """End with the parent, print to it, and leave no core file."""
    with contextlib.suppress(Exception):  # a C library without it
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, ValueError, OSError):
        pass
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (said, 1), (said, 2)):
        os.dup2(source, target)


def _work(work: Work, task: Message, told: int) -> None:
    def tell(**message: Any) -> None:
        os.write(told, (json.dumps(message) + "\n").encode())

    try:
        work(tell, task)
        tell(ended="done")
        os._exit(0)  # what torch does at exit is no part of the trial
    except BaseException as error:
        tell(ended="raised", reason=last_line(error), memory=_is_lack_of_memory(error))
        os._exit(1)


def _is_lack_of_memory(error: BaseException) -> bool:
    """Whether others hold the GPU, or its memory: that is no fault."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "busy or unavailable" in text


# --- in the parent ---


def _follow(number: int, told: int, said: int, deadline: float) -> Message:
    """Read both pipes until the fork has ended; kill it at the deadline."""
    data = {told: b"", said: b""}
    waiting = {told, said}
    status = None
    ended = 0.0
    while True:
        now = time.monotonic()
        if status is None:
            status = _status(number)
            ended = now
        if status is not None and (not waiting or now > ended + 0.2):
            break
        if status is None and now >= deadline:
            break
        for descriptor in select.select(list(waiting), [], [], 0.01 if waiting else 0.0)[0]:
            part = os.read(descriptor, 1 << 16)
            data[descriptor] = (data[descriptor] + part)[-_TAIL_LIMIT:]
            if not part:
                waiting.discard(descriptor)
        if not waiting and status is None:
            time.sleep(0.002)
    late = status is None
    if late:
        _kill(number)
    answer: Message = {"ended": "late" if late else str(status)}
    for line in data[told].splitlines():
        with contextlib.suppress(ValueError):  # cut off
            answer.update(json.loads(line))
    lines = [line.strip() for line in data[said].decode("utf-8", "replace").splitlines() if line.strip()]
    answer["words"] = "\n".join(lines[-_LINES:])
    return answer


def _status(number: int) -> Any:
    """Its exit status, negative for a signal; None while it runs."""
    collected, status = os.waitpid(number, os.WNOHANG)
    if not collected:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _kill(number: int) -> None:
    os.kill(number, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while _status(number) is None and time.monotonic() < deadline:
        time.sleep(0.005)
