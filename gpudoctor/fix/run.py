"""One run of a fix, as its journal records it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.owned_folder import open_owned
from gpudoctor.fix.processes import Process
from gpudoctor.host.open_file import closing
from gpudoctor.step import RunStep

Seconds = Annotated[float, Meta(ge=0, le=253_402_214_400)]
"""Seconds since 1970, up to the last year that calendars can show."""

UNDO_FOLDER = ".gpudoctor-undo"
"""The folder beside or inside an environment, where its kept files cannot lie with the journal."""

RunState = Literal["running", "cut off", "done", "failed", "unchanged", "undoing", "undone"]

MarkKind = Literal[
    "saved",  # the environment is recorded and its files are kept; nothing was changed before
    "started",  # a step is about to run
    "process",  # the process that runs it
    "ended",  # a step ended, with rc
    "recorded",  # the environment is recorded as the run left it
    "interrupted",
    "done",
    "failed",
    "unchanged",  # the run failed and left no change
    "again",  # the run is continued: all is put back and the steps begin again
    "undoing",
    "restored",  # the files are as before
    "reverted",  # the undo commands of a step have run
    "undone",
    "judged",  # the checks ran again after the run; `note` has the ids of problems that it was for and that are left
]
STATES: dict[str, RunState] = {"done": "done", "failed": "failed", "unchanged": "unchanged", "undone": "undone"}


class Package(Struct, frozen=True, omit_defaults=True):
    """An installed distribution, and the tool that installed it."""

    name: str
    version: str
    installer: str = ""
    url: str = ""
    """Where it came from, if not from an index (PEP 610), without credentials."""


class Mark(Struct, frozen=True, omit_defaults=True):
    """One line of the journal: an event that is about to happen, or has happened."""

    mark: MarkKind
    at: Seconds
    step: int = -1
    rc: int = 0
    process: Process | None = None
    """The step's process, or the gpudoctor that took over."""
    packages: tuple[Package, ...] = ()
    """In `recorded`: the packages installed after the run."""
    note: str = ""


class Begun(Struct, frozen=True):
    """The first line of a journal."""

    id: str
    at: Seconds
    prefix: str
    steps: tuple[RunStep, ...]
    roots: tuple[str, ...]
    files: tuple[str, ...]
    made: tuple[str, ...]
    without: tuple[str, ...]
    kept: str
    """Folder of the kept files."""
    owner: Process
    packages: tuple[Package, ...] = ()
    plan: Any = None


class PlannedStep(Struct, frozen=True):
    """The part of a step that is read from a kept plan."""

    state: str = ""
    because: tuple[str, ...] = ()


class PlanShape(Struct, frozen=True):
    """The part that is read of a kept plan."""

    steps: tuple[PlannedStep, ...] = ()


def shape_of(plan: Any) -> PlanShape:
    """The steps of a kept plan. msgspec.ValidationError where it is no plan."""
    return msgspec.convert(plan, PlanShape) if isinstance(plan, dict) else PlanShape()


class Run(Struct, frozen=True):
    """One run, as its journal records it."""

    folder: str
    """Folder of the journal: HOME/runs/ID."""
    begun: Begun
    marks: tuple[Mark, ...]
    state: RunState

    @property
    def home(self) -> str:
        return os.path.dirname(os.path.dirname(self.folder))

    @property
    def id(self) -> str:
        return self.begun.id

    @property
    def when(self) -> float:
        """Seconds since 1970."""
        return self.begun.at

    @property
    def prefix(self) -> str:
        return self.begun.prefix

    @property
    def plan(self) -> Any:
        """The plan that `apply` was given to keep."""
        return self.begun.plan

    @property
    def because(self) -> tuple[str, ...]:
        """Ids of the problems that its steps fix."""
        plan = shape_of(self.plan)
        ids = (id for step in plan.steps if step.state == "will run" for id in step.because)
        return tuple(dict.fromkeys(ids))

    @property
    def unhelpful(self) -> dict[str, frozenset[tuple[str, ...]]]:
        """The commands that were run for a problem that was still there after the run, by the id of the problem."""
        left = next((mark.note.split() for mark in reversed(self.marks) if mark.mark == "judged"), [])
        ran = [step.because for step in shape_of(self.plan).steps if step.state == "will run"]
        commands = list(zip(ran, (step.argv for step in self.steps), strict=False))
        return {id: frozenset(argv for because, argv in commands if id in because) for id in left}

    @property
    def steps(self) -> tuple[RunStep, ...]:
        return self.begun.steps

    @property
    def packages_before(self) -> tuple[Package, ...]:
        return self.begun.packages

    @property
    def packages_after(self) -> tuple[Package, ...]:
        """The packages as the run left them; empty until that is recorded."""
        return next((mark.packages for mark in reversed(self.marks) if mark.mark == "recorded"), ())

    @property
    def kept_folder(self) -> str:
        """Folder of the kept files. Where they lie with the journal, they move with it."""
        with_journal, *others = kept_places(self.folder, self.prefix)
        named = "/" + self.begun.kept.lstrip("/")
        return named if named in others else with_journal

    @property
    def kept_bytes(self) -> int:
        """Bytes that only the kept files take up."""
        total = 0
        with suppress(OSError, RepairError), open_kept(self.kept_folder) as folder, os.scandir(folder) as listing:
            for found in listing:
                status = found.stat(follow_symlinks=False)
                total += status.st_blocks * 512 if status.st_nlink == 1 else 0
        return total

    def has(self, *kinds: MarkKind) -> bool:
        """Whether the journal has such a mark since the steps last began."""
        return any(mark.mark in kinds for mark in self.since_begin)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to undo."""
        return self.state in ("unchanged", "undone")

    @property
    def is_saved(self) -> bool:
        """Whether all files are kept; before that, nothing was changed."""
        return any(mark.mark == "saved" for mark in self.marks)

    @property
    def since_begin(self) -> tuple[Mark, ...]:
        """The marks since the steps last began: a run that is continued begins again."""
        last = max((n for n, mark in enumerate(self.marks) if mark.mark == "again"), default=-1)
        return self.marks[last + 1 :]

    def with_mark(self, mark: Mark) -> Run:
        return replace(self, marks=(*self.marks, mark))


def kept_places(run_folder: str, prefix: str) -> tuple[str, ...]:
    """Where the kept files of a run can lie: with the journal, beside the environment, or inside it."""
    run_id = os.path.basename(run_folder)
    around = (os.path.dirname(prefix), prefix) if prefix else ()
    return (f"{run_folder}/kept", *(os.path.join(folder, UNDO_FOLDER, run_id) for folder in around))


def open_kept(place: str, *, make: bool = False) -> AbstractContextManager[int]:
    """The descriptor of a folder of kept files; it and its parent must be this account's alone."""
    return closing(open_owned(place, os.path.dirname(place), make=make, parents=False))
