"""Steps of a repair as the JSON contract has them."""

from __future__ import annotations

from msgspec import Struct, field

from gpudoctor.finding import Risk


class RunStep(Struct, frozen=True, tag="run", tag_field="kind"):
    """A command to run, as an argument list; never given to a shell."""

    argv: tuple[str, ...]
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    why: str = ""
    risk: Risk = "safe"
    undo: tuple[tuple[str, ...], ...] = ()
    """Argument lists that take it back, in order; empty where that is not possible."""


def as_root(argv: tuple[str, ...], why: str, *undo: tuple[str, ...]) -> RunStep:
    """A command that changes the system; `undo` are those that take it back."""
    return RunStep(argv=argv, why=why, risk="root", undo=undo)


class EnvStep(Struct, frozen=True, tag="env", tag_field="kind"):
    """A variable to set for the examined environment, not in a start-up file."""

    name: str
    value: str
    why: str = ""
    risk: Risk = "safe"


class ManualStep(Struct, frozen=True, tag="manual", tag_field="kind"):
    """Something that a person does."""

    text: str
    why: str = ""
    risk: Risk = "safe"


Step = RunStep | EnvStep | ManualStep


class PlannedFix(Struct, frozen=True):
    """A fix as steps."""

    title: str
    steps: tuple[Step, ...]
