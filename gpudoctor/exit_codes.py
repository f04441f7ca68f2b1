"""The exit codes of all commands; docs/reference/exit-codes.md tells them to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpudoctor.finding import Verdict

FailOn = Literal["error", "warning", "never"]

USAGE, INTERNAL_FAULT, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141
_SIGNALS = 128
REFUSALS = {1: 121, USAGE: 122, 3: 123, INTERNAL_FAULT: 123}
"""What `preflight` ends with if it refuses to start a command: distinct from the command's own codes."""


def exit_code(verdict: Verdict, fail_on: FailOn) -> int:
    """What a verdict ends with."""
    if verdict == "warning":
        return 1 if fail_on == "warning" else 0
    return 0 if fail_on == "never" else {"ok": 0, "error": 1, "unknown": 3}[verdict]


def of_signal(number: int) -> int:
    """What an end by a signal gives, as in a shell."""
    return _SIGNALS + number


def of_failure(signal: int) -> int:
    """What a fix or an undo ends with that failed, or that a signal interrupted (0: none did)."""
    return of_signal(signal) if signal else 1


def of_refusal(code: int, command: tuple[str, ...]) -> int:
    """What a refusal ends with, in front of a command or without one."""
    return REFUSALS.get(code, code) if command else code
