"""What a person told around a fault, with its rows in the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import Told
from gpudoctor.matrix.errors import vendor_named
from gpudoctor.plain_text import for_vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import WITHOUT_GPU, ask_for_gpus
from gpudoctor.situation.seen_errors import vendor_of_messages

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ToldCircumstance


ASKS_FOR_GPU = "recommend --gpu NAME"
"""In the words of a row: the person has to put in the GPU, which the text may name."""


def told_circumstances(situation: Situation) -> tuple[tuple[ToldCircumstance, Told], ...]:
    """The circumstances that a pasted text tells and that concern the GPUs it is about."""
    told = situation.machine.text.told
    if not told:
        return ()
    rows = {row.id: row for row in situation.matrix.tables.told_circumstances}
    known = ((rows[one.circumstance], one) for one in told if one.circumstance in rows)
    return tuple((row, one) for row, one in known if row.vendor == "any" or _concerned(situation, row, one))


def circumstance(situation: Situation, id: str) -> ToldCircumstance | None:
    """The row of a circumstance that files tell, too; None if an overlay of the matrix left it out."""
    return next((row for row in situation.matrix.tables.told_circumstances if row.id == id), None)


def _concerned(situation: Situation, row: ToldCircumstance, said: Told) -> bool:
    """Whether the circumstance concerns the GPUs of the row's vendor: those that the text names, else those that its
    words are about. Most people who name neither have an NVIDIA GPU."""
    vendors = {gpu.vendor for gpu in situation.machine.gpus}
    if situation.built_for:
        vendors.add(situation.built_for)
    return row.vendor in (vendors or {situation.machine.text.vendor or vendor_named(said.text) or "nvidia"})


def fix_of(row: ToldCircumstance, situation: Situation) -> Fix:
    """What helps most often."""
    job = situation.machine.system.job.value
    if row.slug == WITHOUT_GPU and job is not None:
        return ask_for_gpus(job.kind)
    told = "\n".join(one.text for one in situation.machine.text.told)
    vendor = vendor_of_messages(situation) or vendor_named(told)
    words = for_these_gpus(for_vendor(row.workaround, vendor), situation)
    return by_hand(words, words)


def for_these_gpus(words: str, situation: Situation) -> str:
    """Advice that asks for the name of a GPU, with the name of the only kind here."""
    names = {gpu.name for gpu in situation.usable if gpu.arch.value}
    one = next(iter(names)) if len(names) == 1 else ""
    return words.replace(ASKS_FOR_GPU, f'recommend --gpu "{one}"') if one else words
