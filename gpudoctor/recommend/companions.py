"""What `recommend --with` adds: torchvision and torchaudio, from wherever the torch comes, or why not."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.finding import AnyRemedy, ReplacePackage, ReplaceTorch
from gpudoctor.frameworks.torch.companions import pairing
from gpudoctor.frameworks.torch.other_origins import Place
from gpudoctor.situation import Situation

_INSTRUCTIONS: dict[Place, str] = {
    "jetson": "{name}: take it from where this torch comes from, or build it from source against this torch",
    "ngc": "{name}: use the one in the image; a wheel from an index is built for another torch",
    "nix": "{name}: take python3Packages.{name} of the same nixpkgs",
    "source": "{name}: build it from source against this torch",
}


def instructions(origin: Place, names: tuple[str, ...]) -> tuple[str, ...]:
    """What a person does for companions where no command installs the torch."""
    return tuple(_INSTRUCTIONS[origin].format(name=name) for name in names)


def with_companions(
    situation: Situation, remedies: tuple[AnyRemedy, ...], torch: ReplaceTorch, names: tuple[str, ...]
) -> tuple[AnyRemedy, ...]:
    """The same remedies, with these companions beside the installed ones."""
    together, apart = pairing(situation, torch, names)
    others = tuple(remedy for remedy in remedies if remedy not in (torch, *apart))
    return (replace(torch, companions=together), *apart, *others)


def left_out(
    situation: Situation, version: str, remedies: tuple[AnyRemedy, ...], names: tuple[str, ...]
) -> tuple[str, ...]:
    """Why companions that were asked for are not among the remedies."""
    brought = {name for remedy in remedies if isinstance(remedy, ReplaceTorch) for name, _ in remedy.companions}
    brought |= {remedy.name for remedy in remedies if isinstance(remedy, ReplacePackage)}
    return tuple(_why_left_out(situation, version, name) for name in names if name not in brought)


def _why_left_out(situation: Situation, version: str, name: str) -> str:
    if installed := situation.machine.installed(name):
        return f"the installed {name} {installed.version} works with it"
    return f"no release of {name} for torch {version} is known: nothing is installed for it"
