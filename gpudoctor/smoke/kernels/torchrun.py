"""One run of torchrun on this machine: a worker per device, and a time limit.

Each worker's progress is read from the file that it writes, its last output from its own log.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

_LAUNCHER = """
import ctypes, runpy
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: it ends with the process that started it
runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
"""
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
_OTHER_JOBS = ("PET_", "TORCHELASTIC_")
"""Variables of torchrun's own options and of a job around this one: they would change this run."""
_GRACE_SECONDS = 10.0


class Worker(NamedTuple):
    """The progress of one worker."""

    rank: int
    stage: str
    """What it last reported to do; "done" at the end."""
    result: dict[str, Any]
    error: str
    """What it raised, or how it ended, with its last output."""


class Launch(NamedTuple):
    """The result of a torchrun."""

    workers: tuple[Worker, ...]
    timed_out: bool
    seconds: float
    last_words: str
    """Last line that torchrun itself wrote."""

    @property
    def done(self) -> bool:
        """Whether every worker finished."""
        return all(worker.stage == "done" for worker in self.workers)


def launch(script: str, arguments: list[str], workers: int, seconds: float, variables: dict[str, str]) -> Launch:
    """Run a script in `workers` processes. It gets a folder for `rank-N.json` and `rank-N.log`, then `arguments`."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpudoctor-torchrun-") as folder:
        log = os.path.join(folder, "torchrun.log")
        # A numeric address: a container's own host name may not resolve.
        process = _start(
            [
                *(sys.executable, "-c", _LAUNCHER, "--nnodes=1", "--node_rank=0", f"--nproc_per_node={workers}"),
                *("--master_addr=127.0.0.1", f"--master_port={_free_port()}"),
                *(script, folder, *arguments),
            ],
            log,
            {**variables, "TMPDIR": folder},
        )
        try:
            process.wait(timeout=seconds)
            timed_out = False
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end(process)
        text = _read(log)
        codes = {int(rank): int(code) for code, rank in re.findall(r"\(exitcode: (-?\d+)\) local_rank: (\d+)", text)}
        heard = tuple(_worker(folder, rank, None if timed_out else codes.get(rank)) for rank in range(workers))
    return Launch(heard, timed_out, time.monotonic() - start, _last_line(text))


def starts() -> bool:
    """Whether this torch's torchrun starts at all: under Python 3.11 torch 1.13's does not read its own defaults."""
    api = importlib.import_module("torch.distributed.elastic.multiprocessing.api")
    return api.Std.from_str("0") is not None


def _start(command: list[str], log: str, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHER_JOBS)}
    with open(log, "wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**_LOOPBACK, **inherited, **variables},
        )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# --- results of the workers -----------------------------------------------------------------------


def _worker(folder: str, rank: int, code: int | None) -> Worker:
    try:
        record = json.loads(_read(os.path.join(folder, f"rank-{rank}.json")) or "{}")
    except ValueError:
        record = {}
    stage, error = str(record.get("stage", "start")), str(record.get("error", ""))
    if code and not error:
        words = _last_line(_read(os.path.join(folder, f"rank-{rank}.log")))
        error = (f"ended by {_signal_name(-code)}" if code < 0 else f"exited with status {code}") + (
            f": {words}" if words else ""
        )
    return Worker(rank, stage, record.get("result", {}), error)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read()[-65536:].decode("utf-8", "replace")
    except OSError:
        return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


# --- leaving nothing behind ------------------------------------------------------------------------


def _end(process: subprocess.Popen[bytes]) -> None:
    """End torchrun and its workers. They have sessions of their own, so no process group holds them all."""
    if process.poll() is not None:
        return
    for worker in _descendants(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    try:
        process.wait(timeout=_GRACE_SECONDS)  # it collects its workers
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            after_name = _read(f"/proc/{name}/stat").rpartition(")")[2].split()
            if after_name:
                children.setdefault(int(after_name[1]), []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]
