"""The plan of a repair: what all findings together want done here, in order, and which of it may be run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import (
    Finding,
    NotJudged,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
)
from gpudoctor.machine import Machine
from gpudoctor.planner.merging import CONTAINER, DRIVER, Choice, Task, merged, named
from gpudoctor.planner.place import Place, is_variable, place
from gpudoctor.planner.plan import alike, steps_for
from gpudoctor.planner.requirements import installed, pinning_another
from gpudoctor.step import EnvStep, ManualStep, RunStep, Step

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

State = Literal["will run", "shown only"]
Variable = SetVariable | UnsetVariable

_VERBS = ("install", "uninstall", "add", "remove")


class Allowed(Struct, frozen=True):
    """What may be run here. Where nothing may, `why_not` is a sentence that says why."""

    packages: bool = False
    """Package and environment steps: a live environment outside any root."""
    system: bool = False
    """Steps for root: gpudoctor is root, and was told to touch the system."""
    why_not: str = ""
    system_why_not: str = "needs root"
    """The same for steps for root, in a few words."""


class PlannedStep(Struct, frozen=True):
    """A step, the ids of the findings that it repairs, and whether it is run or only shown."""

    step: Step
    because: tuple[str, ...]
    state: State
    why_not: str = ""
    """Why it is only shown, in a few words."""
    replaces: tuple[str, ...] = ()
    """Installed packages that make way: "torch 2.13.0+cpu"."""
    stops: bool = False
    """Something that a person does first: what comes after it rests on it."""


class Repair(Struct, frozen=True):
    """Everything that `fix` shows, and of it what it runs."""

    steps: tuple[PlannedStep, ...] = ()
    after: str = ""
    conflicts: tuple[str, ...] = ()
    """Findings whose way out does not go with that of an earlier one, as sentences."""
    pinned: tuple[str, ...] = ()
    """Installed packages that want another torch than the one that comes: "pinning 1.0 (==2.13.0)"."""
    left: tuple[str, ...] = ()
    """Findings that are judged again after this repair: "slug [id]"."""
    helpless: tuple[str, ...] = ()
    """Findings that no repair is known for."""

    @property
    def to_run(self) -> tuple[RunStep, ...]:
        """What `fix` runs, in order."""
        return tuple(
            planned.step
            for planned in self.steps
            if planned.state == "will run" and isinstance(planned.step, RunStep)
        )


class NoSuchFixError(ValueError):
    """A finding or a way out was asked for that is not there."""


def repair(
    findings: Sequence[Finding],
    machine: Machine,
    matrix: Matrix,
    allowed: Allowed,
    *,
    only: Iterable[str] = (),
    alternative: int = 1,
    also: Iterable[str] = (),
    questions: Iterable[NotJudged] = (),
) -> Repair:
    """The plan for findings that are in their order: errors and warnings, or those whose id is in `only`.

    `also` are ids of notes that are wanted beside them. `alternative` counts fixes from 1, of the first finding or of
    each of `only`. `questions` that matter are told:
    where they are open, no finding is not the same as no fault. Raises NoSuchWayError.
    """
    ids = frozenset(only)
    meant = _meant(findings, ids, frozenset(also))
    wanted = merged(_chosen(meant, bool(ids), alternative), keep_all=bool(ids))
    here = place(machine)
    steps = _with_states(_steps(wanted.tasks, here, machine, matrix), here, allowed)
    torch = next((task.remedy for task in wanted.tasks if isinstance(task.remedy, ReplaceTorch)), None)
    plan = Repair(
        steps=steps,
        conflicts=wanted.conflicts,
        pinned=tuple(pinning_another(machine, torch.version)) if torch else (),
        left=_names(wanted.left),
        helpless=_names(finding for finding in meant if not finding.fixes),
    )
    unanswered = tuple(dict.fromkeys(question.why for question in questions if question.matters))
    return replace(plan, after=" ".join((_after(plan, allowed, here), *_open(unanswered))))


def _meant(findings: Sequence[Finding], ids: frozenset[str], also: frozenset[str] = frozenset()) -> list[Finding]:
    """Errors and warnings, or what a person named; `also`: and the notes with these ids."""
    if ids:
        return [finding for finding in findings if finding.id in ids]
    return [finding for finding in findings if finding.severity != "note" or finding.id in also]


def _chosen(findings: Sequence[Finding], each: bool, alternative: int) -> list[Choice]:
    """The way out of each finding: `alternative` of each or of the first. Raises NoSuchWayError."""
    helped = [finding for finding in findings if finding.fixes]
    if not helped and alternative > 1:
        raise NoSuchFixError("nothing to fix: there is no alternative")
    choices = []
    for number, finding in enumerate(helped):
        place = alternative if each or number == 0 else 1
        if not 1 <= place <= len(finding.fixes):
            count = f"{len(finding.fixes)} fix{'es' * (len(finding.fixes) > 1)}"
            raise NoSuchFixError(f"{named(finding)} has {count}: there is no number {place}")
        choices.append(Choice(finding, finding.fixes[place - 1]))
    return choices


def _names(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(named(finding) for finding in findings))


def variables_for(findings: Sequence[Finding], *, only: Iterable[str] = ()) -> tuple[Variable, ...]:
    """Variables that a process needs here, and those that it must not have: of each error and warning the first way
    out that variables alone make. The finding that comes first has its way."""
    found: dict[str, Variable] = {}
    for finding in _meant(findings, frozenset(only)):
        for fix in finding.fixes:
            settings = [remedy for remedy in fix.remedies if isinstance(remedy, SetVariable | UnsetVariable)]
            if settings and len(settings) == len(fix.remedies):
                for remedy in settings:
                    if is_variable(remedy.name, remedy.value if isinstance(remedy, SetVariable) else ""):
                        found.setdefault(remedy.name, remedy)
                break
    return tuple(found.values())


# --- steps ---------------------------------------------------------------------------------------------


class _Drawn(Struct, frozen=True):
    """A step with where it came from, before it is known whether it is run."""

    step: Step
    because: tuple[Finding, ...]
    stage: int
    replaces: tuple[str, ...]
    waits: bool
    """A reboot that ends a way out: it comes after the steps of all others of its stage."""


def _steps(tasks: Iterable[Task], here: Place, machine: Machine, matrix: Matrix) -> list[_Drawn]:
    drawn: list[_Drawn] = []
    for task in tasks:
        steps = steps_for(task.remedy, here, machine, matrix)
        for number, step in enumerate(steps):
            waits = task.ends and number == len(steps) - 1 and _is_reboot(step)
            _draw(drawn, _Drawn(step, task.because, task.stage, _replaces(step, machine), waits))
    return sorted(drawn, key=lambda one: (one.stage, one.waits))


def _draw(drawn: list[_Drawn], new: _Drawn) -> None:
    """Add a step, or its reasons to the same step that is there; a reboot stands where it is wanted last."""
    same = next((at for at, one in enumerate(drawn) if alike(one.step, new.step)), None)
    if same is None:
        drawn.append(new)
        return
    old = drawn[same]
    because = (*old.because, *(finding for finding in new.because if finding not in old.because))
    both = _Drawn(old.step, because, max(old.stage, new.stage), old.replaces, old.waits and new.waits)
    if _is_reboot(new.step):
        del drawn[same]
        drawn.append(both)
    else:
        drawn[same] = both


def _is_reboot(step: Step) -> bool:
    return isinstance(step, ManualStep) and step.risk == "reboot" and step.text == "Reboot."


def _replaces(step: Step, machine: Machine) -> tuple[str, ...]:
    """The installed packages that a command names after its verb."""
    if not isinstance(step, RunStep) or step.risk != "replaces":
        return ()
    verb = next((at for at, word in enumerate(step.argv) if word in _VERBS), len(step.argv))
    names = (re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", word) for word in step.argv[verb + 1 :])
    found = (installed(machine, name[0]) for name in names if name)
    return tuple(dict.fromkeys(f"{had.name} {had.version}" for had in found if had))


# --- what is run ---------------------------------------------------------------------------------------


def _with_states(drawn: Iterable[_Drawn], here: Place, allowed: Allowed) -> tuple[PlannedStep, ...]:
    """A plan stops at the first thing that an error needs and that is not done here: what comes after rests on it."""
    stopped = False
    planned = []
    for one in drawn:
        why_not = _why_not(one.step, here, allowed)
        if stopped and not why_not:
            why_not = "comes after the step above, which is yours"
        decides = _decides(one) and any(finding.severity == "error" for finding in one.because)
        planned.append(
            PlannedStep(
                step=one.step,
                because=tuple(dict.fromkeys(finding.id for finding in one.because)),
                state="shown only" if why_not else "will run",
                why_not=why_not,
                replaces=one.replaces,
                stops=decides and not isinstance(one.step, RunStep),
            )
        )
        stopped = stopped or (decides and bool(why_not))
    return tuple(planned)


def _why_not(step: Step, here: Place, allowed: Allowed) -> str:
    """Why a step is not run here; "" where it is."""
    if isinstance(step, ManualStep):
        return "by hand"
    if isinstance(step, EnvStep):
        return "a variable: see `gpudoctor env`"
    if step.risk in ("root", "reboot"):
        return "" if allowed.system else allowed.system_why_not
    if here.tool in ("managed", "nowhere"):
        return "makes another environment than the one examined"
    return "" if allowed.packages else "nothing is run here"


def _decides(one: _Drawn) -> bool:
    """Whether what comes later rests on this step: the system below the packages, or the container around them."""
    return one.stage in (DRIVER, CONTAINER) or one.step.risk in ("root", "reboot")


def _after(plan: Repair, allowed: Allowed, here: Place) -> str:
    """What comes after the plan, in sentences."""
    helpless = [f"No fix is known for {', '.join(plan.helpless)}."] if plan.helpless else []
    if not plan.steps:
        return " ".join((*(helpless or ["Nothing to fix."]), *plan.conflicts))
    shown = [planned for planned in plan.steps if planned.state == "shown only"]
    said: list[str] = []
    if plan.to_run:
        said.append("Then gpudoctor checks again.")
    elif allowed.why_not and any(isinstance(planned.step, RunStep) for planned in shown):
        said.append(allowed.why_not)
    said += _by_a_person(shown, allowed, here)
    if any(isinstance(planned.step, EnvStep) for planned in shown):
        said.append(
            '`eval "$(gpudoctor env)"` sets the variables in a shell, `gpudoctor preflight --set-env -- COMMAND` for '
            "one command; no start-up file is changed."
        )
    if plan.left:
        said.append(f"Checked again after that: {', '.join(plan.left)}.")
    return " ".join((*said, *helpless, *plan.conflicts))


def _open(unanswered: tuple[str, ...]) -> Iterable[str]:
    if unanswered:
        yield f"An important check could not be completed: {'; '.join(unanswered)}."


def _by_a_person(shown: Sequence[PlannedStep], allowed: Allowed, here: Place) -> Iterable[str]:
    risks = {planned.step.risk for planned in shown}
    as_root = any(isinstance(planned.step, RunStep) and planned.step.risk == "root" for planned in shown)
    if as_root and allowed.system_why_not == Allowed().system_why_not and not allowed.system:
        yield "Run the steps for root yourself, or let `sudo gpudoctor fix --system` run them."
    if "reboot" in risks:
        yield "After the reboot, run `gpudoctor check` again."
    elif as_root or any(isinstance(planned.step, ManualStep) for planned in shown):
        yield "Do the steps that are only shown yourself, then run `gpudoctor check`."
    if here.tool == "managed" and allowed.packages:
        yield "Then `gpudoctor check --python .venv-gpu` checks the new environment."
