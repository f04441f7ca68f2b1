"""Machines are examined on Linux; elsewhere gpudoctor answers for a Linux machine that is described or recorded."""

from __future__ import annotations

import sys

from gpudoctor.host.input_file import InputError

_SYSTEMS = {"win32": "Windows", "cygwin": "Windows", "msys": "Windows", "darwin": "macOS"}
WORKS_ELSEWHERE = (
    "check --from FILE", "fix --from FILE", "whatif", "recommend --gpu NAME", "dockerfile", "fleet report", "explain",
)  # fmt: skip


def other_system() -> str:
    """The name of this system; "" for Linux."""
    platform: str = sys.platform
    return "" if platform.startswith("linux") else _SYSTEMS.get(platform, platform)


def require_linux() -> None:
    """Raise InputError elsewhere, with what works there."""
    system = other_system()
    if not system:
        return
    works = f"What works here: {', '.join(WORKS_ELSEWHERE)}."
    hint = " In WSL (`wsl --install`) all of gpudoctor works." if system == "Windows" else ""
    raise InputError(f"only Linux machines are examined, and this is {system}. {works}{hint}")
