"""`gpudoctor preflight` at level driver, with driver libraries written in C: what it costs, and what ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.environments import write_venv
from tests.test_probe_driver_child import pytestmark, stubs

__all__ = ["pytestmark", "stubs"]

RULES = ("--ignore", "GPD1", "--ignore", "GPD2", "--ignore", "GPD3")


@pytest.fixture
def start(stubs: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A pre-flight whose libcuda never comes back."""
    write_venv(tmp_path / "venv")
    words = ("--level", "driver", "--python", str(tmp_path / "venv"), *RULES, "--", "echo", "started")
    with subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", "preflight", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "LD_LIBRARY_PATH": str(stubs), "STUB_CUDA": "hang"},
    ) as process:  # fmt: skip
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_the_child_that_asks_the_driver(start: subprocess.Popen[str], number: signal.Signals):
    child = _asked(start.pid)
    start.send_signal(number)
    out, err = start.communicate(timeout=10)
    assert (start.returncode, out, err) == (128 + number, "", "")
    assert not Path(f"/proc/{child}").exists()


def _asked(parent: int) -> int:
    """Number of the child once it has loaded libcuda, which hangs."""
    while True:
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            if "libcuda.so.1" in Path(f"/proc/{child}/maps").read_text():
                return int(child)
        time.sleep(0.02)
