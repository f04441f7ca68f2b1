"""What a remedy makes of a machine: the record as it will read once the remedy is done. Pure.

An effect states what is known beforehand. What only the real thing can tell (the result of an import, of a kernel, of
a driver's interface) is unknown afterwards, or stays as it was seen.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpudoctor.finding import (
    AddContainerFlags,
    AllowExecution,
    AnyRemedy,
    Manual,
    PackageRemedy,
    Reboot,
    VariableRemedy,
)
from gpudoctor.machine import Machine
from gpudoctor.situation import Situation

Horizon = Literal["", "reboot", "person", "container", "system", "files"]
"""What foresight ends at: only a check after it tells how the machine is then. "files": of a package that was not
there to be read."""

SOURCE = "as the plan leaves it"
"""Source of a predicted fact."""


class Effect(Struct, frozen=True):
    """The machine after a remedy. With a horizon it is the best guess. A `blind` effect changes nothing that the
    record holds: nobody knows beforehand whether it helps."""

    machine: Machine
    horizon: Horizon = ""
    blind: bool = False


def effect(remedy: AnyRemedy, situation: Situation) -> Effect:
    """What a remedy makes of the machine."""
    if isinstance(remedy, Manual):
        return Effect(situation.machine, "reboot" if remedy.risk == "reboot" else "person", blind=True)
    if isinstance(remedy, VariableRemedy):
        from gpudoctor.planner.effects import variables

        return Effect(variables.machine_after(situation, remedy))
    if isinstance(remedy, AllowExecution):
        from gpudoctor.planner.effects import packages

        return Effect(packages.allowed_to_execute(situation, remedy))
    if isinstance(remedy, PackageRemedy):
        from gpudoctor.planner.effects import packages

        after = packages.machine_after(situation, remedy)
        horizon: Horizon = "files" if packages.brings_unread_files(situation, remedy) else ""
        return Effect(after or situation.machine, horizon, blind=after is None)
    from gpudoctor.planner.effects import system

    after = system.machine_after(situation, remedy)
    horizon = "system"
    if isinstance(remedy, Reboot):
        horizon = "reboot"
    elif isinstance(remedy, AddContainerFlags):
        horizon = "container"
    return Effect(after or situation.machine, horizon, blind=after is None)
