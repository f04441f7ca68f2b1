"""Answers counted, with 95 % intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import sqrt
from typing import Literal

from msgspec import Struct

from benchmarks.accuracy.answers import Answer
from benchmarks.accuracy.cases import HEALTHY, Case

Score = Literal["first", "among three", "later", "wrong", "not known", "silent", "false alarm"]
_THREE = 3


class Scored(Struct, frozen=True):
    case: Case
    answer: Answer
    score: Score


def score(case: Case, answer: Answer) -> Score:
    """How right an answer is. For a healthy machine: silent, or a false alarm."""
    if case.cause == HEALTHY:
        return "false alarm" if answer.alarm else "silent"
    named = {case.cause, *case.accept}
    places = [place for place, cause in enumerate(answer.causes) if cause in named]
    if places:
        return "first" if places[0] == 0 else "among three" if places[0] < _THREE else "later"
    return "wrong" if answer.alarm and answer.causes else "not known"


def interval(hits: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if not of:
        return 0.0, 1.0
    z, share = 1.959964, hits / of
    middle = share + z * z / (2 * of)
    width = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    below = 1 + z * z / of
    return max(0.0, (middle - width) / below), min(1.0, (middle + width) / below)


def share(hits: int, of: int) -> str:
    """ "31 of 42, 74 % (59 to 85)"."""
    if not of:
        return "none"
    low, high = interval(hits, of)
    return f"{hits} of {of}, {hits / of:.0%} ({low * 100:.0f} to {high * 100:.0f})".replace("%", " %")


FIGURES = ("cause first", "cause among the first three", "another cause", "not known", "false alarms")


def figures(scored: Iterable[Scored]) -> dict[str, str]:
    """The figures by their names, each with its n."""
    counts = Counter(one.score for one in scored)
    healthy = counts["silent"] + counts["false alarm"]
    faulty = sum(counts.values()) - healthy
    three = counts["first"] + counts["among three"]
    hits = (counts["first"], three, counts["wrong"] + counts["later"], counts["not known"])
    return dict(
        zip(FIGURES, (*(share(hit, faulty) for hit in hits), share(counts["false alarm"], healthy)), strict=True)
    )


def confusion(scored: Iterable[Scored]) -> Counter[tuple[str, str]]:
    """True cause and the cause that was named first, where they differ."""
    wrong = (one for one in scored if one.score in ("among three", "later", "wrong", "not known", "false alarm"))
    return Counter((one.case.cause, one.answer.causes[0] if one.answer.causes else "nothing") for one in wrong)
