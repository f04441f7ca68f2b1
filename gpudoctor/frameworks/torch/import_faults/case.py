"""A failed import, and the step that finds out more of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import Distribution, ImportTrial, SuspectFile, Torch
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern

CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGTRAP")
"""Signals of a program that did something wrong itself."""


class Case(Struct, frozen=True):
    """What was tried to be imported, and how that ended."""

    situation: Situation
    trial: ImportTrial
    module: str
    """What was imported: "torch", "jax"."""
    path: str
    """Its folder."""
    torch: Torch | None = None
    """If torch itself was imported."""
    package: Distribution | None = None
    """If another module was: what brings it."""

    @property
    def text(self) -> str:
        """The first error, then those that followed from it."""
        return f"{self.trial.root}\n{self.trial.error}".strip()

    @property
    def row(self) -> ErrorPattern | None:
        """The row of the matrix that knows the error."""
        return self.situation.matrix.errors.cause_of(self.text, self.situation.built_for)

    @property
    def innermost(self) -> SuspectFile | None:
        """The innermost file of the error that is not Python's own."""
        return next((file for file in self.trial.suspects if not file.standard and file.path), None)


def find_out(case: Case) -> Fix:
    """What a person runs to see which file fails."""
    interpreter = shlex.quote(case.situation.environment.interpreter or "python3")
    if case.trial.hung:
        text = f"Run `{interpreter} -X importtime -c 'import {case.module}'`: the last lines name what came before."
    else:
        text = (
            f"Run `{interpreter} -v -c 'import {case.module}'`: the last lines before the error name the file that "
            "fails."
        )
    return by_hand("Find the file that fails", text)
