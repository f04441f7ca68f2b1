"""Short texts that say that all works now: what they tell of an error is past."""

from __future__ import annotations

import re

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.machine import Told
from gpudoctor.machine.pasted_text import WORKS_NOW

_QUOTED = re.compile(r"\"[^\"\n]{3,300}\"|\u201e[^\u201c\n]{3,300}\u201c|`[^`\n]{3,300}`")
_WORKS = re.compile(
    r"(?i)\bworks? (?:now|again|perfectly|flawlessly)(?! (?:in|inside|under|for|as|from|outside)\b)"
    r"|\bnow (?:[\w.+-]+ ){0,8}?works?(?! (?:in|inside|under|for|as|from|outside)\b)"
    r"|(?:\A|[.!\n])\W{0,3}(?:(?:re)?solved|fixed)(?=\s*[:!.\])]| by\b| with\b| after\b)"
    r"|\b(?:problem|issue|error) is (?:solved|fixed|gone)\b"
)
_BUT = re.compile(
    r"(?i)\b(?:not|cannot|no longer|never|still|fails?|crash(?:es)?|hangs?|freez\w+|stuck|slow\w*|wrong|garbage|nans?"
    r"|broken|breaks?|lo(?:st|ses?)|dead|segfaults?|killed|but|however|except|only|unless|until|cpu|how|why|what|when"
    r"|if|sometimes|would|should|please|without|else|unfortunately|aber|nicht|nur|warum|wie"
    r"|re-?boot\w*|restart\w*|suspen\w*|sleep|resum\w*|every|each|while|hours?|minutes?|sudo|root|an?other)\b|n['\u2019]t\b|\?"
)
"""Words of a person who misses something all the same or asks, or whose fault comes and goes."""
_SHORT = 500
"""Characters of a text that is about one matter."""


def read_solved(lines: tuple[Line, ...], facts: Facts) -> None:
    """Nothing that the text tells of is amiss any more, if it says so and complains of nothing."""
    whole = text_of(line for line in lines if line.text).strip()
    if len(whole) > _SHORT or facts.log or any(one.what == "available" for one in facts.said):
        return
    text = _QUOTED.sub(" ", whole)
    works = _WORKS.search(text)
    if works is None or _BUT.search(text):
        return
    facts.errors, facts.unexplained = [], []
    line = next((line for line in lines if works[0].splitlines()[-1] in line.text), lines[0])
    facts.told = [Told(WORKS_NOW, line.text.strip()[:300], line.number)]
