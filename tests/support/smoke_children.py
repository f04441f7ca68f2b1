"""Made-up torches and kernels for children of the running interpreter: what a smoke session must survive."""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpudoctor.host import LiveHost
from gpudoctor.machine import PythonEnvironment, SmokeKernel
from gpudoctor.smoke.plan import KERNELS, SmokeLevel
from gpudoctor.smoke.session import Limits, Progress, Request, SessionResult, ignore, perform
from tests.support.environments import write_venv

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TORCH = """
class version:
    cuda, hip = None, None
class cuda:
    @staticmethod
    def device_count():
        return 0
    @staticmethod
    def is_initialized():
        return False
__version__ = "2.9.1+cpu"
"""
"""A CPU build; kernels that need no tensors run with it."""

GPUS = """
import types
class version:
    cuda, hip = "12.8", None
class _C:
    @staticmethod
    def _cuda_getArchFlags():
        return "sm_80 sm_90 compute_90"
class cuda:
    @staticmethod
    def device_count():
        return 2
    @staticmethod
    def is_initialized():
        return True
    @staticmethod
    def empty_cache():
        pass
    @staticmethod
    def mem_get_info(index):
        return 70 << 30, 80 << 30
    @staticmethod
    def get_device_properties(index):
        return types.SimpleNamespace(
            name="NVIDIA H100", major=9, minor=0, total_memory=80 << 30, uuid="0000-%d" % index,
            pci_domain_id=0, pci_bus_id=index + 1, pci_device_id=0)
    @staticmethod
    def set_device(device):
        pass

    @staticmethod
    def synchronize(device=None):
        pass
__version__ = "2.9.1+cu128"
"""
"""A CUDA build that sees two GPUs."""

GOOD = """
@kernel("good", "quick")
def good(run):
    "Nothing wrong here."
    return Outcome(0.0, 1.0, measures={"pid": os.getpid()})

@kernel("good too", "quick")
def good_too(run):
    "Nothing wrong here, either."
    return Outcome(0.0, 1.0, measures={"pid": os.getpid()})
"""
_HEAD = """
import ctypes, os, re, resource, signal, subprocess, sys, threading, time
from .kernel import Outcome, kernel
"""


def write_kernels(folder: Path, text: str) -> Path:
    """A folder of kernels: ours without its kernels, and one module of `text`."""
    folder.mkdir()
    for name in ("kernel.py", "channel.py", "serve.py", "listing.py", "start_files.py"):
        (folder / name).symlink_to(KERNELS / name)
    ours = (KERNELS / "__init__.py").read_text()
    theirs = re.sub(r"^_MODULES.*?=.*?(?=\n\"\"\")", '_MODULES = ("planted",)', ours, count=1, flags=re.M | re.S)
    assert theirs != ours
    (folder / "__init__.py").write_text(theirs)
    (folder / "planted.py").write_text(_HEAD + text)
    return folder


def faulty(body: str, name: str = "faulty") -> str:
    """A kernel whose body goes wrong, between good ones."""
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    planted = f'\n@kernel("{name}", "quick")\ndef planted(run):\n    "Goes wrong."\n{lines}\n    return Outcome()\n'
    before, after = GOOD.strip().split("\n\n")
    return f"{before}\n{planted}\n{after}\n"


def write_torch(root: Path, program: str = TORCH) -> str:
    """An environment whose torch/__init__.py is `program`. Returns its interpreter."""
    package = write_venv(root / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin")) / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(program)
    return str(root / "venv/bin/python")


def session(
    interpreter: str,
    kernels: Path,
    *,
    level: SmokeLevel | None = "quick",
    request: Request | None = None,
    limits: Limits | None = None,
    progress: Progress = ignore,
    variables: Mapping[str, str] | None = None,
) -> SessionResult:
    """A session with these kernels."""
    return perform(
        LiveHost(variables),
        PythonEnvironment(interpreter=interpreter),
        request or Request(level=level),
        progress,
        kernels=kernels,
        limits=limits or Limits(importing=20, listing=5, beginning=10),
    )


def results(performed: SessionResult) -> dict[str, SmokeKernel]:
    """Results by the kernel's name."""
    assert performed.smoke is not None
    return {kernel.name: kernel for kernel in performed.smoke.kernels}


SHARED_NAME = f"gpudoctor_test_{secrets.token_hex(4)}"
SHARED = (
    "import secrets\nfrom multiprocessing import shared_memory\nname = "
    f"{SHARED_NAME!r} + secrets.token_hex(4)\n"
    "run.torch.kept = shared_memory.SharedMemory(name, create=True, size=99)\n"
)
"""A kernel's lines that make shared memory; `shared_memory_left` tells whether any is there."""


def shared_memory_left() -> list[str]:
    """Files in /dev/shm that SHARED has made."""
    return [name for name in os.listdir("/dev/shm") if SHARED_NAME in name]


def processes_with(text: str) -> list[int]:
    """Processes that have `text` in their command line, environment or working folder; this one is left out."""
    return list(_processes_with(text.encode()))


def left_of(text: str) -> list[int]:
    """The same, when those that are being killed had time to end."""
    deadline = time.monotonic() + 30
    while (left := processes_with(text)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _processes_with(text: bytes) -> Iterator[int]:
    for number in map(int, filter(str.isdigit, os.listdir("/proc"))):
        for name in ("cmdline", "environ"):
            try:
                content = Path(f"/proc/{number}/{name}").read_bytes()
            except OSError:
                continue
            if text in content and number != os.getpid():
                yield number
                break
