"""Which cards a process could really use: present, granted, openable, selected (design §4).

Faults are judged on usable cards. A card that is bound to vfio, not granted to this container or job, or
left out by a variable on purpose is nobody's fault.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpudoctor.machine import Gpu, Machine

Answer = Literal["yes", "no", "unknown"]


class Standing(Struct, frozen=True):
    """How far a card can be used, and why not further. `unknown` never makes a card unusable."""

    gpu: Gpu
    bound: Answer = "unknown"
    """Its vendor's kernel driver has it (not vfio-pci, not nouveau, not nothing)."""
    granted: Answer = "unknown"
    """Its node is in this container or job."""
    openable: Answer = "unknown"
    """Its node opens."""
    selected: Answer = "yes"
    """No visibility variable leaves it out."""
    why: str = ""
    """What takes it away, where something does."""

    @property
    def usable(self) -> bool:
        return "no" not in (self.bound, self.granted, self.openable, self.selected)


def standings(machine: Machine) -> tuple[Standing, ...]:
    """One Standing per card of the machine, in the machine's order."""
    raise NotImplementedError
