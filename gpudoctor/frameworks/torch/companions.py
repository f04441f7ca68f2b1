"""torchvision and torchaudio for a torch build, only where they are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.finding import ReplacePackage, ReplaceTorch
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.frameworks.torch.candidates import Choice

Together = tuple[tuple[str, str], ...]


def pairing(
    situation: Situation, choice: Choice | ReplaceTorch, also: tuple[str, ...] = ()
) -> tuple[Together, tuple[ReplacePackage, ...]]:
    """(name, version) of the companions to install with a build, and those that its index does not have.

    Covers the installed companions, and those that `also` names.

    A companion of an older torch release that works with later ones (torchaudio 2.11) lies only in the indexes of its
    own release, and in AMD's. Where several versions pair, the minor release is named ("0.29.*").
    """
    row = situation.matrix.companion(choice.version)
    if row is None:
        return (), ()
    together: list[tuple[str, str]] = []
    apart: list[ReplacePackage] = []
    for name, version in (("torchvision", row.torchvision), ("torchaudio", row.torchaudio)):
        installed = situation.machine.installed(name)
        if not version or (installed is None and name not in also):
            continue
        if name == "torchaudio" and not _in_its_index(situation, version, choice):
            fits = installed and situation.matrix.companion_fits("torchaudio", installed.version, choice.version)
            if fits is not True:
                why = f"pairs with torch {choice.version}"
                apart.append(ReplacePackage(name=name, specifier=f"=={version}", why=why))
            continue
        several = name == "torchvision" and bool(row.torchvision_also)
        together.append((name, f"{version.rpartition('.')[0]}.*" if several else version))
    return tuple(together), tuple(apart)


def paired_versions(situation: Situation, choice: Choice) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, versions, one of which is installed) of the companions that a build brings along."""
    row = situation.matrix.companion(choice.version)
    also = row.torchvision_also if row else ()
    return tuple(
        (name, (row.torchvision or version, *also) if row and version.endswith(".*") else (version,))
        for name, version in pairing(situation, choice)[0]
    )


def _in_its_index(situation: Situation, version: str, choice: Choice | ReplaceTorch) -> bool:
    """Whether the index of a build has this torchaudio: the torch release of that number has the same build."""
    return choice.origin == "amd" or any(
        row.version == version and row.build == choice.build and row.origin == choice.origin
        for row in situation.matrix.builds(situation.platform)
    )
