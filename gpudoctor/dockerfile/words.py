"""The words of a shell text, without quotes and with operators separate, in time that grows only with its length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.dockerfile.bounds import Bounds

_QUOTED = r"""'(?P<single>[^']*)'|"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"|\\(?P<escaped>.)"""
_WORDS = re.compile(rf"""(?P<space>[ \t\r\n]+)|(?P<plain>[^ \t\r\n\\'"]+)|{_QUOTED}""", re.DOTALL)
_COMMANDS = re.compile(
    rf"""(?P<space>[ \t\r\n]+)|(?P<sign>[;&|()<>]+)|(?P<plain>[^ \t\r\n\\'";&|()<>]+)|{_QUOTED}""", re.DOTALL
)


class Sign(str):
    """Consecutive operators of a shell: "&&", ";", ">"."""

    __slots__ = ()


class Quoted(str):
    """A word with quotes: the shell does not split what its variables hold."""

    __slots__ = ()


class Token(NamedTuple):
    """A word or a sign, with its line and where it stands in the text."""

    word: str
    line: int
    start: int
    end: int


class UnclosedError(ValueError):
    """A quote that is never closed, or a backslash at the end: no shell accepts the text."""


def words(text: str, bounds: Bounds) -> list[str]:
    """The words of a text without operators. Raises UnclosedError."""
    return [token.word for token in _split(text, 1, _WORDS, bounds)]


def plain_words(text: str, bounds: Bounds) -> Iterator[Token]:
    """The words of a text without operators, each with its place. Raises UnclosedError."""
    return _split(text, 1, _WORDS, bounds)


def shell_words(text: str, line: int, bounds: Bounds) -> Iterator[Token]:
    """Words and signs of a text that begins on that line. Raises UnclosedError."""
    return _split(text, line, _COMMANDS, bounds)


def _split(text: str, line: int, pattern: re.Pattern[str], bounds: Bounds) -> Iterator[Token]:
    word: list[str] = []
    begun, quoted, at, first, position = False, False, line, 0, 0
    while position < len(text):
        found = pattern.match(text, position)
        if found is None:
            raise UnclosedError
        kind, start, position = found.lastgroup or "", position, found.end()
        if kind in ("space", "sign"):
            if begun:
                bounds.words.spend()
                yield Token(_word(word, quoted), at, first, start)
            word, begun, quoted = [], False, False
            if kind == "sign":
                yield Token(Sign(found[0]), line, start, position)
        else:
            if not begun:
                at, first, begun = line, start, True
            part = found[kind]
            quoted = quoted or kind in ("single", "double")
            word.append(re.sub(r'\\(["\\])', r"\1", part) if kind == "double" and "\\" in part else part)
        line += found[0].count("\n")
    if begun:
        bounds.words.spend()
        yield Token(_word(word, quoted), at, first, position)


def _word(parts: list[str], quoted: bool) -> str:
    return Quoted("".join(parts)) if quoted else "".join(parts)
