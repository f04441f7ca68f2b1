"""Texts of which every match of a regular expression holds one: where none of them stands, it need not be searched
for, and mostly not even compiled."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<text>[^\\()\[|.^$*+?{]+(?![*+?{]))"
    r"|\\(?:(?P<escaped>[^\w\s])(?![*+?{])|(?P<edge>[bB])|.)"
    r"|(?P<next>\|)"
    r"|(?P<end>\))(?P<optional>[*?]|\{0*(?:,\d*)?\})?"
    r"|(?P<begin>\((?!\?)|\(\?(?:P<\w+>|<?=|[:>]|[aiLmsux-]+:))"
    r"|\(\?[aiLmsux]+\)|(?P<void>\()"
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|.",
    re.DOTALL,
)
_IN_ANY_CASE, _SPACED = r"\(\?[aiLmsux-]", r"\(\?[aiLmsu]*x"
_NOT_ASCII = r"[^\0-\x7f]+"
_NONE: tuple[str, ...] = ("",)
_TELLING = 3
"""Letters of a text that is better than several of which one must stand there."""


def literal_part(pattern: str) -> str:
    """The text that every match of a regular expression holds, if it is easy to find; else ""."""
    parts = literal_parts(pattern)
    return parts[0] if len(parts) == 1 else ""


def literal_parts(pattern: str, *, folded: bool = False) -> tuple[str, ...]:
    """Texts of which every match of a regular expression holds one; ("",) where they are not easy to find. `folded`:
    ASCII in small letters, and every match holds one if it is written in small letters, too."""
    if re.search(_SPACED if folded else _IN_ANY_CASE, pattern):
        return _NONE
    parts = _parts(pattern)
    if folded:
        parts = tuple(part if part.isascii() else max(re.split(_NOT_ASCII, part), key=len) for part in parts)
        parts = tuple(map(str.lower, parts))
    return _NONE if "" in parts else parts


def _parts(pattern: str) -> tuple[str, ...]:
    around: list[tuple[tuple[str, ...], int, list[str], bool]] = []
    best, shortest, alternatives, void = _NONE, 0, list[str](), False
    run = ""
    for token in _TOKEN.finditer(pattern + "|"):
        kind = token.lastgroup
        if kind == "text":
            run += token[0]
            continue
        if kind == "escaped":
            run += token[0][1]
            continue
        if kind == "edge":
            continue
        if len(run) > shortest or (len(best) > 1 and len(run) >= _TELLING):
            best, shortest = (run,), len(run)
        run = ""
        if kind in ("begin", "void"):
            around.append((best, shortest, alternatives, void))
            best, shortest, alternatives, void = _NONE, 0, [], kind == "void"
        elif kind is not None:
            alternatives += best
            best, shortest = _NONE, 0
            if kind != "next":
                found, needless = alternatives, void or kind == "optional"
                if not around:
                    return _NONE
                best, shortest, alternatives, void = around.pop()
                least = 0 if needless or shortest >= _TELLING else min(map(len, found))
                if least > shortest:
                    best, shortest = tuple(dict.fromkeys(found)), least
    return _NONE if around else tuple(dict.fromkeys(alternatives))
