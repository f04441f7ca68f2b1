"""What a person tells around a fault in words of their own: "since it woke up", "only as root"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.intake.text.ranking import decided
from gpudoctor.line_search import lines_with
from gpudoctor.machine import Told

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_ABOUT_GPUS = re.compile(
    r"(?i)\b(?:[ei]?gpus?|cuda|nvidia(?:-smi)?|nvml|rocm|rocminfo|hip|graphics? cards?|amdgpu|geforce|radeon|[rg]tx)\b"
)
_COMPLAINS = re.compile(
    r"(?i)n['\u2019]t\b|\b(?:not|no longer|cannot|never|fail\w*|stop(?:s|ped)|los(?:e|es|t|ing)|errors?|br[eo]ak\w*|broken"
    r"|without|falls? ?back|fell back|cpu|issues?|problems?|bug|crash\w*|unable|missing|gone|dead|disappear\w*|unknown"
    r"|hangs?|stuck|only|have to (?:reboot|restart)|must (?:reboot|restart))\b"
)
_AROUND = 160
"""Characters beside the match in which the complaint stands."""


def read_told(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """The circumstances of the matrix that the lines tell, each once."""
    texts = [line.text for line in lines]
    lowered = "\n".join(texts).lower()
    contained = decided(facts, "container") is not None
    for row in matrix.tables.told_circumstances:
        if row.in_container and not contained:
            continue
        places = tuple(lines_with(row.signs, lowered))
        if not places or (row.unless and re.search(row.unless, lowered, re.IGNORECASE)):
            continue
        pattern = re.compile(row.pattern, re.IGNORECASE)
        told = [found for place in places if (found := _told(row.id, pattern, lines, place))]
        facts.told.extend(sorted(told, key=lambda one: not one.complains)[:1])


def _told(circumstance: str, pattern: re.Pattern[str], lines: tuple[Line, ...], place: int) -> Told | None:
    """The circumstance, if this line tells it, or this one and the next, into which a person broke the sentence."""
    line = lines[place].text
    following = lines[place + 1].text if place + 1 < len(lines) else ""
    before = lines[place - 1].text if place else ""
    for text in (line, f"{line} {following.strip()}", f"{before} {line.strip()}"):
        if found := pattern.search(text):
            around = text[max(0, found.start() - _AROUND) : found.end() + _AROUND]
            complains = bool(_ABOUT_GPUS.search(around) and _COMPLAINS.search(around))
            return Told(circumstance, text.strip().lstrip("#-* ")[:300], lines[place].number, complains)
    return None
