"""Ending a child and everything that it started, also what has left its process group."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; not collected yet, so that its number cannot become another process's."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def end_all(process: subprocess.Popen[bytes], watch: int, seconds: float = 1.0) -> bool:
    """Kill the child's group and whatever left the group; collect the child. Closes `watch`.

    Every descendant has inherited the writing end of the pipe `watch`: while one lives, reading it does not
    end. False where the child itself did not end within `seconds`: it waits in the kernel.
    """
    kill_group(process.pid)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    pipe = f"pipe:[{os.fstat(watch).st_ino}]"
    for _ in range(3):
        if select.select([watch], [], [], 0.05)[0]:
            break
        for number in holders(pipe):
            kill(number)
    os.close(watch)
    return process.returncode is not None


def kill_group(number: int) -> None:
    """SIGKILL to a process group, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)


def kill(number: int) -> None:
    """SIGKILL to one process, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(number, signal.SIGKILL)


def holders(pipe: str) -> list[int]:
    """Processes of this user that hold the writing end of a pipe ("pipe:[1234]")."""
    found: list[int] = []
    for number in process_numbers():
        folder = f"/proc/{number}/fd"
        with suppress(OSError):
            for descriptor in os.listdir(folder):
                link = f"{folder}/{descriptor}"
                if os.readlink(link) == pipe and os.lstat(link).st_mode & 0o200:
                    found.append(number)
                    break
    return found


def marked(variable: str) -> list[int]:
    """Processes of this user that were started with `variable` ("NAME=value") in their environment.

    Finds what closed every descriptor that it inherited, as Python's subprocess does.
    """
    found: list[int] = []
    wanted = os.fsencode(variable)
    for number in process_numbers():
        with suppress(OSError), open(f"/proc/{number}/environ", "rb") as environ:
            if wanted in environ.read().split(b"\0"):
                found.append(number)
    return found


def process_numbers() -> Iterator[int]:
    """Every process that /proc shows, but this one."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
