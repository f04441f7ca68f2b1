"""Which program or package beside torch a pasted message is of, and what installs its build for the GPU."""

from __future__ import annotations

import re

from gpudoctor.finding import Fix, by_hand
from gpudoctor.frameworks.told_builds import fixes_of
from gpudoctor.machine import Gpu
from gpudoctor.matrix.rows import ToldCircumstance
from gpudoctor.matrix.rows.packages import ProgramBuild
from gpudoctor.matrix.versions import first_of_series
from gpudoctor.situation import Situation

_FOREIGN_IMPORTER = re.compile(r"\((?:imported by|raised in) ")


def program_of(situation: Situation, text: str) -> ProgramBuild | None:
    """The program that a message names; else the one that the whole text is about. None where there are several, or
    where another package raised it."""
    if inside := situation.matrix.programs_named(text.lower()):
        return inside[0] if len(inside) == 1 else None
    about = "" if _FOREIGN_IMPORTER.search(text) else situation.machine.text.about
    return next((row for row in situation.matrix.tables.program_builds if row.program == about), None)


def fixes_of_program(situation: Situation, row: ProgramBuild, text: str, gpus: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """What installs its build for these GPUs."""
    if row.framework:
        return fixes_of(situation, row.framework, text, gpus)
    how, torch = row.how, situation.torch
    if torch is not None and torch.build:
        how = how.replace("${TORCH}", first_of_series(torch.release)).replace("${CUDA}", torch.build)
    return (by_hand(f"Install the build of {row.title} for this GPU", how, "replaces"),)


def builds_told(situation: Situation, row: ToldCircumstance, text: str) -> tuple[Fix, ...]:
    """The build of the program that the text is about, for a circumstance whose words do not tell which it is."""
    program = program_of(situation, text) if row.any_program else None
    return fixes_of_program(situation, program, text, ()) if program else ()
