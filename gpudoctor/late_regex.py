"""Regular expressions that are compiled when they are first used.

A text is read with four hundred of them. Most texts need less than half, and to compile one takes longer than to
search a page with it.
"""

from __future__ import annotations

import re
from typing import cast

_METHODS = ("search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn")


class _Late:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        if name not in _METHODS:
            raise AttributeError(name)
        regex = re.compile(self.pattern, self._flags)
        vars(self).update((method, getattr(regex, method)) for method in _METHODS)
        return getattr(self, name)


def late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Like re.compile for what is a constant; an error in the pattern shows when it is first used."""
    return cast("re.Pattern[str]", _Late(pattern, flags))
