"""Whether a known issue of the matrix applies to a machine and to a torch build, installed or available. An unknown
fact never matches; neither does an assumption about a described machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gpudoctor.finding import SEVERITIES
from gpudoctor.machine import Gpu, Machine
from gpudoctor.matrix.versions import local_version, major_of, matches, package_matches
from gpudoctor.situation import Situation, answer_once

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import IssueCondition, KnownIssue

Versions = Callable[[str], str | None]
"""Version of a package by its name; None if it is missing or unknown."""

_TORCHS_OWN = r"nvidia-|triton$|pytorch-triton"
"""Packages that come with a torch build; the installed ones say nothing about another build."""
_AMDS_RUNTIME = "rocm-sdk-core"
"""The ROCm that AMD's own wheels of torch pin, in the version that their local part names."""


class Build(Protocol):
    """A torch, installed or available, or the ROCm of the system, which other programs use."""

    @property
    def version(self) -> str: ...
    @property
    def cuda(self) -> str | None: ...
    @property
    def rocm(self) -> str | None: ...


# --- conditions ------------------------------------------------------------------------------------


def concerned_gpus(when: IssueCondition, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that a condition is about."""
    wanted = (*when.gfx, *when.sm)
    ours = (gpu for gpu in gpus if when.vendor in (None, gpu.vendor))
    return tuple(gpu for gpu in ours if not wanted or gpu.arch.value in wanted)


def with_firmware(when: IssueCondition, machine: Machine, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that run the firmware of a condition: by the versions that the driver states, else by the
    linux-firmware package, whose release is a date. All of them, if the condition names no firmware."""
    if not (when.firmware or when.loaded_firmware):
        return gpus
    release = machine.amd.firmware_package.value
    by_package = bool(when.firmware and release and matches(when.firmware, release))
    return tuple(gpu for gpu in gpus if _runs(when, gpu, otherwise=by_package))


def _runs(when: IssueCondition, gpu: Gpu, *, otherwise: bool) -> bool:
    if not states_firmware(when, gpu):
        return otherwise
    return all(gpu.firmware_version(name) in versions for name, versions in when.loaded_firmware.items())


def states_firmware(when: IssueCondition, gpu: Gpu) -> bool:
    """Whether the driver states all versions of a GPU's firmware that a condition compares."""
    return bool(when.loaded_firmware) and when.loaded_firmware.keys() <= {one.name for one in gpu.firmware}


def holds_here(when: IssueCondition, situation: Situation, gpus: tuple[Gpu, ...]) -> bool:
    """Whether a condition matches GPUs, system, driver, firmware and variables; all except torch and packages."""
    firmware = when.firmware or when.loaded_firmware
    needs_gpu = bool(when.vendor or when.gfx or when.sm or when.min_gpus or firmware)
    ours = with_firmware(when, situation.machine, concerned_gpus(when, gpus))
    if needs_gpu and len(ours) < (when.min_gpus or 1):
        return False
    return _system(when, situation) and _driver(when, situation.machine) and _variables(when, situation)


def holds_for(when: IssueCondition, build: Build | None, versions: Versions) -> bool:
    """Whether a condition matches torch and packages."""
    if when.torch is not None and (build is None or not package_matches(when.torch, build.version)):
        return False
    if when.cuda is not None and (build is None or build.cuda is None or not matches(when.cuda, build.cuda)):
        return False
    if when.rocm is not None and (build is None or build.rocm is None or not matches(when.rocm, build.rocm)):
        return False
    installed = ((wanted.specifier, versions(wanted.package)) for wanted in when.packages)
    return all(
        version is not None and (specifier is None or package_matches(specifier, version))
        for specifier, version in installed
    )


def _system(when: IssueCondition, situation: Situation) -> bool:
    system = situation.machine.system
    if when.kernel is not None and not _kernel(when, situation.machine):
        return False
    if when.container is not None and (system.container.undecided or system.container.known != when.container):
        return False
    if when.platform == "wsl2":
        return situation.in_wsl
    return when.platform in (None, situation.platform)


def _kernel(when: IssueCondition, machine: Machine) -> bool:
    """Whether the kernel is one of those named, and its distribution is not known to have patched it."""
    kernel = machine.system.kernel.value
    if kernel is None or machine.assumes("kernel") or not matches(when.kernel or "", kernel):
        return False
    return not any(
        kernel.endswith(f"-{patched.flavour}") and matches(patched.kernel, kernel) for patched in when.patched_kernels
    )


def _driver(when: IssueCondition, machine: Machine) -> bool:
    if when.driver is None:
        return True
    from gpudoctor.situation.nvidia_driver import cuda_driver

    amd = machine.amd.module.value
    if when.vendor == "amd":
        version = None if amd == "in-tree" or machine.assumes("amdgpu driver") else amd
    else:
        version = None if machine.assumes("NVIDIA driver") else cuda_driver(machine)
    return version is not None and matches(when.driver, version)


def _variables(when: IssueCondition, situation: Situation) -> bool:
    values = ((situation.variable(wanted.name), wanted.value) for wanted in when.env)
    return all(value is not None and wanted in (None, value) for value, wanted in values)


def worked_around(row: KnownIssue, situation: Situation) -> bool:
    """Whether the variables of its workaround are set; for a path any value counts."""
    settings = ((situation.variable(name), value) for name, value in row.variables.items())
    return bool(row.variables) and all(have == value or (have and value.startswith("/")) for have, value in settings)


# --- builds that could be installed ----------------------------------------------------------------


@answer_once
def against_builds(situation: Situation, gpus: tuple[Gpu, ...]) -> tuple[KnownIssue, ...]:
    """The issues that can rule out a torch build on these GPUs: by facts alone, or above a note. Issues that need a
    symptom do not count, nor those that no choice of a build avoids."""
    return tuple(
        row
        for row in situation.matrix.tables.known_issues
        if (row.trigger == "facts" or (row.trigger == "workload" and row.severity != "note"))
        and about_builds(row.when)
        and concerned_gpus(row.when, gpus)
        and holds_here(row.when, situation, gpus)
        and not worked_around(row, situation)
    )


def about_builds(when: IssueCondition) -> bool:
    """Whether the choice of a build decides about a condition."""
    own = any(re.match(_TORCHS_OWN, wanted.package) for wanted in when.packages)
    return own or bool(when.torch or when.cuda or when.rocm)


def speaks_against(row: KnownIssue, situation: Situation, build: Build) -> bool:
    """Whether the issue applies to a build, with the packages that it would install."""

    return holds_for(row.when, build, lambda name: version_beside(situation, build, name))


def of_release(situation: Situation, gpus: tuple[Gpu, ...], package: str, version: str) -> tuple[KnownIssue, ...]:
    """The issues that a release of a package has on these GPUs, by facts alone; the worst first."""

    def there(name: str) -> str | None:
        return version if name == package else installed_version(situation, name)

    found = (
        row
        for row in situation.matrix.tables.known_issues
        if row.trigger == "facts"
        and any(wanted.package == package for wanted in row.when.packages)
        and holds_here(row.when, situation, gpus)
        and holds_for(row.when, situation.torch, there)
    )
    return tuple(sorted(found, key=lambda row: SEVERITIES.index(row.severity)))


def of_machine(situation: Situation, gpus: tuple[Gpu, ...]) -> tuple[KnownIssue, ...]:
    """The issues that these GPUs have here by facts alone, whatever is installed: of a kernel, a driver, firmware."""
    return tuple(
        row
        for row in situation.matrix.tables.known_issues
        if row.trigger == "facts"
        and not (about_builds(row.when) or row.when.packages)
        and holds_here(row.when, situation, gpus)
        and not worked_around(row, situation)
    )


def version_beside(situation: Situation, build: Build, name: str) -> str | None:
    """Version of a package where a build that is not installed would be: torch's own come with it."""
    if name == _AMDS_RUNTIME:
        of_rocm = re.match(r"rocm(\d+\.\d+\.\d+(?:a\d+|rc\d+)?)$", local_version(build.version))
        return of_rocm[1] if of_rocm else None
    if not re.match(_TORCHS_OWN, name):
        return installed_version(situation, name)
    release, major = situation.matrix.torch.release(build.version), major_of(build.cuda)
    if release is None:
        return None
    pins = {
        "triton": release.triton,
        f"nvidia-cudnn-cu{major}": release.cudnn,
        f"nvidia-nccl-cu{major}": release.nccl,
    }
    pin = (pins.get(name) or "").removeprefix("==")
    return pin if pin[:1].isdigit() else None


def installed_version(situation: Situation, name: str) -> str | None:
    """Version of an installed package; None if it is missing or unknown."""
    installed = situation.machine.installed(name)
    return installed.version if installed else None
