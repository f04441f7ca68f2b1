"""The way on which a child answers: what a library prints goes to standard error.

One JSON object a line. {"doing": step} before a step that may never return; {"missing": api, "why": text}.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHANNEL = os.dup(1)
os.dup2(2, 1)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def say(**line: Any) -> None:
    """Write one line to the channel."""
    os.write(_CHANNEL, (json.dumps(line) + "\n").encode())


def load(api: str, name: str) -> Any:
    """The library as the loader finds it; None, with a report, if it cannot be opened."""
    say(doing=f"loading {name}")
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        say(missing=api, why=str(error)[:500])
        return None


def mapped(name: str) -> str:
    """Path of the file that a loaded library came from."""
    try:
        with open("/proc/self/maps", errors="replace") as maps:
            return next((line.split(None, 5)[5].strip() for line in maps if "/" + name in line), name)
    except (OSError, IndexError):
        return name
