"""Whether anybody tells in a text of what occurred to a machine: a person, the form of a report, or what a program
printed. Else what it says of faults is general, as in a manual, the notes of a release or a proposal."""

from __future__ import annotations

import re

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.late_regex import late
from gpudoctor.matrix.questions import Matrix

BY_A_PERSON = late(
    r"\bI\b(?!/)|\b(?:my|me|mine)\b|(?:^|[.!?:] )My\b|\b[Pp]lease (?:help|advise)|\b[Tt]hanks?\b"
    r"|我(?!们)|我们(?:的|遇|用|使用|公司)|请问|求助|怎么办|吗[?\uff1f]"
    r"|\b[Ww]e (?:(?:have|'ve|just) )?(?:got|get|saw|noticed|observed)\b"
    r"|\b[Oo]ur (?:\w+ ){0,2}(?:hang|crash|problem|issue|error|machine|server|node|cluster|host)s?\b",
    re.M,
)
"""Words of somebody who tells of a fault of their own."""
ASKS = late(r"(?<!What is it)\?\s*$", re.M)
_GREETS = late(
    r"\b[Aa]ny (?:help|advice|ideas?)\b|^\W*(?:Hi|Hello|Hey)\b"
    r"|\b[Hh]ere(?:'s| is| are) the (?:results?|output|logs?|error|trace)\b",
    re.M,
)
_ASKS_IN_A_HEADING = late(r"^\W*#.*\?\s*$", re.M)
"""In a list of questions that are often asked nobody asks one."""
OF_A_PROGRAM = (
    r"Traceback \(most recent call last\)|\[ {0,6}\d{1,7}\.\d{4,6}\]|.{0,12}\d\d:\d\d:\d\d[.,\s]|\+-{20,}|File \"/"
)
"""How a line begins that a program printed."""
_BY_A_PROGRAM = late(
    rf"^\s*(?:{OF_A_PROGRAM}|>>> |\(\w+ pid=\d+\)|\[?(?:ERROR|WARN|FATAL)\b|\[rank\d)"
    r"|\bcore dumped\b|\b[\w/]+\.(?:cc|cpp|cuh?|go|hip|[ch]):\d+|\blevel=(?:INFO|WARN|ERROR)\b",
    re.M,
)
"""What a program printed here."""
_IN_A_FORM = late(
    r"^\W{0,6}(?:\d\. )?(?:(?:steps |how )?to reproduce\b.{0,40}|what happened"
    r"|(?:expected|actual|current|observed) (?:behaviou?r|results?|outcome)|describe the (?:bug|issue|problem)"
    r"|(?:bug|problem|issue)(?: or feature)? (?:description|summary)|what is the (?:bug|issue|problem)|error message"
    r"|(?:relevant )?log output|your current environment)\b.{0,20}$|^\W{0,4}\[(?:bug|issue)",
    re.M | re.I,
)
"""What the forms in which people report a fault ask for."""
WISHES = late(
    r"\bplease (?:add|support)|feature (?:request|description)|\bwould (?:be (?:great|nice)|love)|\bany plans?\b"
    r"|roadmap|\b(?:maybe|perhaps) you (?:can|could) (?:also )?(?:add|support)\b"
    r"|^\W{0,5}(?:feature:|proposal:|proposed (?:solution|change)\b)"
    r"|\A\W{0,4}(?:add|support|implement|document|improve|allow)\b",
    re.ASCII | re.M,
)
"""A text, in small letters, that asks for something new tells of no fault."""
_LONGEST_SENTENCES, _LONGEST_DESCRIPTION = 300, 1000
"""Characters of a few sentences, which need not say whose machine they are about; and of the description of a machine
that the text names, or of a message that it quotes."""
_MOST_WORDS = 4
"""Words before a message that a program may have printed."""
_OF_A_LIST = late(r"\s{0,12}(?:[-*+|#<]|\d{1,2}[.)]) ?\S")
_WORD = late(r"(?<!\S)[a-z]+,?(?!\S)")


def leave_out_hearsay(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """Nothing of what a longer text tells in general: no circumstance, and no message but those that stand alone."""
    whole = text_of(lines)
    short, wish = len(whole) <= _LONGEST_DESCRIPTION, WISHES.search(whole.lower()) is not None
    own = len(whole) <= _LONGEST_SENTENCES or (short and _is_asked(whole))
    if _is_testimony(whole, facts) or (own and not wish):
        return
    proposed = {
        one.what
        for one in facts.said
        if one.what.startswith("variable ") and (wish or not short or _has_several_values(one.what, facts))
    }
    facts.said = [one for one in facts.said if one.what not in proposed]
    named = any(not gpu.vendor_only for gpu in facts.gpus) or any(one.by != "prose" for one in facts.said)
    if short and (named or facts.errors):
        return
    facts.told = []
    if short:
        return
    facts.log, facts.xids = [], []
    facts.errors = [line for line in facts.errors if _stands_alone(line, lines, matrix)]
    failed = next((line for line in lines if facts.smi and line.number == facts.smi[1]), None)
    facts.smi = facts.smi if failed and _stands_alone(failed, lines, matrix) else None


def _is_testimony(whole: str, facts: Facts) -> bool:
    answered = facts.smi is not None and not facts.smi[0].status  # else a sentence may quote its error
    if answered or facts.hsa or facts.amd_smi or facts.reports or facts.tables:
        return True
    return any(signs.search(whole) for signs in (BY_A_PERSON, _GREETS, _BY_A_PROGRAM, _IN_A_FORM))


def _has_several_values(fact: str, facts: Facts) -> bool:
    """Whether a text gives several values: each is for another machine."""
    return len({one.value for one in facts.said if one.what == fact}) > 1


def _is_asked(whole: str) -> bool:
    return ASKS.search(_ASKS_IN_A_HEADING.sub("", whole)) is not None


def _stands_alone(message: Line, lines: tuple[Line, ...], matrix: Matrix) -> bool:
    """Whether a message is not part of a sentence, of a list or of a table."""
    line = next((line.text for line in lines if line.number == message.number), message.text)
    if message.number != lines[0].number and _OF_A_LIST.match(line):
        return False
    row = matrix.errors.cause_seen(message.text, None)
    found = re.search(row.pattern, message.text) if row else None
    return found is None or len(_WORD.findall(message.text[: found.start()])) <= _MOST_WORDS
