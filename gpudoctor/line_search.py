"""Lines of a long text that have one of a few signs, found without a look at every line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def lines_with(signs: Iterable[str], text: str) -> Iterator[int]:
    """Numbers of these lines, from 0, each once and in their order. Lines end at line feeds only."""
    number, last, told = 0, 0, -1
    for place in sorted(place for sign in signs for place in _places(sign, text)):
        number += text.count("\n", last, place)
        last = place
        if number != told:
            told = number
            yield number


def _places(sign: str, text: str) -> Iterator[int]:
    """Where it stands first in each line; an empty sign is in every line."""
    place = text.find(sign)
    while place >= 0:
        yield place
        end = text.find("\n", place)
        place = text.find(sign, end + 1) if end >= 0 else -1
