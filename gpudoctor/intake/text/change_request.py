"""Texts that propose a change of a program: what they quote is what the change is about, and no complaint."""

from __future__ import annotations

import re

from gpudoctor.intake.text.lines import Line

_TITLE = re.compile(
    r"\s*#?\s*(?:fix|feat|docs?|chore|refactor|tests?|ci|perf|build|style|revert)(?:\([^)\n]{1,60}\))?!?: \S"
)
"""As people write the first line of a commit."""
_SIGNS = re.compile(
    r"(?im)^#{1,4}\s*(?:summary|test plan|testing|changes|what changed|validation|motivation)\b"
    r"|\bthis (?:pr|pull request|commit|patch)\b|^\s*(?:closes|fixes|resolves) #\d"
)
_MOST_BEFORE = 5
"""Lines before the title."""


def is_change_request(lines: tuple[Line, ...]) -> bool:
    """Whether the text is a pull request or the message of a commit."""
    if not any(_TITLE.match(line.text) for line in lines[:_MOST_BEFORE]):
        return False
    return _SIGNS.search("\n".join(line.text for line in lines)) is not None
