"""Runs of the command line in a forked child: with limits, and with everything seen that it leaves."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ADDRESS_SPACE = 3 << 30
CPU_SECONDS = 20
WALL_SECONDS = 60.0
_SUBREAPER = 36


class Ended(NamedTuple):
    """How a run ended; a negative code is the signal that ended it."""

    code: int
    out: str
    err: str
    cpu: float
    """Seconds of the processor, those of its children too."""
    memory: int
    """Bytes at the peak."""
    left: int
    """Processes that were still there."""

    @property
    def said(self) -> str:
        return f"{self.out}\n{self.err}"


def warm_up() -> None:
    """Import what runs need, once; be the one to whom the orphans of every run come."""
    from click.testing import CliRunner

    from gpudoctor.cli import COMMANDS, gpudoctor
    from gpudoctor.suites import image_checks, machine_checks

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    machine_checks(), image_checks()
    for command in COMMANDS:
        CliRunner().invoke(gpudoctor, [command, "--help"])
    described = ["--gpu", "RTX 5090", "--driver", "580.95.05", "--level", "static"]
    for style in ("text", "json"):
        for words in (["recommend", *described], ["fix", "--dry-run", *described], ["check", *described]):
            CliRunner().invoke(gpudoctor, [*words, "--format", style])


def run(arguments: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Ended:
    """`gpudoctor ARGUMENTS` in a folder, with these variables and nothing of this process's own."""
    outputs = [os.memfd_create("stdout"), os.memfd_create("stderr")]
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _child(arguments, folder, variables, outputs)
        os._exit(99)
    code, used = _wait(child)
    left = _left()
    texts = [os.pread(fd, 64 << 20, 0).decode("utf-8", "replace") for fd in outputs]
    for descriptor in outputs:
        os.close(descriptor)
    return Ended(code, *texts, used.ru_utime + used.ru_stime, used.ru_maxrss << 10, left)


def _child(arguments: Sequence[str], folder: Path, variables: Mapping[str, str], outputs: Sequence[int]) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, descriptor in enumerate(outputs, start=1):
        os.dup2(descriptor, number)
    os.chdir(folder)
    for name in list(os.environ):
        del os.environ[name]
    os.environ.update({"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), **variables})
    for limit, value in ((resource.RLIMIT_AS, ADDRESS_SPACE), (resource.RLIMIT_CPU, CPU_SECONDS)):
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = ["gpudoctor", *arguments]
    from gpudoctor.__main__ import main

    code = 98
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 97
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _wait(child: int) -> tuple[int, resource.struct_rusage]:
    deadline = time.monotonic() + WALL_SECONDS
    while True:
        number, status, used = os.wait4(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status), used
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.002)


def _left() -> int:
    """End what a run has left, and count it."""
    count = 0
    for _ in range(50):
        numbers = _children()
        if not numbers:
            return count
        count = max(count, len(numbers))
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(number, 0)
    return count


def _children() -> list[int]:
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return [number for number in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_child(number)]
    return []


def _is_child(number: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{number}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1]) == os.getpid()
    return False
