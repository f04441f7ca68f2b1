"""Kernels that go wrong in every way there is: they are named, the others still pass, and nothing stays."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from gpudoctor.machine import SmokeKernel
from gpudoctor.smoke.session import Request
from tests.support.smoke_children import (
    SHARED,
    SHARED_NAME,
    faulty,
    processes_with,
    results,
    session,
    shared_memory_left,
    write_kernels,
    write_torch,
)

MARK = "GPUDOCTOR_TEST_RUN"


class Fault(NamedTuple):
    """A kernel's body, and what is to be reported of it; `signal` and `said` are empty where nothing is."""

    body: str
    status: str
    signal: str = ""
    detail: str = ""
    said: str = ""
    seconds: float = 10.0
    replaced: bool = True


FAULTS = {
    "segmentation fault": Fault("ctypes.string_at(1)", "crash", "SIGSEGV", "planted"),
    "abort with last words": Fault(
        "os.write(2, b'terminate called after throwing c10::Error\\n')\nos.abort()",
        "crash",
        "SIGABRT",
        said="terminate called after throwing c10::Error",
    ),
    "illegal instruction": Fault("os.kill(os.getpid(), signal.SIGILL)", "crash", "SIGILL"),
    "killed for lack of memory": Fault("os.kill(os.getpid(), signal.SIGKILL)", "crash", "SIGKILL", "memory"),
    "os._exit": Fault("os._exit(7)", "crash", detail="status 7"),
    "os._exit(0)": Fault("os._exit(0)", "crash", detail="status 0"),
    "sys.exit": Fault("sys.exit(3)", "error", said="SystemExit: 3", replaced=False),
    "raises": Fault("raise ValueError('no such\\nthing')", "error", said="ValueError: no such thing", replaced=False),
    "hangs": Fault("time.sleep(60)", "timeout", detail="planted in planted.py line", seconds=0.5),
    "hangs and holds the GIL": Fault(
        "re.match(r'(a+)+$', 'a' * 50 + 'b')", "timeout", detail="holds the GIL", seconds=3
    ),
    "hangs in C and holds the GIL": Fault(
        "ctypes.PyDLL(None).sleep(60)", "timeout", detail="holds the GIL", seconds=3
    ),
    "ignores signals": Fault(
        "for n in (1, 2, 10, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)", "timeout", seconds=0.5
    ),
    "memory exhausted": Fault(
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, -1))\nbytearray(1 << 40)",
        "error",
        detail="ran out of memory",
        said="MemoryError",
        replaced=False,
    ),
    "garbage on every descriptor": Fault(
        "for n in range(3, 30):\n  try: os.write(n, b'garbage ' * 20)\n  except OSError: pass\ntime.sleep(60)",
        "crash",
        detail="channel",
    ),
    "closes every descriptor": Fault("os.closerange(0, 50)\ntime.sleep(60)", "crash", detail="channel"),
    "forges a frame": Fault(
        "from .channel import frame\nfor n in range(3, 30):\n"
        "  try: os.write(n, frame({'event': 'finished', 'job': 2, 'status': [1]}))\n  except OSError: pass",
        "crash",
        detail="channel",
    ),
    "flood of output": Fault(
        "while True: os.write(1, b'x' * 65536); os.write(2, b'flood\\n' * 9999)", "timeout", seconds=1.0, said="flood"
    ),
    "stops itself": Fault("os.kill(os.getpid(), signal.SIGSTOP)", "crash", "SIGSTOP"),
    "a fork comes back": Fault("os.fork()", "pass", replaced=False),
    "leaves a thread that crashes": Fault(
        "threading.Timer(0.01, ctypes.string_at, [1]).start()\ntime.sleep(60)", "crash", "SIGSEGV"
    ),
}


def run_fault(root: Path, fault: Fault) -> dict[str, SmokeKernel]:
    kernels = write_kernels(root / "kernels", faulty(fault.body))
    request = Request(level="quick", seconds=fault.seconds)
    return results(session(write_torch(root), kernels, request=request))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_named_and_the_others_pass(tmp_path: Path, fault: Fault) -> None:
    found = run_fault(tmp_path, fault)
    faulty = found["faulty"]
    assert (faulty.status, faulty.signal) == (fault.status, fault.signal), faulty
    assert fault.detail in faulty.detail
    assert fault.said in faulty.message
    assert (found["good"].status, found["good too"].status) == ("pass", "pass"), found
    assert (found["good"].measures != found["good too"].measures) == fault.replaced


LEFT_BEHIND = {
    "a daemon in a session of its own": "if os.fork() == 0:\n  os.setsid()\n  os.fork()\n  time.sleep(600)",
    "a daemon that inherits nothing": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    ),
    "a daemon that keeps nothing but its parents": (
        "if os.fork() == 0:\n  os.setsid()\n  if os.fork(): os._exit(0)\n  os.closerange(0, 99)\n"
        f"  os.execve('/bin/sleep', [os.environ['{MARK}'], '600'], {{}})"
    ),
    "a daemon of a kernel that dies": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\nos.abort()"
    ),
    "shared memory": SHARED,
    "shared memory that no tracker knows": f"run.torch.kept = open('/dev/shm/{SHARED_NAME}', 'w')",
    "shared memory of a kernel that dies": SHARED + "os.kill(os.getpid(), signal.SIGKILL)",
    "shared memory with its number": (
        f"open('/dev/shm/torch_%d_{SHARED_NAME}' % os.getpid(), 'w').close()\nos.abort()"
    ),
    "files": "open('here', 'w').close()\nopen(os.environ['TMPDIR'] + '/x', 'w').close()",
    "a folder without rights": "os.mkdir('here')\nopen('here/x', 'w').close()\nos.chmod('here', 0)",
}


@pytest.mark.parametrize("body", LEFT_BEHIND.values(), ids=LEFT_BEHIND.keys())
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv(MARK, str(tmp_path))
    kernels = write_kernels(tmp_path / "kernels", faulty(body))
    found = results(session(write_torch(tmp_path), kernels))
    assert found["good too"].status == "pass"
    assert processes_with(str(tmp_path)) == []
    assert os.listdir(tmp_path / "tmp") == []
    assert shared_memory_left() == []
