"""What an install command asks for, and what is there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.finding import ReplaceTorch
from gpudoctor.fix.place import Place, is_version
from gpudoctor.machine import Distribution, Machine

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


class Wanted(Struct, frozen=True):
    """One package of an install command: `spec` such as "==2.9.1+cu128"."""

    name: str
    spec: str
    extra: str = ""

    @property
    def text(self) -> str:
        """As pip and uv take it."""
        return f"{self.name}[{self.extra}]{self.spec}" if self.extra else f"{self.name}{self.spec}"


def torch_and_companions(place: Place, remedy: ReplaceTorch) -> tuple[Wanted, ...]:
    """torch with its local part, so that a build of the same version is really replaced."""
    # CPU wheels for aarch64, and companions there, are not all named by their build.
    named = bool(remedy.index_url) and (place.arch == "x86_64" or remedy.build != "cpu")
    wanted = [Wanted("torch", f"=={remedy.version}" + (f"+{remedy.build}" if named else ""), remedy.extra)]
    for name, version in remedy.companions:
        local = f"+{remedy.build}" if remedy.index_url and place.arch == "x86_64" and "*" not in version else ""
        extra = remedy.extra if name == "torchvision" else ""
        wanted.append(Wanted(name, f"=={version}{local}", extra))
    return tuple(wanted)


def installed(machine: Machine, name: str) -> Distribution | None:
    """The installed distribution of that name, if one is known."""
    environment = machine.environment.value
    return environment.distribution(name) if environment else None


def would_stay(machine: Machine, item: Wanted) -> bool:
    """Whether the installed version satisfies what is wanted, although another build is meant (extras are added
    to the same one)."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    found = installed(machine, item.name)
    if found is None or not item.spec.startswith("==") or item.extra:
        return False
    try:
        return SpecifierSet(item.spec).contains(found.version, prereleases=True)
    except InvalidSpecifier:
        return False


def pinning_another(machine: Machine, version: str) -> list[str]:
    """Installed packages whose requirements the new torch does not meet."""
    from packaging.requirements import InvalidRequirement, Requirement

    environment = machine.environment.value
    found: list[str] = []
    for distribution in (environment.distributions.value or ()) if environment else ():
        if distribution.name in ("torch", "torchvision", "torchaudio"):
            continue
        for line in distribution.requires:
            try:
                requirement = Requirement(line)
            except InvalidRequirement:
                continue
            wanted = requirement.name == "torch" and not requirement.marker
            if wanted and is_version(version) and not requirement.specifier.contains(version, prereleases=True):
                found.append(f"{distribution.name} {distribution.version} ({requirement.specifier})")
    return found


def index_of_torch(machine: Machine, matrix: Matrix) -> str | None:
    """Index that the installed torch came from; None where it is not known."""
    torch = machine.torch
    if torch is None:
        return ""
    if torch.origin == "pypi":
        return ""
    row = matrix.build_of(torch, f"linux-{machine.system.arch.value or 'x86_64'}")
    return matrix.index_url(row) if row else None
