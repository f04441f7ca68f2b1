"""Sentences in other languages than English, with the English words for what people tell of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.intake.text.lines import Line
from gpudoctor.line_search import lines_with

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_MOST_LINES = 2000
"""Lines of a text in which words are looked for."""
_LONGEST = 600
_SPACES = re.compile(r"(?<=\S) {2,}")


def in_english(lines: tuple[Line, ...], matrix: Matrix) -> tuple[Line, ...]:
    """The lines with the English words of the matrix in the place of foreign ones; the rest of a sentence stays."""
    texts = [line.text if len(line.text) <= _LONGEST else "" for line in lines[:_MOST_LINES]]
    lowered = "\n".join(texts).lower()
    changed = dict[int, str]()
    for row in matrix.tables.foreign_words:
        for place in lines_with(row.signs, lowered):
            before = changed.get(place, texts[place])
            after = re.sub(row.pattern, f" {row.english} ", before, flags=re.IGNORECASE)
            if after != before:
                changed[place] = after
    return tuple(
        Line(line.number, _SPACES.sub(" ", changed[place]).rstrip()) if place in changed else line
        for place, line in enumerate(lines)
    )
