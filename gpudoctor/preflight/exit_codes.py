"""The exit codes of `gpudoctor preflight`."""

from __future__ import annotations

from gpudoctor.command_line.running import INTERNAL_FAULT, USAGE

REFUSALS = {1: 121, USAGE: 122, 3: 123, INTERNAL_FAULT: 123}
"""The exit code of a refusal in front of a command: distinct from the command's own codes."""


def status(code: int, command: tuple[str, ...]) -> int:
    """The exit code of a refusal; in front of a command, distinct from the command's own codes."""
    return REFUSALS.get(code, code) if command else code
