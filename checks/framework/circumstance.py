"""What a person told around a fault, without any message of a program (GPD447)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import SEEN, Evidence, Finding, Fix, NotJudged
from gpudoctor.frameworks.named_program import builds_told
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.frameworks.torch.message_causes import NO_RIGHTS
from gpudoctor.frameworks.torch.message_circumstances import CUDA_ON_AMD, INTEGRATED, tells_of
from gpudoctor.frameworks.torch.refuted_causes import is_refuted
from gpudoctor.frameworks.torch.smoke_faults import BUSY, CRASH, NO_CODE
from gpudoctor.late_regex import late
from gpudoctor.machine import Told
from gpudoctor.plain_text import TO_BE_SURE, sentence, with_code
from gpudoctor.situation import Situation
from gpudoctor.situation.access_fixes import access_fixes
from gpudoctor.situation.circumstances import ASKS_FOR_GPU, fix_of, told_circumstances
from gpudoctor.situation.pasted_text import ONE_OF_SEVERAL
from gpudoctor.situation.seen_errors import seen_errors, tells_a_fault

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern, ToldCircumstance

    _Complaint = tuple[ToldCircumstance, Told]


_USER = "$USER"
_JOINS = late(r"(?i);|\b(?:and|but|besides|also|moreover|additionally)\b")
_OF_A_SEEN_GPU = (
    *NO_CODE, INTEGRATED, "hsa-override-wrong", "amd-gpu-hang", "rocm-runtime-bug",
    "alloc-conf-expandable-segments-rocm",
)  # fmt: skip
"""Causes of failures that begin where torch sees the GPU, and computes on it."""
_OF_BUILDS = ("torch-cpu-only", "torch-wrong-build-or-cpu", *NO_CODE)
"""Where another build of torch is the answer."""


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
        if not row.remedy and is_refuted(situation, row.slug):
            if row.slug in NO_CODE:  # it crashes all the same
                why = f"\u201c{said.text.rstrip('.')}\u201d: torch has code for the GPUs here, so that is not why"
                yield NotJudged(f"{why}. {TO_BE_SURE} {sentence(row.ask)}", matters=True)
            continue
        yield Finding(
            severity=row.severity,
            slug=row.slug,
            subject="what the text tells",
            message=f"The text suggests that {row.meaning}. {TO_BE_SURE} {sentence(with_code(row.ask))} "
            f"{SEEN} \u201c{said.text.rstrip('.')}\u201d.",
            saw=said.text,
            confidence="possible",
            evidence=(Evidence("told", said.text, f"text, line {said.line}"),),
            fixes=_of_these_nodes(situation, row)
            or builds_told(situation, row, said.text)
            or (*_named_builds(situation, row), fix_of(row, situation)),
            refs=row.refs,
            possible_causes=tuple(dict.fromkeys((row.slug, *(_OF_A_SEEN_GPU if row.last else ())))),
            fallback=row.slug == "no-driver",
        )


def _of_these_nodes(situation: Situation, row: ToldCircumstance) -> tuple[Fix, ...]:
    """What lets the user open /dev/kfd, where the text shows its rights; none for a row about another user."""
    kfd = situation.machine.amd.kfd.value
    if row.slug != NO_RIGHTS or _USER not in row.workaround or kfd is None or kfd.mode is None:
        return ()
    return access_fixes(situation, "amd", (kfd,))


def _named_builds(situation: Situation, row: ToldCircumstance) -> tuple[Fix, ...]:
    """The builds of torch that `gpudoctor recommend` would name; none where the target of a GPU is unknown, or where
    the text is about a program with libraries of its own."""
    known = bool(situation.usable) and all(gpu.arch.value for gpu in situation.usable)
    asks = row.slug in (*_OF_BUILDS, CUDA_ON_AMD) and ASKS_FOR_GPU in row.workaround
    of_torch = all(one.of_torch for one, _ in told_circumstances(situation))
    return better_torch(situation) if known and asks and of_torch else ()


def _matters(situation: Situation) -> Iterator[_Complaint]:
    """What is complained of, each matter once; beside a message only what is no part of its matter."""
    text = situation.machine.text
    complaints = [
        (row, said)
        for row, said in told_circumstances(situation)
        if said.complains
        and not (
            row.of_message or (text.works and row.of_torch and row.slug not in (*_OF_A_SEEN_GPU, ONE_OF_SEVERAL))
        )
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
        same = [one for one, other in found if said.line == other.line and said.text in other.text]
        if row.area in {"", *areas} or not all(_stands_apart(situation, row, one, said.text) for one in same):
            continue
        areas.add(row.area)
        found.append((row, said))
    yield from found


def _stands_apart(situation: Situation, row: ToldCircumstance, other: ToldCircumstance, sentence: str) -> bool:
    """Whether a sentence tells two faults, one behind the other, with a word between that joins what is equal."""
    one, another = (_place(situation, told, sentence.lower()) for told in (row, other))
    return _are_joined(one, another, sentence)


def _is_beside(situation: Situation, row: ToldCircumstance, message: ErrorPattern, sentence: str) -> bool:
    """Whether a sentence tells a fault beside the message that it quotes, if it quotes that one."""
    quoted = re.search(message.pattern, sentence)
    return quoted is None or _are_joined(_place(situation, row, sentence.lower()), quoted.span(), sentence)


def _are_joined(one: tuple[int, int] | None, other: tuple[int, int] | None, sentence: str) -> bool:
    """Whether a word that joins what is equal stands between two places of a sentence."""
    if one is None or other is None:
        return False
    end, start = min(one[1], other[1]), max(one[0], other[0])
    return any(end <= join.start() and join.end() <= start for join in _JOINS.finditer(sentence))


def _place(situation: Situation, row: ToldCircumstance, sentence: str) -> tuple[int, int] | None:
    """Where the sentence tells it: the words of its pattern, else the first of the concepts that tell it together."""
    concepts = {one.concept: one.pattern for one in situation.matrix.tables.told_concepts}
    patterns = (row.pattern, *dict.fromkeys(concepts[first] for first, *_ in row.together))
    return next((found.span() for one in patterns if one and (found := re.search(one, sentence, re.ASCII))), None)


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
        if (said.line not in lines or all(_is_beside(situation, one, row, said.text) for row in seen))
        and not any(tells_of(one, row, row.causes) for row in seen)
    ]
    areas: set[str] = {row.area for row in situation.matrix.tables.told_circumstances if row.slug in slugs}
    return apart, areas | {"access"} if BUSY in slugs else areas
