"""Texts that ask which GPU to buy: what they quote, others have seen."""

from __future__ import annotations

from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.late_regex import late

_WANTS_TO_BUY = late(
    r"(?i)\b(?:of|about|considering|on|to|before I|should I|worth) (?:buy|purchas)(?:e|ing)?\b"
    r"|\b(?:which|what) (?:\w+ ){0,2}(?:gpu|(?:graphics )?card|of (?:both|them|the two)) (?:\w+ ){0,2}"
    r"(?:buy|get|take|purchase|recommend)\b"
)
_OWN = late(
    r"(?i)\b(?:I|we) (?:(?:already|now|just|still) )?(?:have|own|got|bought|get|use|run|installed|tried|see)\b"
    r"|\bI(?:'m| am) (?:getting|using|on|running)\b|\b(?:my|our) (?!friend|colleague|budget|question|use|needs?)\w+"
    r"|\bTraceback \(most recent|^\s{0,8}>>> |^[^\n]{0,60}[$#] \w"
)
"""Words of somebody who has a machine already, and what it printed."""
_SHORT = 800
"""Characters of a text that is about one matter."""


def is_about_buying(lines: tuple[Line, ...]) -> bool:
    """Whether a text asks which GPU to buy, and tells of no machine of its own."""
    whole = text_of(lines)
    return (
        len(whole) <= _SHORT
        and "?" in whole
        and _WANTS_TO_BUY.search(whole) is not None
        and _OWN.search(whole) is None
    )
