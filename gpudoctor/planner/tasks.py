"""The remedies of a plan, each once, from the hardware up."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import (
    AddContainerFlags,
    AllowExecution,
    AnyRemedy,
    Finding,
    Fix,
    InstallSystemPackage,
    Layer,
    Manual,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    VariableRemedy,
)
from gpudoctor.planner.search import Move

DRIVER, CONTAINER, RUNTIME, REMOVALS, TORCH, PACKAGES, VARIABLES = range(7)
"""The order of a plan: what is removed goes before what is installed."""


class Task(Struct, frozen=True):
    """A remedy, the problems that need it, and its stage."""

    remedy: AnyRemedy
    because: tuple[Finding, ...]
    stage: int
    ends: bool
    """The last remedy of its fix: a reboot after it can wait for that of the others."""


def tasks_of(moves: Iterable[Move]) -> tuple[Task, ...]:
    """The remedies of fixes, in the order in which they are carried out."""
    tasks: list[Task] = []
    for move in moves:
        because = (move.finding, *(one for one in move.clears if one != move.finding))
        for number, remedy in enumerate(move.fix.remedies):
            same = next((at for at, task in enumerate(tasks) if _aim(task.remedy) == _aim(remedy)), None)
            if same is None:
                ends = number == len(move.fix.remedies) - 1
                tasks.append(Task(remedy, because, _stage(move.fix, number, move.finding), ends))
            else:
                both = (*tasks[same].because, *(one for one in because if one not in tasks[same].because))
                tasks[same] = replace(tasks[same], because=both)
    return tuple(sorted(tasks, key=lambda task: task.stage))


def _aim(remedy: AnyRemedy) -> AnyRemedy:
    """A remedy without its reason."""
    if isinstance(remedy, ReplaceTorch):
        return replace(remedy, carries="")
    if isinstance(remedy, (ReplacePackage, RemovePackage)):
        return replace(remedy, why="", indirect=False)
    return replace(remedy, why="")


def _stage(fix: Fix, number: int, finding: Finding) -> int:
    """The stage of a remedy. Instructions stay with their fix; alone, they belong to the problem's layer."""
    before, after = fix.remedies[number::-1], fix.remedies[number:]
    for remedy in (*before, *after):
        if not isinstance(remedy, Manual):
            return _stage_of(remedy)
    layers: dict[Layer, int] = {"driver": DRIVER, "access": CONTAINER, "runtime": RUNTIME, "framework": TORCH}
    return layers.get(finding.layer, PACKAGES)


def _stage_of(remedy: AnyRemedy) -> int:
    if isinstance(remedy, RemovePackage):
        return REMOVALS
    if isinstance(remedy, (ReplaceTorch, ReplacePackage, ReinstallPackage)):
        return TORCH if isinstance(remedy, ReplaceTorch) or remedy.name == "torch" else PACKAGES
    if isinstance(remedy, AllowExecution):
        return PACKAGES
    if isinstance(remedy, VariableRemedy):
        return VARIABLES
    if isinstance(remedy, AddContainerFlags):
        return CONTAINER
    if isinstance(remedy, InstallSystemPackage):
        kinds = {"nvidia-container-toolkit": CONTAINER, "linux-firmware": DRIVER, "libstdc++": RUNTIME}
        return kinds.get(remedy.purpose, PACKAGES)  # the rest is for compiling: no import needs it
    return DRIVER
