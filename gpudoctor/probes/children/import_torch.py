"""Imports torch in the examined interpreter and writes what happened to the file named by argv[1].

Run with `python -c`. Standard library and torch only; Python 3.8 and newer. No CUDA context is made.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any


def write(path: str, frame: dict[str, Any]) -> None:
    """Replace the file at once: a reader sees the old frame or the new one."""
    with open(path + ".part", "w") as handle:
        json.dump(frame, handle)
    os.replace(path + ".part", path)


def last_line(error: BaseException) -> str:
    """The error as the last line of a traceback names it."""
    text = " ".join(str(error).split())
    return type(error).__name__ + (": " + text if text else "")


def describe(torch: Any) -> dict[str, Any]:
    """Versions and architectures that torch names without touching a GPU."""
    version = getattr(torch, "version", None)
    frame: dict[str, Any] = {"version": str(getattr(torch, "__version__", ""))}
    frame["cuda"] = str(getattr(version, "cuda", None) or "")
    frame["hip"] = str(getattr(version, "hip", None) or "")
    try:
        frame["arch_list"] = (torch._C._cuda_getArchFlags() or "").split()
    except Exception:
        frame["arch_list"] = []
    return frame


def main(path: str) -> None:
    """Write a frame before each step that may not come back."""
    start = time.monotonic()
    write(path, {"step": "import"})
    try:
        torch = importlib.import_module("torch")
    except BaseException as error:
        write(path, {"step": "raised", "error": last_line(error)[:2000], "seconds": time.monotonic() - start})
        return
    if not hasattr(torch, "__version__"):
        what = (
            "what is imported as torch is an empty folder" if getattr(torch, "__file__", None) is None else "no torch"
        )
        write(path, {"step": "raised", "error": "ImportError: " + what, "seconds": time.monotonic() - start})
        return
    frame = describe(torch)
    frame["seconds"] = time.monotonic() - start
    frame["step"] = "imported"
    write(path, frame)
    try:
        frame["device_count"] = int(torch.cuda.device_count())
    except Exception as error:
        frame["device_error"] = last_line(error)[:500]
    frame["step"] = "counted"
    write(path, frame)


try:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves no core file behind
except (ImportError, ValueError, OSError):
    pass
main(sys.argv[1])
sys.stdout.flush()
os._exit(0)  # what torch does at exit is no part of the trial
