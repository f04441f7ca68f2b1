"""The error messages that a person saw, with the rows of the matrix that know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.machine import Vendor
from gpudoctor.situation import Situation, answer_once

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern


def vendor_of_messages(situation: Situation) -> Vendor | None:
    """The vendor whose GPUs the messages are about: the one that torch is built for, that of all GPUs here, or the
    one that the text names."""
    if situation.built_for:
        return situation.built_for
    vendors = {gpu.vendor for gpu in situation.machine.gpus}
    if len(vendors) == 1:
        return next(iter(vendors))
    pasted = situation.machine.pasted
    return pasted.vendor if pasted and not vendors else None


@answer_once
def seen_errors(situation: Situation) -> tuple[tuple[str, ErrorPattern | None], ...]:
    """Each message with its row; None: the matrix does not know it."""
    vendor = vendor_of_messages(situation)
    return tuple((text, situation.matrix.errors.cause_seen(text, vendor)) for text in situation.machine.errors)


def tells_a_fault(situation: Situation) -> bool:
    """Whether a message is there that is not known to be harmless."""
    return any(row is None or row.severity != "note" for _, row in seen_errors(situation))
