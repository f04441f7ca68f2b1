"""What a person tells around a fault in words of their own: "since it woke up", "only as root"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.line_search import lines_with
from gpudoctor.machine import Told

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_ABOUT_GPUS = re.compile(
    r"(?i)\b(?:[ei]?gpus?|cuda|nvidia(?:-smi)?|nvml|rocm|rocminfo|hip|graphics? cards?|amdgpu|geforce|radeon"
    r"|[rg]tx)\b"
)
_COMPLAINS = re.compile(
    r"(?i)n['\u2019]t\b|\b(?:not|no longer|cannot|never|fail\w*|stop(?:s|ped)|los(?:e|es|t|ing)|errors?|br[eo]ak\w*"
    r"|broken|without|falls? ?back|fell back|cpu|issues?|problems?|bug|crash\w*|unable|missing|gone|dead"
    r"|disappear\w*|unknown|hangs?|stuck|only|(?:have to|must) (?:reboot|restart))\b"
)
_PRINTED = re.compile(
    r"\s*(?:(?:time=\S+ )?level=\w+ |(?:\w+\.)*\w+(?:Error|Exception|Warning): |(?:\$|#|>>>) |\[[^\]]{1,60}\] )"
)
"""What a program prints, or a person types into a shell."""
_OF_CONTAINERS = ("container", "docker", "podman", "kubernetes", " pod")
_AROUND = 160
"""Characters beside the match in which the complaint stands."""


def read_told(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """The circumstances of the matrix that the lines tell, each once."""
    texts = ["" if _PRINTED.match(line.text) else line.text for line in lines]
    lowered = "\n".join(texts).lower()
    contained = any(sign in lowered for sign in _OF_CONTAINERS)
    for row in matrix.tables.told_circumstances:
        if row.in_container and not contained:
            continue
        places = tuple(lines_with(row.signs, lowered))
        if not places or (row.unless and re.search(row.unless, lowered, re.IGNORECASE)):
            continue
        pattern = re.compile(row.pattern, re.IGNORECASE)
        told = [
            Told(row.id, text.strip().lstrip("#-* ")[:300], lines[place].number, _complains(text, found))
            for place in places
            for text, found in _told(pattern, texts, place)
        ]
        facts.told.extend(sorted(told, key=lambda one: not one.complains)[:1])


def _told(pattern: re.Pattern[str], texts: list[str], place: int) -> Iterator[tuple[str, re.Match[str]]]:
    """The sentence that tells it: this line, or this one with one beside it, in two lines as people break them."""
    line = texts[place]
    following = texts[place + 1] if place + 1 < len(texts) else ""
    before = texts[place - 1] if place else ""
    together = (line, f"{line} {following.strip()}", f"{before} {line.strip()}")
    yield from islice(((text, found) for text in together if (found := pattern.search(text))), 1)


def _complains(text: str, found: re.Match[str]) -> bool:
    around = text[max(0, found.start() - _AROUND) : found.end() + _AROUND]
    return bool(_ABOUT_GPUS.search(around) and _COMPLAINS.search(around))
