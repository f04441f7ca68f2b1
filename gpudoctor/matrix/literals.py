"""Texts that every match of a pattern holds: they save running fifty patterns over a hundred thousand lines."""

from __future__ import annotations

import re
from collections.abc import Iterator


def literal_part(pattern: str) -> str:
    """The longest text that every match of a regular expression holds, if it is easy to find; else ""."""
    parts = literal_parts(pattern)
    return parts[0] if len(parts) == 1 else ""


def literal_parts(pattern: str) -> tuple[str, ...]:
    """Texts of which every match of a regular expression holds one: the longest of each alternative, "" where none is
    easy to find."""
    if re.search(r"\(\?[aiLmsux-]", pattern):
        return ("",)
    alternatives = [[""]]
    for token, quantified in _tokens(pattern):
        if token == "|":
            alternatives.append([""])
        elif token is None or quantified:
            alternatives[-1].append("")
        else:
            alternatives[-1][-1] += token
    return tuple(dict.fromkeys(max(runs, key=len) for runs in alternatives))


def _tokens(pattern: str) -> Iterator[tuple[str | None, bool]]:
    """Characters outside groups and classes, None for anything else; and whether a quantifier follows."""
    place = depth = 0
    while place < len(pattern):
        unit = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL).match(pattern, place)
        part = unit[0] if unit else pattern[place]
        place += len(part)
        depth += {"(": 1, ")": -1}.get(part, 0)
        quantifier = re.compile(r"[*+?]|\{\d*,?\d*\}").match(pattern, place)
        if depth > 0 or part in ("(", ")", ".", "^", "$") or part.startswith("["):
            yield None, False
        elif part.startswith("\\"):
            yield (part[1], quantifier is not None) if not part[1].isalnum() else (None, False)
        else:
            yield part, quantifier is not None and part != "|"
        if quantifier is not None:
            place = quantifier.end()
            place += pattern.startswith(("?", "+"), place)
