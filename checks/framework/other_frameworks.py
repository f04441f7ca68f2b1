"""Frameworks beside torch: CPU builds, builds for other GPUs, variables (GPD460, GPD463, GPD464)."""

from __future__ import annotations

import re

from msgspec import Struct

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import (
    Device,
    Evidence,
    Finding,
    Fix,
    Manual,
    Severity,
    UnsetVariable,
)
from gpudoctor.frameworks.gpu_builds import builds_for, installs
from gpudoctor.frameworks.others import any_installed, gpu_names, sharing_frameworks, version_evidence, works_beside
from gpudoctor.machine import Gpu, Vendor
from gpudoctor.matrix.rows import FrameworkVariable
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.no_kernel_driver import computes


def _gpus_to_use(situation: Situation) -> tuple[Gpu, ...]:
    """The usable GPUs without the graphics of a processor; NVIDIA's integrated GPUs are there to compute."""
    return tuple(gpu for gpu in situation.usable if gpu.vendor == "nvidia" or not gpu.integrated)


@check("GPD460", "framework-cpu-only", "framework", needs=any_installed)
def framework_cpu_only(situation: Situation) -> Verdicts:
    """A CPU build of a framework is installed although a GPU is usable.

    ## Why it matters
    JAX, TensorFlow, ONNX Runtime and others then compute on the processor and say nothing, or print
    one line that is easily overlooked.

    ## How it is judged
    By the installed packages and the framework's own build record. It is a warning if a build of the framework
    supports a usable GPU, an error if its GPU build is required or it was asked to compute. It is a note if another
    framework in this environment uses the GPU, if another package brought the framework along for CPU work (as many
    do with ONNX Runtime), or if no build supports the GPU. That two packages own its files is a problem of its own.

    ## Fix safety
    Adds the GPU build's packages, in the framework's own version where an index has it.
    """
    gpus = _gpus_to_use(situation)
    shared = sharing_frameworks(situation)
    for one in situation.others if gpus else ():
        if one.vendor is not None or one.row is None or not one.has_cpu_build or one.name in shared:
            continue
        served = tuple(gpu for gpu in gpus if builds_for(situation, one.name, (gpu,)))
        brought = one.row.gpu == "sometimes" and not (one.files and one.files.requested)
        severity: Severity = "note" if not served or brought or works_beside(situation, one) else "warning"
        severity = "error" if served and _is_meant(situation, one) else severity
        yield Finding(
            severity=severity,
            message=f"{one.title} {one.version} is a CPU build: it does not use {gpu_names(served or gpus)}."
            + ("" if served else f" No build of {one.title} supports it."),
            saw="CPU build",
            want=f"a build for {'NVIDIA' if (served or gpus)[0].vendor == 'nvidia' else 'AMD'} GPUs",
            subject=f"{one.title} {one.version}",
            devices=tuple(map(Device.of, served)),
            framework=one.name,
            evidence=version_evidence(one),
            fixes=installs(situation, one, served),
        )


def _is_meant(situation: Situation, framework: InstalledFramework) -> bool:
    """Whether a person or a job asks that this framework computes on a GPU."""
    smoke = situation.machine.smoke
    required = any(one.framework == framework.name and one.field.kind == "build" for one in situation.required)
    return required or (smoke is not None and smoke.asked and smoke.framework == framework.name)


@check("GPD463", "framework-other-vendor", "framework", needs=any_installed)
def framework_other_vendor(situation: Situation) -> Verdicts:
    """A framework is built for the GPUs of another vendor.

    ## Why it matters
    A CUDA build sees no AMD GPU, a ROCm build no NVIDIA GPU: the framework computes on the CPU, or stops.

    ## How it is judged
    The build is for one vendor, all usable GPUs are the other's, and there is none of its own that a fix could make
    usable. A package that serves machines without a GPU as well is a note.

    ## Fix safety
    Replaces the build's package; the framework keeps its version where an index has it.
    """
    gpus = _gpus_to_use(situation)
    for one in situation.others if gpus else ():
        own = [gpu for gpu in situation.machine.of_vendor(one.vendor or "nvidia") if not gpu.reserved]
        if one.vendor is None or any(computes(situation, gpu) for gpu in own):
            continue
        name = "NVIDIA" if one.vendor == "nvidia" else "AMD"
        yield Finding(
            severity="error" if one.meant_for_gpu and not works_beside(situation, one) else "note",
            message=f"{one.text} is built for {name} GPUs: it cannot use {gpu_names(gpus)}.",
            saw=f"a build for {name} GPUs",
            want=f"a build for {'AMD' if one.vendor == 'nvidia' else 'NVIDIA'} GPUs",
            subject=f"{one.title} {one.version}",
            framework=one.name,
            evidence=version_evidence(one),
            fixes=installs(situation, one, gpus)
            or (Fix("Use another framework", (Manual(f"No index has a build of {one.title} for these GPUs."),)),),
            supersedes=("framework-cuda-libs-missing",),
        )


@check("GPD464", "framework-variable", "framework")
def framework_variable(situation: Situation) -> Verdicts:
    """A variable keeps a framework from the GPU, or makes it fail.

    ## Why it matters
    JAX_PLATFORMS, XLA_FLAGS, PYTORCH_ALLOC_CONF and the like stay in shells, images and job scripts after the day
    they were needed. A value that a newer release does not know ends some of them with SIGABRT.

    ## How it is judged
    The matrix names values and what they do. A value that keeps a GPU build on the CPU is a warning, because somebody
    may have chosen it; one that makes the framework stop is an error. Without a usable GPU only what makes any build
    stop is reported, and nothing in a CPU build for a value that asks for the CPU.

    ## Fix safety
    Unsets the variable. Whoever set it must take it out of the place where it is set.
    """
    for row in situation.matrix.tables.framework_variables:
        value = situation.variable(row.variable)
        one = _installed(situation, row.framework) if value is not None else None
        if one is None or value is None or not re.fullmatch(row.pattern, value) or not _counts(situation, row, one):
            continue
        yield Finding(
            severity=row.severity,
            message=f"{row.variable}={value}: {row.meaning}.",
            saw=f"{row.variable}={value}",
            want=f"{row.variable} unset",
            subject=row.variable,
            framework=row.framework,
            evidence=(Evidence(row.variable, value, "environment"), Evidence(row.framework, one.version, one.source)),
            fixes=(Fix(f"Unset {row.variable}", (UnsetVariable(row.variable, why=f"{one.title} chooses itself"),)),),
            refs=(row.source,),
            supersedes=("torch-import-fails",) if row.framework == "torch" else (),
        )


class _Installed(Struct, frozen=True):
    """An installed framework, torch or another one."""

    title: str
    version: str
    vendor: Vendor | None
    source: str


def _installed(situation: Situation, name: str) -> _Installed | None:
    torch = situation.torch
    if name == "torch":
        return _Installed("torch", torch.version, situation.built_for, torch.source) if torch else None
    one = next((one for one in situation.others if one.name == name), None)
    return _Installed(one.title, one.version, one.vendor, one.source) if one else None


def _counts(situation: Situation, row: FrameworkVariable, one: _Installed) -> bool:
    """Whether a value is wrong for what is installed."""
    if row.version is not None and not package_matches(row.version, one.version):
        return False
    beside = situation.machine.installed(row.package) if row.package else None
    if row.package and (beside is None or not package_matches(row.package_version or "", beside.version)):
        return False
    if row.without and situation.machine.installed(row.without) is not None:
        return False
    if row.builds == "any":
        return True
    if row.builds == "cpu":
        return one.vendor is None
    if row.unless is not None and row.unless == one.vendor:
        return False
    return bool(situation.usable) and not (row.unless is None and one.vendor is None)
