"""Lines of a long text that have one of a few signs, found without a look at every line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_WORD = r"[A-Za-z_]{4,}"


class Words:
    """The words of a text, each once: a hundredth of a long one, so that most signs need no search of the whole."""

    def __init__(self, text: str) -> None:
        self._all = " ".join(set(re.findall(_WORD, text)))

    def may_hold(self, sign: str) -> bool:
        """Whether each word of a sign is part of a word of the text; if not, the text does not hold the sign."""
        return all(word in self._all for word in _words(sign))


@lru_cache(4096)
def _words(sign: str) -> tuple[str, ...]:
    return tuple(re.findall(_WORD, sign))


def lines_with(signs: Iterable[str], text: str) -> Iterator[int]:
    """Numbers of these lines, from 0, each once and in their order. Lines end at line feeds only."""
    number, last, told = 0, 0, -1
    for place in sorted(place for sign in _enough(signs) for place in _places(sign, text)):
        number += text.count("\n", last, place)
        last = place
        if number != told:
            told = number
            yield number


def _enough(signs: Iterable[str]) -> list[str]:
    """The signs without those that contain another one: a line with the longer has the shorter, too."""
    enough: list[str] = []
    for sign in sorted(set(signs), key=len):
        if not any(other in sign for other in enough):
            enough.append(sign)
    return enough


def _places(sign: str, text: str) -> Iterator[int]:
    """Where it stands first in each line; an empty sign is in every line."""
    place = text.find(sign)
    while place >= 0:
        yield place
        end = text.find("\n", place)
        place = text.find(sign, end + 1) if end >= 0 else -1
