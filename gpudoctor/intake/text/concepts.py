"""Concepts that people name in any order in a short text: "it slept" and "no GPU" tell one circumstance together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate, islice

from msgspec import Struct

from gpudoctor.intake.text.languages import in_plain_words
from gpudoctor.intake.text.lines import Line, joined
from gpudoctor.late_regex import late
from gpudoctor.machine import Told
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows.issues import ToldCircumstance, ToldConcept

_AMISS = ("gone", "on-cpu", "crashes", "hangs", "slow", "fewer-gpus", "power-lost", "computes-wrong")
_BESIDE_A_MESSAGE = ("memory-unexplained",)
"""What is amiss, whatever message stands beside it."""
_OF_A_GPU = late(
    r"\bgpus?\b|\bcuda\b|\bcpu\b|\bcards?\b|\b(?:py)?torch\b|\btrain(?:s|ing)?\b|\binference\b|\bscript\b"
    r"|\b(?:rtx|gtx|rx) ?\d{3,4}|\bdevice_count\b|\b(?:it|tok(?:en)?s?|t)/s\b"
    r"|^\W*(?:it|this|that|nothing) (?:do|did|does|has|is|was|will|would|can|could|stop|crash|hang|fail|work|no)",
    re.ASCII,
)
_SHORT = 600
"""Characters of a text that is about one matter."""
_MOST_LINES = 20
_NEAR = 3
"""Sentences in which all concepts of a set must stand."""
_END = late(r"(?<=[.;!?])(?<!\.\.)\s+")
_CLAUSE = late(r"(?<=[.!?,;:])\s+|\s+(?=(?:and|but|while|yet|though|although)\b)")
AS_A_QUESTION = r"(?! ?not\b|n't\b| (?:it|this|that)(?: be)? (?:because|due|caused)\b)"
"""Behind the word that begins a question: neither "can not find" nor a guess at the cause, "is it because"."""
_SUPPOSED = late(
    r"^\W*(?:if(?! (?:the \w+|it) (?:was|is|has been|goes|went|comes)\b)|unless|in case|should|before|please(?! help)"
    r"|note|reminder|make sure|remove|edit|how|which|what"
    rf"|(?:is|are|can|could|does|do|will|would){AS_A_QUESTION})"
    r"\b(?!.*\b(?:i|my|we|our)\b)|\bi(?:.d| would) like to\b|\bfor sale\b|\bthinking about\b",
    re.ASCII,
)
"""A sentence that asks, supposes, advises or offers."""
_QUESTION = late(
    r"(?:^\W*|[,;:(-] ?|\b(?:so|and|but|or) )"
    r"(?:is|are|am|was|were|do|does|did|can|could|should|would|will|has|have|had|may|might|how(?! come)|what|which"
    r"|where|who|when|if|any|anyone|anybody|someone|somebody)\b[^,;]*\?\W*$",
    re.ASCII,
)
"""What a sentence asks at its end; "why" complains."""
_ASKS_FOR_CAUSE = late(
    r"\bwhat (?:could|can|might) (?:it|that|this|the \w+|be) ?(?:be|the|wrong)\b"
    r"|\bwhat(?:'s| is) (?:wrong|going on|happening)\b|\b(?:be|find|know) the (?:cause|reason)\b"
    r"|\b(?:is|are) (?:it|that|this|these|those) (?:\w+ )?(?:normal|unusual|expected)\b(?! to\b)"
    r"|\b(?:if|whether) (?:it|that|this) is (?:\w+ )?normal\b"
    r"|\bany (?:ideas?|help|advice|suggestions?|solutions?)(?=\W*$| (?:what|why|is|would|please|here)\b)"
    r"|\bplease help\b"
    r"|\bhow (?:can|do|could|should|to) (?:i |we )?(?:fix|solve|repair|resolve|debug) (?:it|this|that)\b"
    r"|\bwhat (?:can|could|should) (?:i|we|one|be) (?:do|done|try|check)"
    r"(?: (?:about (?:it|this|that)|now|next|here|else))?\W*$",
    re.ASCII,
)
"""What people ask who miss something, whatever it is."""
_ASKS_HOW = late(r"^\W*how to\b[^.!]*\?\W*$", re.I)
"""The title of somebody who wants to do what does not work: it names the program and the GPU."""
_PRINTED = late(r"^(?:error|warning|info|debug): |(?:[{}\[\]=<>|\\].*){3}|(?:\w: .*){3}|://")
"""What people do not write in a sentence."""
_LINK = late(r"https?://\S+")
_FORM_HEADING = late(r"#{2,6} |\*\*.*\*\*:?$")
"""What a form asks its reader is no advice: "What you expected"."""
_ONLY_A_FORM = late(
    r"(?:#{2,6} |\*\*)(?:[^*]*\?|(?!.*\b(?:not?|fail\w*|errors?|cpu|only)\b)(?:[\w/()-]+ ?){1,3}):?(?:\*\*)?:?", re.I
)
"""A heading that tells nothing by itself, "GPU model": it is one with the sentence below it."""
_TO_OTHERS, _OF_ONESELF = late(r"\byour?\b"), late(r"\b(?:i|my|me|mine|we|our|us)\b")
_NOT = r"(?:\b(?:not|nothing|never|none|neither|no|no longer)|n't)"
_NO_FAULT = late(rf"{_NOT} (?:[\w+.-]+ ){{0,2}}$|\bwithout (?:(?:an?|any|the|further|more) ){{0,2}}$", re.ASCII)
"""What stands before a fault that is not there."""
_NONE = late(
    rf"(?:{_NOT}|\bwithout) (?:(?:an?|any|the|my|our|in|inside|on|with|of|about|us(?:e|ed|ing)|ha(?:ve|s)|need|want"
    r"|run) ){0,3}$",
    re.ASCII,
)
"""What stands before another thing that is not there."""


class _Sentence(Struct, frozen=True):
    """A sentence as it stands in the text, and its English words in small letters in each wording; whether it is only
    the heading of a form."""

    line: Line
    worded: tuple[str, ...]
    of_form: bool


class Concepts:
    """The concepts of a short text, each with the sentences that name it."""

    def __init__(self, lines: Iterable[tuple[Line, str]], matrix: Matrix, is_aside: Callable[[str], bool]) -> None:
        """Lines, each with the English words of a person in it, if any; `is_aside`: what complains of nothing."""
        people = list(_beginning((line, _LINK.sub("", text).strip()) for line, text in lines if text))
        whole = "\n".join(text for _, text in people).lower()
        own = "\n".join(text for line, text in people if not _FORM_HEADING.match(line.text)).lower()
        explains = _TO_OTHERS.search(own) and not _OF_ONESELF.search(own)
        self._sentences = _sentences(people, matrix) if whole and not explains else ()
        self._matrix, self._is_aside = matrix, is_aside
        self._concepts = {row.concept: row for row in matrix.tables.told_concepts}
        self._named = dict[str, frozenset[int]]()
        self._places = tuple(accumulate((not one.of_form for one in self._sentences), initial=0))[:-1]

    @cached_property
    def _worded(self) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        """The wordings of each sentence that may tell something, and those that may complain of a GPU."""
        others = something_else(self._matrix)
        # What a question is about is told, too, but not that something is amiss.
        amiss = [self._complaint(one) for one in self._sentences]
        of_gpu = [tuple(without_clauses(others, _QUESTION.sub("", words)) for words in one) for one in amiss]
        pairs = zip(self._sentences, amiss, strict=True)
        return [one.worded if _ASKS_HOW.search(one.line.text) else words for one, words in pairs], of_gpu

    def _places_of(self, concept: str) -> frozenset[int]:
        """Where sentences name it. Most concepts are never asked for: the first of their set is not there."""
        if concept not in self._named:
            row = self._concepts[concept]
            told, of_gpu = self._worded
            worded = zip(self._places, of_gpu if row.of_gpu else told, strict=True)
            self._named[concept] = frozenset(place for place, one in worded if _names(row, one))
        return self._named[concept]

    def _complaint(self, sentence: _Sentence) -> tuple[str, ...]:
        """The wordings of a sentence that may be part of a complaint."""
        aside = any(
            _SUPPOSED.search(words) or _PRINTED.search(words) or self._is_aside(words) for words in sentence.worded
        )
        return () if aside else sentence.worded

    def complaint(self, harmless: bool, silent: bool) -> Line | None:
        """The first sentence that says of a GPU, or of what computes there, that it is not used or fails; `harmless`:
        no message of a fault stands in the text. Where it quotes no message at all (`silent`), who asks for a cause
        complains, too."""
        names = (*_BESIDE_A_MESSAGE, *(_AMISS if harmless else ()))
        amiss = frozenset().union(*map(self._places_of, names))
        for sentence, place in zip(self._sentences, self._places, strict=True):
            if place in amiss and any(map(_OF_A_GPU.search, sentence.worded)):
                return sentence.line
        asking = (one for one in self._sentences if any(map(_ASKS_FOR_CAUSE.search, one.worded)))
        return next((one.line for one in asking), None) if silent else None

    def told(self, row: ToldCircumstance) -> Told | None:
        """The circumstance, if sentences beside each other name all concepts of one of its sets: as few as do so."""
        last = max(self._places, default=-1)
        for size in range(1, _NEAR + 1) if row.together else ():
            for first in range(last - size + 2):
                near = frozenset(range(first, first + size))
                if any(all(self._places_of(name) & near for name in names) for names in row.together):
                    of_set = [one for one, at in zip(self._sentences, self._places, strict=True) if at in near]
                    said = [one.line for one in of_set if not one.of_form] or [one.line for one in of_set]
                    text = joined(dict.fromkeys(one.text.strip("#* ") for one in said))
                    return Told(row.id, text[:300], said[0].number, complains=True)
        return None


def _beginning(people: Iterable[tuple[Line, str]]) -> Iterator[tuple[Line, str]]:
    """The lines in which a person says what the matter is: the first of a long text."""
    length = 0
    for line, text in islice(people, _MOST_LINES):
        length += len(text)
        if length > _SHORT:
            return
        yield line, text


def something_else(matrix: Matrix) -> str:
    """The pattern of what is no GPU and may be amiss, too."""
    return next((row.pattern for row in matrix.tables.told_concepts if row.concept == "something-else"), "$^")


def without_clauses(pattern: str, words: str) -> str:
    """Words without the clauses that a pattern matches."""
    return " ".join(clause for clause in _CLAUSE.split(words) if not late(pattern).search(clause))


def _sentences(people: list[tuple[Line, str]], matrix: Matrix) -> tuple[_Sentence, ...]:
    parts = [(line, part) for line, text in people for part in _END.split(text)]
    plain = in_plain_words(tuple(Line(line.number, part) for line, part in parts), matrix)
    return tuple(
        _Sentence(
            Line(line.number, part if part in line.text else line.text.strip()),
            tuple(dict.fromkeys((part.lower(), other.text.lower()))),
            _ONLY_A_FORM.fullmatch(line.text.strip()) is not None,
        )
        for (line, part), other in zip(parts, plain, strict=True)
    )


def _names(row: ToldConcept, worded: tuple[str, ...]) -> bool:
    """Whether a sentence names the concept, in one of its wordings, and does not deny it."""
    if row.unless and any(map(late(row.unless, re.ASCII).search, worded)):
        return False
    denied = _NO_FAULT if row.of_gpu else _NONE
    return any(
        not denied.search(words[max(0, found.start() - 40) : found.start()])
        for words in worded
        for found in late(row.pattern, re.ASCII).finditer(words)
    )
