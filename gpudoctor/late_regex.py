"""Regular expressions that are compiled when they are first used.

A text is read with four hundred of them. Most texts need less than half, and to compile one takes longer than to
search a page with it. One that cannot match a text, since no literal part of it stands there, is not compiled for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import Any, cast

from gpudoctor.literals import literal_parts

_WITHOUT_MATCH: dict[str, Callable[[str], object]] = {
    "search": lambda _: None,
    "match": lambda _: None,
    "fullmatch": lambda _: None,
    "findall": lambda _: [],
    "finditer": lambda _: iter(()),
    "split": lambda text: [text],
    "sub": lambda text: text,
    "subn": lambda text: (text, 0),
}
"""What each method answers for a text without a match."""
_PATIENCE, _SHORT = 16, 4000
"""Texts that are looked at for literal parts, and their length: more of them take as long as to compile."""
_LIKE_OTHERS = ("\u0130", "\u0131", "\u017f")
"""Letters that match i and s where case does not matter, and are none of these in small letters."""


class _Late:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags
        self._patience = 0 if flags & re.VERBOSE else _PATIENCE

    def __getattr__(self, name: str) -> object:
        if name not in _WITHOUT_MATCH:
            raise AttributeError(name)
        return partial(self._answer, name)

    def _answer(self, method: str, *arguments: Any, **named: Any) -> object:
        text = arguments[method in ("sub", "subn")]
        if self._may_match(text):
            return getattr(self._regex, method)(*arguments, **named)
        return _WITHOUT_MATCH[method](text)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        regex = re.compile(self.pattern, self._flags)
        vars(self).update((method, getattr(regex, method)) for method in _WITHOUT_MATCH)
        return regex

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        return literal_parts(self.pattern, folded=True)

    def _may_match(self, text: str) -> bool:
        self._patience -= 1
        if self._patience < 0 or len(text) > _SHORT or any(letter in text for letter in _LIKE_OTHERS):
            return True
        lowered = text.lower()
        return any(part in lowered for part in self._parts)


@cache
def late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Like re.compile for what is a constant; an error in the pattern shows when it is first used."""
    return cast("re.Pattern[str]", _Late(pattern, flags))
