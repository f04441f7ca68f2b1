"""Variables that a sitecustomize.py, a usercustomize.py or a .pth file changed when this Python started."""

from __future__ import annotations

import os
import sys
from typing import Any, Iterator

_PREFIXES = ("CUDA_", "GPU_", "HIP_", "HSA_", "NCCL_", "PYTORCH_", "RCCL_", "ROCR_", "TORCH_")
_MOST = 50
_LONGEST = 4000


def changed_variables() -> list[dict[str, Any]]:
    """What differs from the environment that this process was started with; `value` is None for a deleted one."""
    before = _at_start()
    if before is None:
        return []
    names = sorted({*before, *os.environ})
    changed = [name for name in names if name.startswith(_PREFIXES) and before.get(name) != os.environ.get(name)]
    return [
        {
            "name": name,
            "value": os.environ.get(name, "")[:_LONGEST] if name in os.environ else None,
            "file": _file(name),
        }
        for name in changed[:_MOST]
    ]


def _at_start() -> dict[str, str] | None:
    try:
        with open("/proc/self/environ", "rb") as block:
            entries = block.read().split(b"\0")
    except OSError:
        return None
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def _file(name: str) -> str:
    """The file that names the variable, of those that Python runs when it starts."""
    files = list(_start_files())
    return next((file for file in files if name in _text(file)), files[0] if files else "")


def _start_files() -> Iterator[str]:
    for module in ("sitecustomize", "usercustomize"):
        file = getattr(sys.modules.get(module), "__file__", None)
        if file:
            yield str(file)
    for folder in sys.path:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith(".pth"):
                yield os.path.join(folder, name)


def _text(file: str) -> str:
    try:
        with open(file, "rb") as content:
            return content.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""
