"""What an install command asks for, and what is installed already."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import TRITONS, closure, normalised, parsed, requirements_here
from gpudoctor.finding import ReplaceTorch
from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.frameworks.torch.compiled_packages import built_for
from gpudoctor.machine import Distribution, Machine, ProjectPackage, Torch, TorchAsked
from gpudoctor.machine.torch import COMPANIONS, TORCH_AND_COMPANIONS
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import figures, local_version, major_of, package_matches
from gpudoctor.safe_arguments import is_name, is_version
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


class Wanted(Struct, frozen=True):
    """Packages that one command installs, the index that it takes them from ("": the package index), and why."""

    packages: tuple[PackageSpec, ...]
    index: str = ""
    why: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The packages as pip and uv take them."""
        return tuple(item.text for item in self.packages)

    @property
    def torch(self) -> PackageSpec | None:
        return next((item for item in self.packages if item.name == "torch"), None)

    @property
    def decisive(self) -> str:
        """The package by which the place of all of them in a project is found."""
        return "torch" if self.torch else self.packages[0].name


PLAIN_REQUIREMENT = r"[A-Za-z0-9][\w.-]*(\[[\w,-]+\])?([<>=!~]=?=?[\w.*+!]+(,[<>=!~]=?=?[\w.*+!]+)*)?"
"""A requirement that stands in a file as it is written here: no spaces, no marker, no URL."""


def would_stay(machine: Machine, item: PackageSpec) -> bool:
    """Whether the installed version satisfies the requirement although another build is needed. Extras are added to
    the same build."""
    found = machine.installed(item.name)
    if found is None or not item.spec.startswith("==") or item.extra:
        return False
    wanted, _, build = item.spec.removeprefix("==").partition("+")
    return build in ("", local_version(found.version)) and package_matches(f"=={wanted}", found.version)


def frameworks_over(situation: Situation, wanted: tuple[PackageSpec, ...]) -> tuple[PackageSpec, ...]:
    """The installed frameworks that require any of these packages, in their versions and builds."""
    names = {item.name for item in wanted}
    found = []
    for one in situation.frameworks:
        build, package = one.build, one.distribution or situation.machine.installed(one.name)
        if package is None or package.name in names:
            continue
        required = closure((package.name,), situation.machine.installed, situation.markers)
        if names.isdisjoint(each.what.name for each in required):
            continue
        install = build.install if build and build.install else package.name
        extra = build.extra if build and build.install else ""
        found.append(PackageSpec(name=install, spec=f"=={package.version}", extra=extra))
    return tuple(found)


def torch_to_keep(situation: Situation, wanted: tuple[PackageSpec, ...]) -> tuple[PackageSpec, ...]:
    """The installed torch, where an extra brings libraries of CUDA: unless it is named as well, an installer may take
    newer ones than those that it pins. Not where the extra is known to ask for others."""
    torch = situation.machine.installed("torch")
    extras = {(item.name, item.extra) for item in wanted if item.extra}
    brought = any((row.install, row.extra) in extras for row in situation.matrix.tables.framework_builds)
    if torch is None or not brought or torch.installer == "conda" or any(item.name == "torch" for item in wanted):
        return ()
    pinned = {
        what.name: what for what in requirements_here(torch, situation.markers) if what.name.startswith("nvidia-")
    }
    for name, extra in extras:
        package = situation.machine.installed(name)
        asked = requirements_here(package, situation.markers, frozenset(extra.split(","))) if package else ()
        pins = ((what, pinned[what.name].specifier.removeprefix("==")) for what in asked if what.name in pinned)
        if any(not what.admits(version) for what, version in pins):
            return ()
    return (PackageSpec(name="torch", spec=f"=={torch.version}"),) if pinned else ()


def pinning_another(situation: Situation, version: str) -> list[str]:
    """Installed packages whose requirements the new torch does not meet."""
    found: dict[str, str] = {}
    for one in situation.machine.packages:
        if one.name in TORCH_AND_COMPANIONS:
            continue
        for dependency in requirements_here(one, situation.markers):
            if dependency.name == "torch" and is_version(version) and not dependency.admits(version):
                found.setdefault(one.name, f"{one.name} {one.version} ({dependency.specifier})")
    return list(found.values())


def compiled_for_another(situation: Situation, remedy: ReplaceTorch) -> list[str]:
    """Installed packages that were compiled here, or for a torch that is unknown: for another release line, or
    another CUDA or ROCm, they must be compiled again."""
    torch, machine = situation.torch, situation.machine
    if torch is None or not _other_abi(torch, remedy):
        return []
    names = {row.package for row in situation.matrix.tables.extension_builds}
    names |= {one.package for one in machine.extensions if one.of_torch}
    listed = (one for one in machine.packages if one.name in names - set(TORCH_AND_COMPANIONS))
    return [
        f"{one.name} {one.version} (nothing tells for which torch it was compiled: compile it again for torch "
        f"{remedy.version}, or install a wheel for it)"
        for one in listed
        if not built_for(situation, one)[0]
    ]


def _other_abi(torch: Torch, remedy: ReplaceTorch) -> bool:
    line, cuda = figures(torch.release)[:2], cuda_of(remedy.build)
    return line != figures(remedy.version)[:2] or major_of(torch.cuda) != major_of(cuda)


def rivals(situation: Situation, remedy: ReplaceTorch) -> tuple[Distribution, ...]:
    """Installed packages, built for another vendor or CUDA, that own files of the new build under another name.
    Whichever is installed or removed last breaks the other: what lies in one folder with them goes, too, and is
    installed anew."""
    own = _own_tritons(remedy, situation.matrix)
    cuda = re.fullmatch(r"cu(\d\d)\d", remedy.build)
    listed = tuple(one for one in situation.machine.packages if one.installer != "conda")
    folder = situation.matrix.shared_folder
    folders: set[str] = set()
    for one in listed:
        other_cuda = cuda and one.name.startswith("nvidia-") and one.name.rpartition("-cu")[2] != cuda[1]
        other_triton = bool(own) and one.name in TRITONS and one.name not in own
        if other_cuda or other_triton:
            folders.add(folder(one.name))
    folders.discard("")
    return tuple(one for one in listed if folder(one.name) in folders) if folders else ()


def _own_tritons(remedy: ReplaceTorch, matrix: Matrix) -> tuple[str, ...]:
    """The tritons that may belong to a build; empty if none conflicts with it."""
    if remedy.build.startswith("cu"):
        return ("triton",)
    if not remedy.build.startswith("rocm"):
        return ()
    if remedy.extra:
        return ("triton",)
    named = rocm_triton(remedy, matrix)
    return (named,) if named else ("pytorch-triton-rocm", "triton-rocm")


def rocm_triton(remedy: ReplaceTorch, matrix: Matrix) -> str:
    """The name of the triton of a ROCm build; "" if it is unknown."""
    row = matrix.torch.companion(remedy.version)
    return (row.triton_rocm_package or "") if row and remedy.build.startswith("rocm") else ""


def in_a_named_index(situation: Situation, remedy: ReplaceTorch) -> ReplaceTorch:
    """The same build from the index for this build alone, if there is one. A project may have bound torch to another
    index, where a version without local part would then be looked up."""
    if remedy.index_url or remedy.origin != "pypi":
        return remedy
    for row in situation.matrix.torch.builds(situation.platform):
        if (row.version, row.build) == (remedy.version, remedy.build) and (
            url := situation.matrix.torch.index_url(row)
        ):
            return replace(remedy, origin=row.origin, index_url=url)
    return remedy


def named_by_project(machine: Machine, name: str) -> tuple[ProjectPackage, ...]:
    """Where pyproject.toml names a package that is installed."""
    return tuple(one for one in machine.examined.project_packages if one.name == normalised(name))


def places_that_ask(machine: Machine, name: str = "torch") -> tuple[TorchAsked, ...]:
    """Where pyproject.toml, that of a workspace's member, or the Pipfile asks for a package, by names that can be
    arguments; for torch where it does not."""
    asked = machine.examined.torch_asked
    if name != "torch" and (named := named_by_project(machine, name)):
        asked = tuple(TorchAsked("pyproject.toml", one.name, one.group, one.extra) for one in named)
    return tuple(
        line
        for line in asked
        if (line.file in ("pyproject.toml", "Pipfile") or _pinned_by_a_member(line))
        and (not line.group or is_name(line.group))
        and (not line.extra or is_name(line.extra))
    )


def _pinned_by_a_member(line: TorchAsked) -> bool:
    """A plain "torch" of a workspace's member takes whatever the project chooses."""
    return line.file.endswith("/pyproject.toml") and re.search(r"[<>=~!@]", line.requirement) is not None


def several_decide(machine: Machine, name: str = "torch") -> bool:
    """Whether a person has to change the project: several places, or a member of its workspace, name a package."""
    asked = places_that_ask(machine, name)
    return len(asked) > 1 or any("/" in line.file for line in asked)


def index_of_torch(situation: Situation) -> str | None:
    """Index that the installed torch came from; None if it is unknown."""
    torch = situation.torch
    if torch is None:
        return ""
    if torch.origin == "pypi":
        return ""
    row = situation.build_of(torch)
    return situation.matrix.torch.index_url(row) if row else None


def is_of_another_torch(situation: Situation, companion: Distribution) -> bool:
    """Whether a torchvision, say, is of another build than torch here, or requires another release."""
    torch = situation.torch
    if torch is None or companion.name not in COMPANIONS:
        return False
    label = local_version(companion.version)
    required = (one for line in companion.requires if (one := parsed(line)) and one.name == "torch")
    return (bool(label) and label != torch.build) or not all(one.admits(torch.version) for one in required)
