"""Texts that make a regular expression go back and try again: each of its repeats pumped up, and then no match.

A pattern whose time grows faster than the text can be used to stop whoever reads texts of strangers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as codes
    from re import _parser as parser
else:
    import sre_constants as codes
    import sre_parse as parser

_MISMATCHES = ("\x01", "")
_CLASSES = {
    "CATEGORY_DIGIT": "1",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_NOT_DIGIT": "a",
}


def pumped(pattern: str, length: int) -> Iterator[str]:
    """Lines of that length: what precedes each repeat, the repeat over and over, then something that does not match;
    and each beginning of the pattern over and over."""
    tree: Any = parser.parse(pattern)
    seen = set()
    for before, unit in _repeats(tree, ""):
        for mismatch in _MISMATCHES:
            for line in (
                before + unit * (length // max(len(unit), 1)),
                (before + unit * 40 + mismatch) * (length // max(len(before) + 40 * len(unit), 1)),
                (before + unit) * (length // max(len(before) + len(unit), 1)),
            ):
                whole = line[: length - len(mismatch)] + mismatch
                if whole not in seen:
                    seen.add(whole)
                    yield whole


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Each repeat of a pattern as (a text that leads to it, one round of it)."""
    for code, value in tree:
        inner: tuple[Any, ...] = ()
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            unit = _sample(value[2])
            if unit:
                yield before, unit
            inner = (value[2],)
        elif code is codes.BRANCH:
            inner = tuple(value[1])
        elif code is codes.SUBPATTERN:
            inner = (value[3],)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            inner = (value[1],)
        for part in inner:
            yield from _repeats(part, before)
        before += _sample([(code, value)])
    if before:
        yield "", before


def _sample(tree: Any) -> str:
    """A text that a piece of a pattern matches."""
    text = ""
    for code, value in tree:
        if code is codes.LITERAL:
            text += chr(value)
        elif code in (codes.ANY, codes.NOT_LITERAL):
            text += "a"
        elif code is codes.IN:
            text += _of_class(value)
        elif code is codes.BRANCH:
            text += _sample(value[1][0])
        elif code is codes.SUBPATTERN:
            text += _sample(value[3])
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            text += _sample(value[2]) * max(value[0], 1)
    return text


def _of_class(members: Any) -> str:
    if members[0][0] is codes.NEGATE:
        return "a"
    code, value = members[0]
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.RANGE:
        return chr(value[0])
    return _CLASSES.get(str(value), "a")
