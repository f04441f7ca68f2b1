"""Texts that were read from a machine, before a person or a shell gets them: what may not come through."""

from __future__ import annotations


def without_controls(text: str, instead: str = "?") -> str:
    """One line: no control characters, escapes, line breaks, direction overrides or invisible characters."""
    return text if text.isprintable() else "".join(char if char.isprintable() else instead for char in text)


def lines_without_controls(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(without_controls(line) for line in text.split("\n"))
