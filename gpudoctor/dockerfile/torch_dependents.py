"""Packages that bring a torch along: which one they require, and which release is for one that is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.installs import PipInstall
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.torch_requests import TorchRequest, configured_from, install_request
from gpudoctor.dockerfile.torch_wheels import installed_by
from gpudoctor.dockerfile.unreadable_commands import copies_environment, installs_unread
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.versions import package_matches

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Companion, TorchDependent

_TORCH_ALONE = re.compile(r"install (?:-\S+ )*(?:\S*/)?(?:py)?torch-\d[^ /]*\.whl$")
"""A command that installs a wheel file of torch, and nothing else."""
_PINNING = ("vllm-torch-abi", "xformers-mismatch")
"""Rows whose packages require exactly that torch in their metadata."""


@lru_cache
def required_by(image: Image, matrix: Matrix) -> tuple[TorchRequest, ...]:
    """Commands that install a package which requires certain torches (vLLM, xformers, torchvision) or any torch, and
    do not name torch themselves: pip installs such a torch along."""
    configured = configured_from(image)
    companions = _Companions(image, matrix)
    found: list[TorchRequest] = []
    unread = copies_environment(image) is not None
    there = image.facts.has_torch
    for step in image.steps:
        install = step.pip
        unread = unread or installs_unread(image, step)
        if not step.installs or install.elsewhere or "--no-deps" in install.flags:
            continue
        if not install.asks_for("torch"):
            own = install_request(step, install, Requirement("torch"), image, configured)
            exact = list(_required(install, own, companions, matrix))
            if not exact and not unread and not is_constrained(image, step):
                exact = list(_left_open(install, own, image, matrix, there))
            found += exact
        there = there or bool(found) or install.asks_for("torch") is not None
        companions.after(step)
    return tuple(found)


def _required(
    install: PipInstall, own: TorchRequest, companions: _Companions, matrix: Matrix
) -> Iterator[TorchRequest]:
    """The torch of the packages whose version the command names, and of the companions."""
    for one in install.requirements:
        torch = companions.torch_of(one, own) if one.name in COMPANIONS else required_torch(one, matrix)
        if torch:
            yield _brought(own, one, torch, one.exact)


def _left_open(
    install: PipInstall, own: TorchRequest, image: Image, matrix: Matrix, there: bool
) -> Iterator[TorchRequest]:
    """The torch of a package whose newest release is taken. Where that pins a torch, only a torch that is `there`
    tells something: it is replaced. A newer release than the known ones may pin another."""
    if own.maybe or own.source not in ("package index", "index", "both") or install.locked:
        return
    newest = [(one, row.torch) for one in install.requirements if (row := _newest_of(one, matrix)) is not None]
    pinning = [pair for pair in newest if pair[1].startswith("==")]
    users = {row.package for row in matrix.tables.torch_users} if python_of(image) else set()
    open_ = [(one, "") for one in install.requirements if one.name in users]
    if not pinning or there:
        yield from (_brought(own, one, torch, "") for one, torch in (pinning or newest or open_)[:1])
    elif image.facts.vendor == "amd" and own.source == "package index":
        yield _brought(own, pinning[0][0], "", "")  # whatever torch it pins: those of the package index are for CUDA


def _brought(own: TorchRequest, package: Requirement, torch: str, version: str) -> TorchRequest:
    by = f"{package.name} {version}".strip()
    return replace(own, requirement=Requirement("torch", torch, file=package.file), by=by)


def _newest_of(one: Requirement, matrix: Matrix) -> TorchDependent | None:
    """The newest known release that a requirement without an exact version admits."""
    if one.exact or one.specifier.startswith("@"):
        return None
    rows = [
        row
        for row in matrix.tables.torch_dependents
        if row.package == one.name
        and row.slug in _PINNING
        and row.version.startswith("==")
        and package_matches(one.specifier or ">=0", row.version.removeprefix("=="))
    ]
    return max(rows, key=lambda row: _numbers(row.version), default=None)


def pins_torch(name: str, matrix: Matrix) -> bool:
    """Whether the releases of a package require exactly one torch each."""
    return any(row.package == name and row.slug in _PINNING for row in matrix.tables.torch_dependents)


def release_for(name: str, torch: str, matrix: Matrix) -> str:
    """The newest known release of a package that requires exactly that torch; "" if none is known."""
    releases = [
        row.version.removeprefix("==")
        for row in matrix.tables.torch_dependents
        if row.package == name and row.version.startswith("==") and row.torch == f"=={torch}"
    ]
    return max(releases, key=_numbers, default="")


def _numbers(version: str) -> tuple[int, ...]:
    """Every number of a version: those of a post-release, too."""
    return tuple(map(int, re.findall(r"\d{1,9}", version)))


def is_constrained(image: Image, step: Step) -> bool:
    """Whether constraints may hold the torch that is there: of the command, the file, or an image of NVIDIA."""
    names = {"PIP_CONSTRAINT", "UV_CONSTRAINT"} & (image.settings.keys() | step.command.variables.keys())
    given = {"-c", "--constraint", "--override", "--overrides"} & set(step.pip.flags)
    return bool(names or given) or image.facts.origin == "ngc"


class _Companions:
    """torchvision and torchaudio, as far as the commands before have not installed them yet."""

    def __init__(self, image: Image, matrix: Matrix) -> None:
        self._image, self._matrix = image, matrix
        self._there: set[str] = set(COMPANIONS) if image.facts.has_torch else set()

    def torch_of(self, requirement: Requirement, asked: TorchRequest) -> str:
        """The torch that the metadata of a companion requires: "==2.9.1"; "" if pip installs none, or if which one is
        unknown. `asked` says where the command takes its packages from."""
        constrained = {"PIP_CONSTRAINT", "UV_CONSTRAINT"} & self._image.settings.keys()
        if asked.maybe or constrained:
            return ""
        other = bool(self._image.facts.torch and requirement.exact)
        if requirement.name in self._there and not other:
            return ""
        if requirement.exact:
            return companion_torch(requirement, self._matrix)
        if requirement.specifier or asked.source not in ("package index", "index"):
            return ""
        newest = installed_by(self._image, self._matrix, asked)
        row = self._matrix.torch.companion(newest.version) if python_of(self._image) and newest.known else None
        return (row and _requires(row, requirement.name)) or ""

    def after(self, step: Step) -> None:
        """A command has run. What it may have installed unread may be a companion."""
        if installs_unread(self._image, step) and not _TORCH_ALONE.search(step.command.text):
            self._there.update(COMPANIONS)
        elif not step.command.maybe:
            self._there.update(one.name for one in step.pip.requirements if one.name in COMPANIONS)


def companion_torch(requirement: Requirement, matrix: Matrix) -> str:
    """The torch that a torchvision or torchaudio of an exact version requires; "" if none is known."""
    name = requirement.name
    rows = (row for row in matrix.tables.companions if row.release_of(name) == requirement.release)
    return next((torch for row in rows if (torch := _requires(row, name))), "")


def _requires(row: Companion, name: str) -> str | None:
    return row.torchvision_torch if name == "torchvision" else row.torchaudio_torch


def required_torch(requirement: Requirement, matrix: Matrix) -> str:
    """The one torch that a requirement of an exact version brings: "==2.9.0"; "" if none is known."""
    found = re.fullmatch(r"={2,3}([^*,+]+)", requirement.specifier)
    rows = matrix.tables.torch_dependents if found else ()
    exact = (
        row.torch
        for row in rows
        if row.package == requirement.name
        and row.slug in _PINNING
        and package_matches(row.version, found[1] if found else "")
    )
    return next((torch for torch in exact if re.fullmatch(r"==[\d.]+", torch)), "")
