"""The steps of a plan in their order, and which of them may run here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Literal

from msgspec import Struct

from gpudoctor.finding import Finding, ReplaceTorch
from gpudoctor.machine import Machine
from gpudoctor.planner.effects import effect
from gpudoctor.planner.place import Place
from gpudoctor.planner.plan import command_key, same_step, steps_together
from gpudoctor.planner.tasks import CONTAINER, DRIVER, Task
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, ManualStep, RunStep, Step

State = Literal["will run", "shown only"]

_VERBS = ("install", "uninstall", "add", "remove")

OF_ALL = "the reason is below"
"""Why a step does not run where nothing does: the plan says it once for all."""


class Permissions(Struct, frozen=True):
    """What may run here. If nothing may, `why_not` says why in a sentence."""

    packages: bool = False
    """Package and environment steps: a live environment outside any root."""
    system: bool = False
    """Steps for root: gpudoctor is root, and was allowed to change the system."""
    why_not: str = ""
    system_why_not: str = "needs root"
    """Why steps for root do not run, in a few words."""


class PlannedStep(Struct, frozen=True):
    """A step, the ids of the problems that it fixes, and whether it runs or is only shown."""

    step: Step
    because: tuple[str, ...]
    state: State
    why_not: str = ""
    """Why it is only shown, in a few words."""
    replaces: tuple[str, ...] = ()
    """Installed packages that it replaces: "torch 2.13.0+cpu"."""
    stops: bool = False
    """A person does this first: later steps depend on it."""


def planned_steps(
    tasks: Iterable[Task], here: Place, situation: Situation, allowed: Permissions
) -> tuple[PlannedStep, ...]:
    """The steps of these tasks, each with its state. A step that does not run here stops the later ones of its fix;
    one that an error needs stops the plan. Of a fix with a change of packages that cannot run, no step runs."""
    stopped, waiting = False, set[str]()
    planned = []
    drawn = _steps(tasks, here, situation)
    halved = _half_done(drawn)
    for one in drawn:
        ids = tuple(dict.fromkeys(finding.id for finding in one.because))
        why_not = _why_not(one.step, here, allowed)
        if not why_not and any(finding in halved for finding in one.because):
            why_not = "goes with a step that you do"
        if not why_not and (stopped or not waiting.isdisjoint(ids)):
            why_not = "comes after the step above, which you do"
        decides = _decides(one) and any(finding.severity == "error" for finding in one.because)
        planned.append(
            PlannedStep(
                step=one.step,
                because=ids,
                state="shown only" if why_not else "will run",
                why_not=why_not,
                replaces=one.replaces,
                stops=decides and not isinstance(one.step, RunStep),
            )
        )
        stopped = stopped or (decides and bool(why_not))
        waiting.update(ids if why_not and _decides(one) else ())
    return tuple(planned)


class _Drawn(Struct, frozen=True):
    """A step with its origin, before it is known whether it runs."""

    step: Step
    because: tuple[Finding, ...]
    stage: int
    replaces: tuple[str, ...]
    waits: bool
    """A reboot at the end of a fix: it comes after the steps of all other fixes of its stage."""


def _steps(tasks: Iterable[Task], here: Place, situation: Situation) -> list[_Drawn]:
    """The steps of tasks. Those behind another torch are for an environment that has it: none brings the old back."""
    drawn: list[_Drawn] = []
    reached = situation
    for _, group in groupby(tasks, key=lambda task: (task.because, command_key(task.remedy))):
        together = tuple(group)
        task = together[-1]
        steps = steps_together([task.remedy for task in together], here, reached)
        for other in together:
            if isinstance(other.remedy, ReplaceTorch):
                reached = reached.on(effect(other.remedy, reached).machine)
        for number, step in enumerate(steps):
            waits = task.ends and number == len(steps) - 1 and is_reboot(step)
            _draw(drawn, _Drawn(step, task.because, task.stage, _replaces(step, situation.machine), waits))
    return sorted(drawn, key=lambda one: (one.stage, one.waits))


def _half_done(drawn: Iterable[_Drawn]) -> list[Finding]:
    """The problems of which only a part of the fix could run: a package taken away, and none put in its place. Fixes
    that share a step go together."""
    reasons = [one.because for one in drawn]
    halved = [finding for one in drawn if changes_packages_by_hand(one.step) for finding in one.because]
    while more := [
        finding
        for because in reasons
        if any(one in halved for one in because)
        for finding in because
        if finding not in halved
    ]:
        halved += more
    return halved


def changes_packages_by_hand(step: Step) -> bool:
    """Whether a person installs or removes packages: no command can do it here."""
    return isinstance(step, ManualStep) and step.risk == "replaces"


def _draw(drawn: list[_Drawn], new: _Drawn) -> None:
    """Add a step, or its reasons to the same step on the list. It stays where it is needed first; a reboot moves to
    where it is needed last."""
    same = next((at for at, one in enumerate(drawn) if same_step(one.step, new.step)), None)
    if same is None:
        drawn.append(new)
        return
    old = drawn[same]
    because = (*old.because, *(finding for finding in new.because if finding not in old.because))
    last = is_reboot(new.step)
    stage = (max if last else min)(old.stage, new.stage)
    both = _Drawn(old.step, because, stage, old.replaces, old.waits and new.waits)
    if last:
        del drawn[same]
        drawn.append(both)
    else:
        drawn[same] = both


def is_reboot(step: Step) -> bool:
    """Whether the step is a reboot and nothing else."""
    return isinstance(step, ManualStep) and step.risk == "reboot" and step.text == "Reboot."


def _replaces(step: Step, machine: Machine) -> tuple[str, ...]:
    """The installed packages that a command names after its verb, but for a release that it only holds in place."""
    if not isinstance(step, RunStep) or step.risk != "replaces":
        return ()
    verb = next((at for at, word in enumerate(step.argv) if word in _VERBS), len(step.argv))
    names = ((re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", word), word) for word in step.argv[verb + 1 :])
    found = ((machine.installed(name[0]), word) for name, word in names if name)
    again = "--force-reinstall" in step.argv
    return tuple(
        dict.fromkeys(
            f"{had.name} {had.version}"
            for had, word in found
            if had and (again or word != f"{had.name}=={had.version}")
        )
    )


def _why_not(step: Step, here: Place, allowed: Permissions) -> str:
    """Why a step does not run here; "" if it does."""
    if isinstance(step, ManualStep):
        return "by hand"
    if isinstance(step, EnvStep):
        return "a variable: see `gpudoctor env`"
    if step.risk in ("root", "reboot"):
        return "" if allowed.system else allowed.system_why_not
    if here.tool in ("managed", "nowhere"):
        return "makes another environment than the examined one"
    return "" if allowed.packages else OF_ALL if allowed.why_not else "nothing runs here"


def _decides(one: _Drawn) -> bool:
    """Whether later steps depend on this one: on the system below the packages, or the container around them."""
    return one.stage in (DRIVER, CONTAINER) or one.step.risk in ("root", "reboot")
