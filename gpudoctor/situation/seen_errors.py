"""The error messages that a person saw, with the rows of the matrix that know them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.machine import Vendor
from gpudoctor.situation import Situation, answer_once

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern

_SHOWN, _AROUND = 200, 60
_QUOTES = " `\"'\u2018\u2019\u201c\u201d"
_ENDS = ".:,;?! "
"""What ends a line; a sentence goes on behind it."""


def vendor_of_messages(situation: Situation) -> Vendor | None:
    """The vendor whose GPUs the messages are about: the one that torch is built for, that of all GPUs here, or the
    one that the text names."""
    if situation.built_for:
        return situation.built_for
    vendors = {gpu.vendor for gpu in situation.machine.gpus}
    if len(vendors) == 1:
        return next(iter(vendors))
    return None if vendors else situation.machine.text.vendor


@answer_once
def seen_errors(situation: Situation) -> tuple[tuple[str, ErrorPattern | None], ...]:
    """Each message with its row; None: the matrix does not know it."""
    vendor = vendor_of_messages(situation)
    return tuple((text, situation.matrix.errors.cause_seen(text, vendor)) for text in situation.machine.errors)


def tells_a_fault(situation: Situation) -> bool:
    """Whether a message is there that is not known to be harmless."""
    return any(row is None or row.severity != "note" for _, row in seen_errors(situation))


def telling_line(text: str, situation: Situation | None = None, row: ErrorPattern | None = None) -> str:
    """The line of a text that its row matches, else its last line; of a long line the part around the match."""
    lines = [line.strip(_QUOTES) for line in text.splitlines() if line.strip(_QUOTES)] or [text.strip(_QUOTES)]
    if situation and row:
        vendor = vendor_of_messages(situation)
        lines = [line for line in lines if situation.matrix.errors.cause_seen(line, vendor) == row] or lines
    line, found = lines[-1], re.search(row.pattern, lines[-1]) if row else None
    start = 0
    if found is not None and found.end() + _AROUND >= _SHOWN:
        start = max(0, min(found.start() - _AROUND, len(line) - _SHOWN))
        start = line.find(" ", start, found.start()) + 1 or start
    shown = line[start : start + _SHOWN]
    if start + _SHOWN < len(line):
        shown = f"{shown.rpartition(' ')[0] or shown} ..."
        return f"{'... ' if start else ''}{shown}"
    return f"{'... ' if start else ''}{shown.rstrip(_ENDS)}"
