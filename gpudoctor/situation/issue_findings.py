"""Findings from the matrix's known issues: every condition of an issue must match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.dependencies import parsed
from gpudoctor.finding import (
    Device,
    Evidence,
    Finding,
    Fix,
    InstallSystemPackage,
    Manual,
    Reboot,
    ReplacePackage,
    SetVariable,
    Severity,
)
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.plain_text import sentence
from gpudoctor.situation import Situation
from gpudoctor.situation.kernel_log import log_evidence
from gpudoctor.situation.known_issues import (
    about_builds,
    concerned_gpus,
    holds_for,
    holds_here,
    installed_version,
    states_firmware,
    version_beside,
    with_firmware,
    worked_around,
)
from gpudoctor.situation.system_rocm import for_display, system_rocm

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import IssueCondition, KnownIssue

GENERAL = "known-issue"
"""Slug of the issues without one of their own."""


def _concerned(situation: Situation, when: IssueCondition) -> tuple[Gpu, ...]:
    """The usable GPUs that a condition is about. Only GPUs of torch's own vendor count; for another framework, or
    without torch, those that a person computes on, and only for conditions that other programs meet, too."""
    gpus = concerned_gpus(when, situation.usable)
    if not when.vendor or situation.built_for == when.vendor:
        return gpus
    if not _without_torch(when) or (situation.torch is not None and not _of_another_framework(situation, when)):
        return ()
    return tuple(gpu for gpu in gpus if not for_display(situation, gpu))


def _without_torch(when: IssueCondition) -> bool:
    """Whether a condition is about something that matters without torch, too."""
    amds = when.vendor == "amd" and bool(when.rocm or when.kernel)
    return bool(when.packages or when.firmware or amds) and not (when.torch or when.cuda)


def _of_another_framework(situation: Situation, when: IssueCondition) -> bool:
    """Whether a condition is about installed frameworks beside torch, whatever torch is built for."""
    about = {situation.matrix.framework_of_package(wanted.package) for wanted in when.packages}
    return bool(about) and about <= {one.name for one in situation.others}


def _matches(situation: Situation, when: IssueCondition) -> bool:
    """Whether every condition that is given matches. An unknown fact never matches."""
    build = situation.torch or system_rocm(situation)
    return holds_here(when, situation, _concerned(situation, when)) and holds_for(
        when, build, lambda name: _version(situation, name)
    )


def _version(situation: Situation, package: str) -> str | None:
    """The version of an installed package. A torch that is only named, without files, counts as having the Triton and
    the ROCm that it pins."""
    torch = situation.torch
    if package in ("triton", "rocm-sdk-core") and torch is not None and not torch.path:
        return version_beside(situation, torch, package)
    return installed_version(situation, package)


def _symptoms(situation: Situation, row: KnownIssue) -> tuple[LogFault, ...]:
    """Lines of this boot's kernel log that show the row's symptom."""
    faults = situation.machine.log_faults if row.log else ()
    return tuple(fault for fault in faults if fault.kind == row.log and row.xid in (None, fault.xid))


def of_slug(situation: Situation, slug: str) -> Iterator[Finding]:
    """One finding for each row of that slug that matches."""
    for row in situation.matrix.tables.known_issues:
        if row.slug != slug or not _matches(situation, row.when) or worked_around(row, situation):
            continue
        symptoms = _symptoms(situation, row)
        if row.trigger == "symptom" and not symptoms:
            continue
        yield _finding(situation, row, symptoms)


def remarks_on_torch(situation: Situation) -> Iterator[Finding]:
    """The notes that another build of torch would not have."""
    rows = {row.id: row for row in situation.matrix.tables.known_issues}
    for found in of_slug(situation, GENERAL):
        if found.severity == "note" and about_builds(rows[found.subject].when):
            yield found


def firmware_in_question(situation: Situation) -> bool:
    """Whether an issue of some firmware release is about a GPU here, and nothing tells the release."""
    return situation.machine.amd.firmware_package.undecided and any(
        row.when.firmware and any(not states_firmware(row.when, gpu) for gpu in _concerned(situation, row.when))
        for row in situation.matrix.tables.known_issues
    )


def _severity(situation: Situation, row: KnownIssue, seen: bool) -> Severity:
    """An issue of some workloads is a note, unless the row has a cause with its own weight. A log line is about the
    past, and never an error; neither is a ROCm of the system that nothing is known to use."""
    if row.trigger == "workload" and row.slug == GENERAL and not seen:
        return "note"
    unused = situation.torch is None and row.when.rocm is not None
    return "warning" if row.severity == "error" and (row.trigger != "facts" or unused) else row.severity


def _finding(situation: Situation, row: KnownIssue, symptoms: tuple[LogFault, ...]) -> Finding:
    leads = {
        "facts": "Known issue",
        "workload": "Known issue with some workloads",
        "symptom": "Known issue, in the log",
    }
    text = sentence(row.symptom)
    confidence = (
        "certain" if symptoms else {"high": "likely", "medium": "possible", "low": "possible"}[row.confidence]
    )
    gpus = with_firmware(row.when, situation.machine, _concerned(situation, row.when))
    devices = tuple(Device.of(gpu) for gpu in gpus) if row.when.vendor else ()
    return Finding(
        severity=_severity(situation, row, bool(symptoms)),
        message=" ".join(filter(None, (f"{leads[row.trigger]}:", text, row.workaround, _pins(situation, row)))),
        saw=symptoms[-1].line if symptoms else _saw(situation, row),
        want=row.workaround,
        subject=row.id,
        device=devices[0] if len(devices) == 1 else None,
        devices=devices,
        confidence=confidence,  # type: ignore[arg-type]
        evidence=_evidence(situation, row, symptoms),
        fixes=_fixes(situation, row),
        refs=row.refs,
    )


def _pins(situation: Situation, row: KnownIssue) -> str:
    """What torch pins of the packages that another release of would help: pip warns, and installs it all the same."""
    torch = situation.machine.installed("torch")
    lines = (parsed(line) for line in torch.requires) if torch else ()
    named = [wanted.package for wanted in row.when.packages if wanted.package in row.workaround]
    pins = [f"{one.name}{one.specifier}" for one in lines if one and one.name in named and "==" in one.specifier]
    if torch is None or not pins:
        return ""
    return f"torch {torch.version} requires {', '.join(pins)}: pip warns of that, and installs the newer one."


def _saw(situation: Situation, row: KnownIssue) -> str:
    facts = _evidence(situation, row, ())
    return ", ".join(f"{_SPOKEN.get(item.fact, item.fact)} {item.value}".strip() for item in facts)


_SPOKEN = {"gpu.arch": "", "torch.version": "torch"}
"""What a person calls a fact whose value does not tell it; "" where it does."""


def _evidence(situation: Situation, row: KnownIssue, symptoms: tuple[LogFault, ...]) -> tuple[Evidence, ...]:
    when, torch, system = row.when, situation.torch, situation.machine.system
    gpus = with_firmware(when, situation.machine, _concerned(situation, when))[:1]
    found = [Evidence("gpu.arch", gpu.arch.value or "", gpu.arch.source) for gpu in gpus if gpu.arch.value]
    if torch and (when.torch or when.cuda or when.rocm):
        found.append(Evidence.of_torch(torch))
    if torch is None and when.rocm and (rocm := system_rocm(situation)):
        found.append(Evidence("ROCm", rocm.rocm, rocm.path))
    if when.kernel:
        found.append(Evidence.of("kernel", system.kernel))
    if when.driver:
        from gpudoctor.situation.nvidia_driver import cuda_driver

        found.append(Evidence("driver", cuda_driver(situation.machine) or situation.machine.amd.module.value or ""))
    loaded = [gpu for gpu in gpus if states_firmware(when, gpu)]
    found += [
        Evidence(f"{one.name} firmware", f"{one.version:#x}", f"{gpu.source}/fw_version/{one.name}_fw_version")
        for gpu in loaded
        for one in gpu.firmware
        if one.name in when.loaded_firmware
    ]
    if when.firmware and not loaded:
        found.append(Evidence.of("linux-firmware", situation.machine.amd.firmware_package))
    for wanted in when.packages:
        installed = situation.machine.installed(wanted.package)
        found.append(
            Evidence(wanted.package, _version(situation, wanted.package) or "", installed.path if installed else "")
        )
    found += [Evidence(item.name, situation.variable(item.name) or "", "environment") for item in when.env]
    found += log_evidence(situation, symptoms)
    return tuple(found)


def _fixes(situation: Situation, row: KnownIssue) -> tuple[Fix, ...]:
    if row.when.firmware or row.when.loaded_firmware:
        firmware = InstallSystemPackage("linux-firmware", row.firmware, why=row.workaround)
        return (Fix(row.workaround, (firmware, Reboot())),)
    if row.kernel:
        from gpudoctor.situation.kernel_modules import newer_kernel

        return newer_kernel(situation, row.kernel, why=row.workaround)
    settings = tuple(SetVariable(name, value, why=row.symptom) for name, value in row.variables.items())
    packages = tuple(
        ReplacePackage(name, spec, why="a release without the issue") for name, spec in row.install.items()
    )
    return (Fix(row.workaround, (*settings, *packages) or (Manual(row.workaround),)),)
