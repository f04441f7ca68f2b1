"""Texts that were read from a machine, before a person or a shell gets them: what may not come through."""

from __future__ import annotations

import time


def utc(seconds: float) -> str:
    """A moment as ISO 8601 has it, in UTC: "2026-11-22T10:00:00Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def without_controls(text: str, instead: str = "?") -> str:
    """One line: no control characters, escapes, line breaks, direction overrides or invisible characters."""
    return text if text.isprintable() else "".join(char if char.isprintable() else instead for char in text)


def lines_without_controls(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(without_controls(line) for line in text.split("\n"))
