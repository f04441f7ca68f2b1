"""Concepts that people name in any order in a short text: "it slept" and "no GPU" tell one circumstance together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpudoctor.intake.text.languages import in_plain_words
from gpudoctor.intake.text.lines import Line
from gpudoctor.machine import Told

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import ToldCircumstance, ToldConcept

_SHORT = 600
"""Characters of a text that is about one matter."""
_MOST_LINES = 20
_NEAR = 2
"""Sentences in which all concepts of a set must stand."""
_END = re.compile(r"(?<=[.;!?])(?<!\.\.)\s+")
_NO_COMPLAINT = re.compile(
    r"^\W*(?:if|unless|in case|should|before|please|note|reminder|how|is|are|can|could|does|do|will|would|which|what)\b"
    r"(?! (?:i|my|we|our|am|is wrong|am i)\b)(?!.*\b(?:my|i|we|our)\b.*(?:n.t|\bnot|\bno)\b)"
    r"|\bi(?:.d| would) like to\b|\bfor sale\b|\bthinking about\b|\blet(?:.s| us)\b",
    re.ASCII,
)
"""A sentence that asks, supposes or advises."""
_MACHINE_SAYS = re.compile(r"(?:[{}\[\]=<>|\\\u2717].*){3}|(?:\w: .*){3}|(?<![\w.])//|://")
"""What no person writes in a sentence, or others than the one whose machine it is."""
_TO_OTHERS = re.compile(r"\byour?\b")
_OF_ONESELF = re.compile(r"\b(?:i|my|me|mine|we|our|us)\b")
_QUESTION = re.compile(r"\?\W*$")
_WHY = re.compile(r"\b(?:why|how come|what.{0,30}\bwrong|any ideas?|anybody|anyone|somebody|warum)\b")
_DENIED = re.compile(r"(?:\b(?:not|nothing|never|none|neither|no|without|no longer)|n.t) (?:[\w+.-]+ ){0,2}$", re.ASCII)
"""What stands before a thing that is not there."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as it stands in the text, and its words in small letters in each wording."""

    line: Line
    worded: tuple[str, ...]


class Concepts:
    """The concepts of a short text, each with the sentences that name it."""

    def __init__(self, lines: tuple[Line, ...], matrix: Matrix, is_aside: Callable[[str], bool]) -> None:
        """The lines are the sentences of people; `is_aside` says of one whether it complains of nothing."""
        whole = "\n".join(line.text for line in lines) if len(lines) <= _MOST_LINES else ""
        explains = _TO_OTHERS.search(whole.lower()) and not _OF_ONESELF.search(whole.lower())
        self._sentences = _sentences(lines, matrix) if len(whole) <= _SHORT and not explains else ()
        self._matrix, self._is_aside = matrix, is_aside

    @cached_property
    def _named(self) -> dict[str, frozenset[int]]:
        rows = self._matrix.tables.told_concepts
        told = [one.worded if self._tells(one) else () for one in self._sentences]
        return {row.concept: frozenset(n for n, one in enumerate(told) if _names(row, one)) for row in rows}

    def _tells(self, sentence: _Sentence) -> bool:
        for words in sentence.worded:
            if _NO_COMPLAINT.search(words) or _MACHINE_SAYS.search(words) or self._is_aside(words):
                return False
            if _QUESTION.search(words) and not _WHY.search(words):
                return False
        return True

    def told(self, row: ToldCircumstance) -> Told | None:
        """The circumstance, if two sentences beside each other name all concepts of one of its sets."""
        for names in row.together if self._sentences else ():
            for first in range(len(self._sentences)):
                near = frozenset(range(first, first + _NEAR))
                if all(self._named[name] & near for name in names):
                    said = [one.line for n, one in enumerate(self._sentences) if n in near]
                    return Told(row.id, " ".join(one.text for one in said)[:300], said[0].number, complains=True)
        return None


def _sentences(lines: tuple[Line, ...], matrix: Matrix) -> tuple[_Sentence, ...]:
    parts = tuple(Line(line.number, part.strip()) for line in lines for part in _END.split(line.text) if part.strip())
    plain = in_plain_words(parts, matrix)
    both = zip(parts, plain, strict=True)
    return tuple(_Sentence(one, tuple(dict.fromkeys((one.text.lower(), other.text.lower())))) for one, other in both)


def _names(row: ToldConcept, worded: tuple[str, ...]) -> bool:
    """Whether a sentence names the concept, in one of its wordings, and does not deny it."""
    if row.unless and any(re.search(row.unless, words, re.ASCII) for words in worded):
        return False
    return any(
        not _DENIED.search(words[max(0, found.start() - 40) : found.start()])
        for words in worded
        for found in re.finditer(row.pattern, words, re.ASCII)
    )
