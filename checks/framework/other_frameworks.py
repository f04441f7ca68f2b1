"""Frameworks beside torch: CPU builds, builds for other GPUs, variables (GPD460, GPD463, GPD464)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Severity, by_hand
from gpudoctor.frameworks.gpu_builds import builds_for, installs
from gpudoctor.frameworks.other_frameworks import finding_of, sharing_frameworks, works_beside
from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.gpu_groups import VENDORS, gpu_names
from gpudoctor.situation.working_gpus import computes


def _gpus_to_use(situation: Situation) -> tuple[Gpu, ...]:
    """The usable GPUs, without the graphics of a processor; NVIDIA's integrated GPUs are for computing."""
    return tuple(gpu for gpu in situation.usable if gpu.vendor == "nvidia" or not gpu.integrated)


@check("GPD460", "framework-cpu-only", "framework")
def framework_cpu_only(situation: Situation) -> Verdicts:
    """A CPU build of a framework is installed although a GPU is usable.

    ## Why it matters
    JAX, TensorFlow, ONNX Runtime and others then compute on the processor and say nothing, or print
    one line that is easily overlooked.

    ## How it is judged
    By the installed packages and the framework's own build record. It is a warning if a build of the framework
    supports a usable GPU, an error if its GPU build is required or it was asked to compute. It is a note if another
    framework in this environment uses the GPU, if another package brought the framework along for CPU work (as many
    do with ONNX Runtime), or if no build supports the GPU. A GPU build of which gpudoctor knows nothing is none for
    the CPU. That two packages own its files is a problem of its own.

    ## Fix safety
    Adds the GPU build's packages, in the framework's own version where an index has it.
    """
    gpus = _gpus_to_use(situation)
    shared = sharing_frameworks(situation)
    for one in situation.others if gpus else ():
        if not one.is_cpu_build or one.row is None or not one.has_cpu_build or one.name in shared:
            continue

        served = tuple(gpu for gpu in gpus if builds_for(situation, one.name, (gpu,)))
        brought = one.row.gpu == "sometimes" and not (one.files and one.files.requested)
        severity: Severity = "note" if not served or brought or works_beside(situation, one) else "warning"
        severity = "error" if served and _is_meant(situation, one) else severity
        yield finding_of(
            one,
            severity,
            message=f"{one.named} is a CPU build: it does not use {gpu_names(served or gpus)}."
            + ("" if served else f" No build of {one.title} supports it."),
            saw="CPU build",
            want=f"a build for {VENDORS[(served or gpus)[0].vendor]} GPUs",
            devices=tuple(map(Device.of, served)),
            fixes=installs(situation, one, served),
        )


def _is_meant(situation: Situation, framework: InstalledFramework) -> bool:
    """Whether a person or a job asks that this framework computes on a GPU."""
    smoke = situation.machine.smoke
    required = any(one.framework == framework.name and one.field.kind == "build" for one in situation.required)
    return required or (smoke is not None and smoke.asked and smoke.framework == framework.name)


@check("GPD463", "framework-other-vendor", "framework")
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
        if one.vendor is None or any(gpu in gpus or computes(situation, gpu) for gpu in own):
            continue

        name = VENDORS[one.vendor]
        yield finding_of(
            one,
            "error" if one.meant_for_gpu and not works_beside(situation, one) else "note",
            message=f"{one.text} is built for {name} GPUs: it cannot use {gpu_names(gpus)}.",
            saw=f"a build for {name} GPUs",
            want=f"a build for {VENDORS['amd' if one.vendor == 'nvidia' else 'nvidia']} GPUs",
            fixes=installs(situation, one, gpus)
            or (by_hand("Use another framework", f"No index has a build of {one.title} for these GPUs."),),
            supersedes=("framework-cuda-libs-missing",),
        )
