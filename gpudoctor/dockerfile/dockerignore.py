"""What a .dockerignore leaves out of the build context."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate

from gpudoctor.dockerfile.image import Read

_MOST, _LONGEST = 1_000, 200
"""Patterns of one file, and characters of one pattern, that are read."""
_Pattern = tuple[re.Pattern[str] | None, ...]
"""Its folders and its file; None for `**`."""


def without_ignored(read: Read, text: str) -> Read:
    """Files of a build context, without those that the text of its .dockerignore leaves out. Of the patterns that
    match a file, or a folder of it, the last one counts."""
    patterns = tuple(_patterns(text))

    def found(path: str) -> str | None:
        parts = posixpath.normpath(path).strip("/").split("/")
        kept = next((kept for kept, pattern in reversed(patterns) if _matches(pattern, parts)), True)
        return read(path) if kept else None

    return found


def _patterns(text: str) -> Iterator[tuple[bool, _Pattern]]:
    """Each pattern, with whether it keeps what it matches, as `!` says."""
    for line in text.removeprefix("\ufeff").splitlines()[:_MOST]:
        word = line.strip()
        if word and not line.startswith("#") and len(word) <= _LONGEST:
            parts = posixpath.normpath(word.removeprefix("!").strip()).strip("/").split("/")
            pattern = tuple(None if part == "**" else re.compile(translate(part)) for part in parts)
            yield word.startswith("!"), pattern


def _matches(pattern: _Pattern, parts: Sequence[str]) -> bool:
    """Whether a pattern matches a path, or the first parts of it."""
    ends = {0}
    for one in pattern:
        if one is None:
            ends = set(range(min(ends, default=len(parts) + 1), len(parts) + 1))
        else:
            ends = {end + 1 for end in ends if end < len(parts) and one.match(parts[end])}
    return bool(ends)
