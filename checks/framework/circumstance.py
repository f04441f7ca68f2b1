"""What a person told around a fault, without any message of a program (GPD447)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, NotJudged
from gpudoctor.frameworks.torch.message_circumstances import INTEGRATED, tells_of
from gpudoctor.frameworks.torch.refuted_causes import is_refuted
from gpudoctor.frameworks.torch.smoke_faults import CRASH, NO_CODE
from gpudoctor.late_regex import late
from gpudoctor.machine import Told
from gpudoctor.plain_text import TO_BE_SURE, sentence
from gpudoctor.situation import Situation
from gpudoctor.situation.circumstances import fix_of, told_circumstances
from gpudoctor.situation.seen_errors import seen_errors, tells_a_fault

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ToldCircumstance

    _Complaint = tuple[ToldCircumstance, Told]


_CLAUSE = late(r"[,;]|\b(?:and|but|also)\b")
_OF_A_SEEN_GPU = (*NO_CODE, INTEGRATED, "hsa-override-wrong", "amd-gpu-hang")
"""Causes of failures that begin where torch sees the GPU, and computes on it."""
_OF_BUILDS = ("torch-cpu-only", "torch-wrong-build-or-cpu", *NO_CODE)
"""What a person guesses, and the text may know: which build torch is, and for which GPUs."""


@check("GPD447", "circumstance-told", "framework")
def circumstance_told(situation: Situation) -> Verdicts:
    """What a person tells of a fault has a likely cause.

    ## Why it matters
    Many reports hold no message of a program, only words: since it woke up, only as root, in a container after hours.

    ## How it is judged
    The matrix lists such circumstances with the cause that was confirmed most often. One counts where the same
    sentence says that a GPU is not used or lost, and where the text has no error message and no sign that a GPU was
    used. Where the person says what helped, that alone counts. Where the text has an error message, the circumstance
    ranks the causes of that message. A fault of another area of the machine, such as torch beside the driver, is told
    in addition to both.

    ## Fix safety
    That of the cause.
    """
    for row, said in _matters(situation):
        if row.slug in _OF_BUILDS and is_refuted(situation, row.slug):
            if row.slug in NO_CODE:  # it crashes all the same
                why = f"\u201c{said.text.rstrip('.')}\u201d: torch has code for the GPUs here, so that is not why"
                yield NotJudged(f"{why}. {TO_BE_SURE} {sentence(row.ask)}", matters=True)
            continue
        yield Finding(
            severity=row.severity,
            slug=row.slug,
            subject="what the text tells",
            message=f"The text says: \u201c{said.text.rstrip('.')}\u201d. It may mean: {row.meaning}. "
            f"{TO_BE_SURE} {sentence(row.ask)}",
            saw=said.text,
            confidence="possible",
            evidence=(Evidence("told", said.text, f"text, line {said.line}"),),
            fixes=(fix_of(row),),
            refs=row.refs,
            possible_causes=(row.slug,),
        )


def _matters(situation: Situation) -> Iterator[_Complaint]:
    """What is complained of, each matter once; beside a message only what is no part of its matter."""
    text = situation.machine.pasted
    if text is None:
        return
    complaints = [
        (row, said)
        for row, said in told_circumstances(situation)
        if said.complains and not (row.of_message or (text.works and row.of_torch and row.slug not in _OF_A_SEEN_GPU))
    ]
    if tells_a_fault(situation):
        found: list[_Complaint] = []
        complaints, areas = _beside_messages(situation, complaints, text.error_lines)
    else:
        # What the facts of the text bear out tells the cause of the complaint, and what helped still more so.
        exact = [one for one in complaints if one[0].where]
        exact = [one for one in exact or complaints if one[0].remedy] or exact
        found, areas = _one_of_each_line(exact or complaints), set[str]()
        if not all(row.area for row, _ in exact):  # it may have been amiss for all else that is told
            complaints = []
    areas |= {row.area for row, _ in found}
    for row, said in complaints:
        if row.area in {"", *areas} or any(_is_of_the_same_words(row, said, *one) for one in found):
            continue
        areas.add(row.area)
        found.append((row, said))
    yield from found


def _is_of_the_same_words(row: ToldCircumstance, said: Told, other: ToldCircumstance, told: Told) -> bool:
    """Whether two complaints are one sentence, and no part of it tells the one and another part the other."""
    if said.line != told.line or said.text not in told.text:
        return False
    clauses = _CLAUSE.split(said.text.lower())
    one, two = ({place for place, clause in enumerate(clauses) if _tells(each, clause)} for each in (row, other))
    return not (one - two and two - one)


def _tells(row: ToldCircumstance, clause: str) -> bool:
    return bool(row.pattern) and re.search(row.pattern, clause, re.ASCII) is not None


def _one_of_each_line(complaints: list[_Complaint]) -> list[_Complaint]:
    """The first complaint of each line, errors before warnings: the rows are in the order of what they tell."""
    by_line: dict[int, _Complaint] = {}
    for row, said in sorted(complaints, key=lambda complaint: complaint[0].severity):
        by_line.setdefault(said.line, (row, said))
    return list(by_line.values())


def _beside_messages(
    situation: Situation, complaints: list[_Complaint], lines: Collection[int]
) -> tuple[list[_Complaint], set[str]]:
    """The complaints that are about none of the messages, which stand in these lines; and the areas of those."""
    seen = [row for _, row in seen_errors(situation) if row is not None]
    slugs = {row.slug if row.slug != CRASH else row.also[0] for row in seen if row.slug != CRASH or row.also}
    apart = [
        (one, said)
        for one, said in complaints
        if said.line not in lines and not any(tells_of(one, row, (row.slug, *row.also)) for row in seen)
    ]
    return apart, {row.area for row in situation.matrix.tables.told_circumstances if row.slug in slugs}
