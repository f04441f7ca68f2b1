"""Articles, manuals and guides: a reader may meet the messages that they quote, and nobody complains of them."""

from __future__ import annotations

import re

from gpudoctor.intake.text.hypothetical import is_hypothetical
from gpudoctor.intake.text.lines import Line
from gpudoctor.intake.text.testimony import ASKS, BY_A_PERSON, OF_A_PROGRAM
from gpudoctor.late_regex import late

_HEADING = late(
    r"(?:#{1,6} |={2,6} |Chapter \d{1,2}\. |\*\*)?(?:(?:step )?\d{1,2}[.):] )?(?P<words>\S.{1,70}?)[\s:=*#]*$", re.I
)
_OF_FAULTS = late(
    r"(?i)(?:symptoms?|FAQ|frequently asked questions|trouble-?shooting\b.{0,60}"
    r"|(?:common|typical|frequent|known|possible) (?:causes?|errors?|issues?|problems?|pitfalls|mistakes"
    r"|limitations)\b.{0,30}"
    r"|.{0,40}(?:常见问题|排查与解决|问题排查).{0,20})$"
)
"""Headings under which messages stand that a reader may see."""
_TITLE = late(
    r"(?i)(?:#{1,6} )?(?:(?:trouble-?shooting|frequently asked questions|FAQ)\b"
    r"|(?<=# )(?:common|typical|known) (?:errors|issues|problems|pitfalls|mistakes|limitations)$"
    r"|(?:docs?|documentation|readme(?:\.md)?)(?:\([^)\n]{1,40}\))?: \S"
    r"|(?:\[(?:notice|psa|announcement)\]|(?:notice|psa|announcement):) |.{0,6}解决(?:方案|办法|方法)[:\uff1a ])"
)
"""Of a chapter, of a change of one, or of an announcement."""
_ASKED, _ANSWERED = late(r"\W{0,4}Q(?:uestion)?\d{0,2}[:.)]\W"), late(r"\W{0,4}A(?:nswer)?\d{0,2}[:.)]\W")
"""Lines of a list of questions with their answers."""
_OF_A_RELEASE = late(
    r"(?i)^#{1,4} \W{0,3}(?:fixed|changed|added|removed|deprecated|bug ?-?fixes|breaking changes"
    r"|new features|improvements"
    r"|what's (?:new|changed)|release notes|highlights)\W*$"
)
"""Headings of the notes of a release."""
_WORKFLOW = (late(r"(?:name|on):(?: |$)"), late(r"jobs:$"), late(r"runs-on: \S|steps:$"))
"""How a workflow of a forge begins, and what it has."""
_SYMPTOM = late(r"(?i)symptoms?$")
_OF_ADVICE = late(
    r"(?i)(?:introduction|overview|pre-?requisites|requirements|conclusion|quick ?start|getting started|usage"
    r"|table of contents|install(?:ation|ing)?\b.{0,40}|(?:quick )?verif(?:ication|y\b.{0,40})|change ?log|see also"
    r"|further reading|step[- ]by[- ]step\b.{0,20}|(?:the )?(?:fix|solution|resolution|prevention)(?:es|s)?"
    r"|how to\b.{0,40}|best practices|.{3,40} (?:notes|guide|manual|wiki)|what (?:it is|is it\??|is this\??)"
    r"|why (?:it matters|it's needed)\b.{0,20}|(?:引言|前言|概述|简介|总结|目录)\b.{0,40}|第.部分.{0,40})$"
)
"""Headings under which a reader is told what to do."""
_TO_THE_READER = late(r"(?i)\byou'?(?:re|ll|ve)?\b|\byour\b|您|用户")
_ANNOUNCES = late(
    r"(?i)\b(?:this (?:article|guide|tutorial|page|chapter|text)|a deep dive)\b.{0,20}\b(?:covers?|explains?"
    r"|explores?|provides?|discuss(?:es)?|walks?|into)\b|^Scope: |本文(?:旨在|将|介绍|主要|深入)|^第[三四五六]步"
)
"""What an article says of itself."""
_IMPERATIVE = late(
    r"^(?:[-*\u2022] |\d{1,2}[.)] )?(?:Install|Run|Use|Set|Check|Enable|Disable|Add|Remove|Open|Start|Make sure"
    r"|Verify|Download|Update|Upgrade|Reboot|Restart|Configure|Create|Copy|Replace|Build|Put|Sign|Enroll?|Register"
    r"|Do not|Don.t|Never) |^第.步"
)
_OF_A_REPORT = late(
    r"(?i)\b(?:to reproduce|reproduc(?:tion|er|ing)|(?:expected|actual|current) (?:behaviou?r|result|outcome)"
    r"|describe the bug|(?:bug|problem|issue) description|what happened|log output|issue type|error message"
    r"|additional (?:context|information)|your (?:current )?environment|versions?|environment|logs?"
    r"|operating systems?)$"
)
"""Headings of the forms in which people report a fault."""
_PRINTED = late(rf"(?m)^\s*(?:{OF_A_PROGRAM})")
"""What a program printed here."""
_MOST_LINES = 400
_SIGNS_NEEDED, _LINES_NEEDED = 2, 2


def is_manual(lines: tuple[Line, ...]) -> bool:
    """Whether a text tells readers what to do, and nobody in it tells of a fault of their own."""
    texts = [line.text.strip() for line in lines[:_MOST_LINES] if line.text.strip()]
    if texts and _WORKFLOW[0].match(texts[0]) and all(any(map(kind.match, texts)) for kind in _WORKFLOW):
        return True
    if all(sum(kind.match(text) is not None for text in texts) >= _LINES_NEEDED for kind in (_ASKED, _ANSWERED)):
        return True
    headings = [match["words"] for match in map(_HEADING.match, texts) if match]
    faults, advice = (any(map(kind.match, headings)) for kind in (_OF_FAULTS, _OF_ADVICE))
    to_reader = _has_several(_TO_THE_READER, texts)
    catalogue = sum(_SYMPTOM.match(heading) is not None for heading in headings) >= _LINES_NEEDED  # of several faults
    announces = any(map(_ANNOUNCES.search, texts))
    released = _has_several(_OF_A_RELEASE, texts)
    signs = (faults, catalogue, advice, announces, to_reader, _has_several(_IMPERATIVE, texts))
    supposes = any(map(is_hypothetical, texts[1:2]))
    if not (_has_title(texts) or supposes or released) and (
        sum(signs) < _SIGNS_NEEDED or not (faults or announces or to_reader)
    ):  # steps alone tell how to reproduce a fault
        return False
    whole = "\n".join(texts)
    forms = headings[1:] if texts[0].startswith("# ") else headings  # a title may end in any word
    return not (
        any(map(_OF_A_REPORT.search, forms)) or any(signs.search(whole) for signs in (BY_A_PERSON, ASKS, _PRINTED))
    )


def _has_title(texts: list[str]) -> bool:
    """Whether the first line is the title of such a chapter."""
    return bool(texts) and _TITLE.match(texts[0]) is not None


def _has_several(words: re.Pattern[str], texts: list[str]) -> bool:
    return sum(words.search(text) is not None for text in texts) >= _LINES_NEEDED
