"""Texts that propose a change of a program: what they quote is what the change is about, and no complaint."""

from __future__ import annotations

import re

from gpudoctor.intake.text.lines import Line

_TITLE = re.compile(
    r"\s*#?\s*(?:(?:fix|feat|docs?|chore|refactor|tests?|ci|perf|build|style|revert)(?:\([^)\n]{1,60}\))?!?: \S"
    r"|(?:[Aa]dd|[Dd]ocument|[Ee]xplain|[Mm]ention|[Uu]pdate|[Ii]mprove)\b.{0,60}\b(?:note|section|docs?|documentation|troubleshooting"
    r"|readme|FAQ)\b)"
)
"""As people write the first line of a commit."""
_SIGNS = re.compile(
    r"(?im)^#{1,4} {0,3}(?:summary|test plan|testing|changes|what changed|validation|motivation|related issue)\b"
    r"|\bthis (?:pr|pull request|commit|patch)\b|^(?:closes|fixes|resolves):? #\d"
    r"|\b(?:before|after) this pr\b|contributor licen[cs]e agreement|^pull request #\d"
    r"|\badr-\d{3,4}\b|^#{0,4} {0,3}(?:decision|consequences|considered (?:options|alternatives))$"
    r"|^(?:this|it) (?:adds|fixes|changes|removes|implements|introduces|moves)\b|(?-i:^Adds\b)"
    r"|\bthis implementation\b"
)
_MOST_BEFORE = 5
"""Lines before the title."""
_MOST_LINES = 200
"""Lines in which a change is described."""
_ENOUGH = 2
"""Signs that need no title."""


def is_change_request(lines: tuple[Line, ...]) -> bool:
    """Whether the text is a pull request, the message of a commit, or the record of a decision."""
    signs = {sign[0].lower() for sign in _SIGNS.finditer("\n".join(line.text for line in lines[:_MOST_LINES]))}
    return len(signs) >= _ENOUGH or (bool(signs) and any(_TITLE.match(line.text) for line in lines[:_MOST_BEFORE]))
