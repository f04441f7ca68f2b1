"""The answer of `gpudoctor recommend`, which also makes up its JSON."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from gpudoctor.machine import Gpu
from gpudoctor.planner.commands import Commands
from gpudoctor.step import PlannedFix

INSTRUCTIONS = "instructions: "
"""Begins the reason that names them."""

BuildLevel = Literal["native", "ptx", "unmeasured", "override", "cpu", "manual"]
"""native: machine code for every GPU; ptx: the driver compiles it; unmeasured: the matrix does not hold what device
code it has; override: an HSA override replaces native code; cpu: no GPU is used; manual: no wheel is right here, and
`why` says what is."""


class Recommended(Struct, frozen=True):
    """One build to install. `torch` and `build` are null if the place decides them (NGC, Jetson, Nix, conda), and for
    a framework beside torch, which `package` names."""

    torch: str | None
    build: str | None
    origin: str
    index_url: str
    """"" for the package index's own build."""
    level: BuildLevel
    env: dict[str, str] = field(default_factory=dict)
    """Variables that it needs."""
    commands: Commands = field(default_factory=dict)
    why: tuple[str, ...] = ()
    package: str = ""
    """Of a framework beside torch: the requirement to install, "jax[cuda12]==0.12.0.1"."""

    @property
    def instructions(self) -> str:
        """The page that tells a person how to install it; "" where a command does."""
        return next((why.removeprefix(INSTRUCTIONS) for why in self.why if why.startswith(INSTRUCTIONS)), "")


class Out(Struct, frozen=True):
    """A build that is not proposed, and why."""

    torch: str
    build: str
    why: str
    package: str = ""
    """Of a framework beside torch: the distribution and its version."""


class Recommendation(Struct, frozen=True):
    """The answer. `choices` is best first, the CPU last; `otherwise` says what would make another build possible."""

    choices: tuple[Recommended, ...]
    rejected: tuple[Out, ...]
    gpus: tuple[Gpu, ...] = ()
    """The GPUs that the choices support."""
    notes: tuple[str, ...] = ()
    """What affects the choice: GPUs left out, assumptions, unknowns."""
    otherwise: tuple[PlannedFix, ...] = ()
    certain: bool = True
    """False if a GPU or the driver is unknown, or no choice is known to work."""
    known: bool = True
    """False if no choice is known to have code for a GPU."""
    framework: str = "torch"
    """As its users call it."""
    undriven: tuple[Gpu, ...] = ()
    """The GPUs that no driver runs beside those that the choices support."""

    @property
    def exit_code(self) -> int:
        """0: a choice; 1: no build supports the GPUs, or no driver all of them; 3: unknown."""
        if not self.certain:
            return 3
        if self.undriven:
            return 1
        served = any(choice.level != "cpu" for choice in self.choices)
        return 0 if served or (self.choices and not self.gpus) else 1
