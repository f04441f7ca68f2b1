"""Ctrl-C and SIGTERM in the midst of a smoke session: no process, no shared memory, no file stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.smoke_children import (
    GOOD,
    SHARED,
    TORCH,
    faulty,
    left_of,
    processes_with,
    shared_memory_left,
    write_kernels,
    write_torch,
)

ROOT = Path(__file__).parents[1]
PROGRAM = """
import sys
from pathlib import Path
from tests.support.smoke_children import session
print("ready", flush=True)
session(sys.argv[1], Path(sys.argv[2]), progress=lambda told: print(told, flush=True))
"""
SLOW_TORCH = "import sys, time\ntime.sleep(600)\n"
DAEMON = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
HANGING = DAEMON + SHARED + "os.write(1, b'hanging')\ntime.sleep(600)"


def interrupted(root: Path, torch: str, kernels: str, wait_for: str, number: int, delay: float = 0.0) -> int:
    """Send a session a signal `delay` seconds after it printed `wait_for`. Nothing stays; returns its status."""
    (root / "tmp").mkdir()
    environ = {**os.environ, "TMPDIR": str(root / "tmp"), "GPUDOCTOR_TEST_RUN": str(root)}
    command = [sys.executable, "-c", PROGRAM, write_torch(root, torch), str(write_kernels(root / "kernels", kernels))]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while wait_for not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(delay)
        process.send_signal(number)
        process.communicate(timeout=20)
    assert processes_with(str(root)) == []
    assert os.listdir(root / "tmp") == []
    assert shared_memory_left() == []
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("torch", "kernels", "wait_for", "delay"),
    [
        (SLOW_TORCH, GOOD, "ready", 0.3),
        (TORCH, faulty(HANGING), "name='faulty'", 0.2),
        (TORCH, faulty("re.match(r'(a+)+$', 'a' * 50 + 'b')"), "name='faulty'", 0.1),
        (TORCH, faulty("while True: os.write(1, b'x' * 65536)"), "name='faulty'", 0.1),
    ],
    ids=["import", "kernel with a daemon", "kernel that holds the GIL", "flood"],
)
def test_a_signal_ends_everything_and_takes_its_course(
    tmp_path: Path, torch: str, kernels: str, wait_for: str, delay: float, number: int
) -> None:
    assert interrupted(tmp_path, torch, kernels, wait_for, number, delay) == -number


@pytest.mark.parametrize("turn", range(6))
def test_a_signal_at_any_moment(tmp_path: Path, turn: int) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[turn % 2]
    status = interrupted(tmp_path, TORCH, faulty(SHARED + "os.abort()"), "ready", number, random.uniform(0, 0.4))
    assert status in (0, -number)


def test_children_do_not_outlive_a_gpudoctor_that_is_killed(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path), "GPUDOCTOR_TEST_RUN": str(tmp_path)}
    kernels = write_kernels(tmp_path / "kernels", faulty("re.match(r'(a+)+$', 'a' * 50 + 'b')"))
    command = [sys.executable, "-c", PROGRAM, write_torch(tmp_path), str(kernels)]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "name='faulty'" not in process.stdout.readline():
            assert process.poll() is None
        process.kill()
    assert left_of(str(tmp_path)) == []
