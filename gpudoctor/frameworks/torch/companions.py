"""torchvision and torchaudio for a torch build, only where they are installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.finding import ReplacePackage, ReplaceTorch
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX
from gpudoctor.machine import Distribution, Torch
from gpudoctor.machine.torch import COMPANIONS, CompanionName
from gpudoctor.matrix.versions import figures, local_version, public_version
from gpudoctor.situation import Situation
from gpudoctor.situation.installer import refusal

if TYPE_CHECKING:
    from gpudoctor.frameworks.torch.candidates import Choice
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Companion

Together = tuple[tuple[str, str], ...]


def pairing(
    situation: Situation, choice: Choice | ReplaceTorch, also: tuple[str, ...] = ()
) -> tuple[Together, tuple[ReplacePackage, ...]]:
    """(name, version) of the companions to install with a build, and those that its index does not have.

    Covers the installed companions, and those that `also` names.

    A companion of an older torch release that works with later ones (torchaudio 2.11) lies only in the indexes of its
    own release, and in AMD's. Where several versions pair, the minor release is named ("0.29.*").
    """
    row = situation.matrix.torch.companion(choice.version)
    if row is None:
        return (), ()
    together: list[tuple[str, str]] = []
    apart: list[ReplacePackage] = []
    for name, version in (("torchvision", row.torchvision), ("torchaudio", row.torchaudio)):
        installed = situation.machine.installed(name)
        if not version or (installed is None and name not in also):
            continue
        if name == "torchaudio" and not _in_its_index(situation, version, choice):
            fits = installed and situation.matrix.torch.companion_fits(
                "torchaudio", installed.version, choice.version
            )
            if fits is not True:
                why = f"pairs with torch {choice.version}"
                apart.append(ReplacePackage(name=name, specifier=f"=={version}", why=why))
            continue
        several = name == "torchvision" and bool(row.torchvision_also)
        together.append((name, f"{version.rpartition('.')[0]}.*" if several else version))
    return tuple(together), tuple(apart)


def paired_versions(situation: Situation, choice: Choice) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, versions, one of which is installed) of the companions that a build brings along."""
    row = situation.matrix.torch.companion(choice.version)
    also = row.torchvision_also if row else ()
    return tuple(
        (name, (row.torchvision or version, *also) if row and version.endswith(".*") else (version,))
        for name, version in pairing(situation, choice)[0]
    )


def of_this_torch(situation: Situation, name: str) -> tuple[str, str] | None:
    """Version and index of the torchvision or torchaudio that belongs to the installed torch. Where several do, it is
    the one that is here."""
    torch = situation.torch
    row = situation.matrix.torch.companion(torch.version) if torch else None
    if torch is None or row is None or not row.releases_of(name):
        return None
    wanted = _fitting_release_here(situation, torch, name) or matching_release(situation, row, name)
    build = situation.build_of(torch)
    index = situation.matrix.torch.index_url(build) if build else ""
    return (f"{wanted}+{torch.build}" if index and torch.build else wanted), index


def matching_release(situation: Situation, row: Companion, name: str) -> str:
    """The best torchvision or torchaudio of a torch that the installer's configuration admits; the best of all where
    it admits none, and "" where there is none."""
    releases = row.releases_of(name)
    return next((one for one in releases if not refusal(situation, name, one)), releases[0] if releases else "")


def _fitting_release_here(situation: Situation, torch: Torch, name: str) -> str | None:
    installed, package = situation.machine.installed(name), next(one for one in COMPANIONS if one == name)
    releases = [public_version(one.version) for one in (installed, *installed.twins)] if installed else []
    fits = situation.matrix.torch.companion_fits
    return next((one for one in releases if fits(package, one, torch.version)), None)


def mismatch(situation: Situation, package: CompanionName) -> str | None:
    """Why an installed torchvision or torchaudio is not for this torch: its build, or "" for its release. None if it
    is, or not known."""
    torch, installed = situation.torch, situation.machine.installed(package)
    if torch is None or installed is None or installed.installer == "conda":
        return None
    ours = torch.origin in FROM_AN_INDEX
    if not ours and not (torch.origin in _RELEASED_ELSEWHERE and _is_a_wheel_of_the_index(installed)):
        return None
    release = torch.release.partition(".dev")[0]
    if situation.matrix.torch.companion_fits(package, installed.version, release) is False:
        return ""
    return _other_build(situation, torch, installed) if ours else None


_RELEASED_ELSEWHERE = ("conda-forge", "conda", "distribution", "nightly")
"""Origins whose torch has the interfaces of its release, or of that to come."""


def _is_a_wheel_of_the_index(installed: Distribution) -> bool:
    return installed.installer in ("pip", "uv") and not installed.direct_url and not local_version(installed.version)


def _other_build(situation: Situation, torch: Torch, installed: Distribution) -> str | None:
    """Why a companion of the right version is a build for other hardware; None if it is not, or unknown."""
    matrix, label = situation.matrix, local_version(installed.version)
    if not label and not is_stable_torchaudio(matrix, installed.name, installed.version):
        label = _index_build(situation, torch, installed) or ""
    if not builds_differ(matrix, installed.name, installed.version, label, torch.build or ""):
        return None
    return f"it is a build for {label}, torch one for {torch.build}"


def builds_differ(matrix: Matrix, name: str, version: str, theirs: str, ours: str) -> bool:
    """Whether a torchvision or torchaudio of a build ("cu126") does not work beside a torch of another one."""
    # A stable ABI holds for other releases of torch, not for other hardware: torchvision's library needs CUDA's
    # runtime of its build. torchaudio has no code for GPUs, but compares the CUDA that it was compiled with.
    exact = name == "torchaudio" and figures(public_version(version)) >= (2,)
    one, other = _kind(theirs, exact), _kind(ours, exact)
    if one is None or other is None or one == other:
        return False
    return not is_stable_torchaudio(matrix, name, version) or (one[0], other[0]) == ("cuda", "cuda")


def is_stable_torchaudio(matrix: Matrix, name: str, version: str) -> bool:
    """Whether it is a torchaudio that works with later releases of torch, of whatever build where it names none."""
    return name == "torchaudio" and any(
        row.package == name and figures(public_version(version)) >= figures(row.version)
        for row in matrix.tables.stable_companions
    )


def _index_build(situation: Situation, torch: Torch, installed: Distribution) -> str | None:
    """The build of a companion without local part: from the package index, for the index's own torch."""
    release = situation.matrix.torch.release(torch.version)
    index = installed.installer in ("pip", "uv") and not installed.direct_url
    if not index or situation.platform != "linux-x86_64" or release is None or not release.cuda:
        return None
    return "cu" + release.cuda.replace(".", "")


def _kind(build: str, exact: bool) -> tuple[str, int] | None:
    """What must be equal in two builds: maker and major release of the runtime; with `exact` also CUDA's minor."""
    cuda = re.match(r"cu(\d{1,3})(\d)(?:\D|$)", build)
    rocm = re.match(r"rocm(\d{1,9})", build)
    if cuda:
        return "cuda", int(cuda[1] + cuda[2] if exact else cuda[1])
    if rocm:
        return "rocm", int(rocm[1])
    return ("cpu", 0) if build == "cpu" else None


def _in_its_index(situation: Situation, version: str, choice: Choice | ReplaceTorch) -> bool:
    """Whether the index of a build has this torchaudio: the torch release of that number has the same build."""
    return choice.origin == "amd" or any(
        row.version == version and row.build == choice.build and row.origin == choice.origin
        for row in situation.matrix.torch.builds(situation.platform)
    )
