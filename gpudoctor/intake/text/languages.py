"""Sentences in other languages, or with rarer words, with the plain English words for what people tell of."""

from __future__ import annotations

import re

from gpudoctor.intake.text.lines import Line, is_of_a_journal
from gpudoctor.late_regex import late
from gpudoctor.line_search import lines_with
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows.issues import ForeignWords

_MOST_LINES = 2000
"""Lines of a text in which words are looked for."""
_LONGEST = 600
_SPACES = late(r"(?<=\S) {2,}")


def in_english(lines: tuple[Line, ...], matrix: Matrix) -> tuple[Line, ...]:
    """The lines with the English words of the matrix in the place of foreign ones; the rest of a sentence stays."""
    return _with(matrix.tables.foreign_words, lines)


def in_plain_words(lines: tuple[Line, ...], matrix: Matrix) -> tuple[Line, ...]:
    """English lines with the words that the circumstances of the matrix use: "GPU" for the name of one."""
    return _with(matrix.tables.plain_words, lines)


def _may_tell(text: str) -> bool:
    """Whether a person may have written the line."""
    return len(text) <= _LONGEST and not is_of_a_journal(text)


def _with(rows: tuple[ForeignWords, ...], lines: tuple[Line, ...]) -> tuple[Line, ...]:
    texts = [line.text if _may_tell(line.text) else "" for line in lines[:_MOST_LINES]]
    lowered = "\n".join(texts).lower()
    changed = dict[int, str]()
    for row in rows:
        changes = dict[int, str]()
        for place in lines_with(row.signs, lowered):
            after = re.sub(row.pattern, f" {row.english} ", texts[place], flags=re.IGNORECASE)
            if after != texts[place]:
                changes[place] = texts[place] = _SPACES.sub(" ", after).rstrip()
        if changes:
            changed |= changes
            lowered = "\n".join(texts).lower()  # the words of one row may be those that the next one looks for
    return tuple(Line(line.number, changed[place]) if place in changed else line for place, line in enumerate(lines))
