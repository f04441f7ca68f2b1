"""What `gpudoctor recommend` answers (its JSON is made of these)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from gpudoctor.machine import Gpu
from gpudoctor.planner.commands import Commands
from gpudoctor.step import PlannedFix

BuildLevel = Literal["native", "ptx", "override", "cpu", "manual"]
"""native: machine code for every GPU; ptx: the driver compiles it; override: an HSA override stands in for native
code; cpu: no GPU is used; manual: no wheel is right here, `why` says what is."""


class Recommended(Struct, frozen=True):
    """One build to take. `torch` and `build` are null where the place decides them (NGC, Jetson, Nix, conda)."""

    torch: str | None
    build: str | None
    origin: str
    index_url: str
    """"" is the package index's own build."""
    level: BuildLevel
    env: dict[str, str] = field(default_factory=dict)
    """Variables that it needs."""
    commands: Commands = field(default_factory=dict)
    why: tuple[str, ...] = ()


class Out(Struct, frozen=True):
    """A build that is not proposed, and why."""

    torch: str
    build: str
    why: str


class Recommendation(Struct, frozen=True):
    """The answer. `choices` is best first, the CPU last; `otherwise` is what would make another build possible."""

    choices: tuple[Recommended, ...]
    rejected: tuple[Out, ...]
    gpus: tuple[Gpu, ...] = ()
    """The GPUs that the choices serve."""
    notes: tuple[str, ...] = ()
    """What the choice rests on: GPUs left aside, assumptions, unknowns."""
    otherwise: tuple[PlannedFix, ...] = ()
    certain: bool = True
    """False where a GPU or the driver is not known."""

    @property
    def exit_code(self) -> int:
        """0 a choice, 1 no build serves the GPUs, 3 not known."""
        if not self.certain:
            return 3
        served = any(choice.level != "cpu" for choice in self.choices)
        return 0 if served or (self.choices and not self.gpus) else 1
