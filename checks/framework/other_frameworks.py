"""Frameworks beside torch: CPU builds, builds for other GPUs, libraries they lack, variables (GPD460, GPD461,
GPD463 to GPD465, GPD474)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dependencies import parsed
from gpudoctor.finding import (
    Device,
    Evidence,
    Finding,
    Fix,
    Manual,
    ReinstallPackage,
    ReplacePackage,
    Severity,
    UnsetVariable,
)
from gpudoctor.frameworks.gpu_builds import builds_for, install, installs
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of
from gpudoctor.frameworks.torch.system_rocblas import lacks_kernels
from gpudoctor.machine import Distribution, Gpu
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.gpu_groups import finding, together
from gpudoctor.situation.no_kernel_driver import computes


def _has_others(situation: Situation) -> bool:
    return bool(situation.others)


def _works_beside(situation: Situation, framework: InstalledFramework) -> bool:
    """Whether another framework here uses the GPUs, so that this one may be for other work."""
    return any(
        one.meant_for_gpu and one.vendor and situation.usable_of(one.vendor)
        for one in situation.frameworks
        if one.name != framework.name
    )


def _gpus_to_use(situation: Situation) -> tuple[Gpu, ...]:
    """The usable GPUs without the graphics of a processor; NVIDIA's integrated GPUs are there to compute."""
    return tuple(gpu for gpu in situation.usable if gpu.vendor == "nvidia" or not gpu.integrated)


def _evidence(framework: InstalledFramework) -> tuple[Evidence, ...]:
    one = framework.distribution
    return (Evidence(one.name, one.version, one.path),) if one else ()


def _names(gpus: tuple[Gpu, ...]) -> str:
    return ", ".join(dict.fromkeys(gpu.name for gpu in gpus))


@check("GPD460", "framework-cpu-only", "framework", needs=_has_others)
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
    shared = _sharing(situation)
    for one in situation.others if gpus else ():
        if one.vendor is not None or one.row is None or not one.has_cpu_build or one.name in shared:
            continue
        served = tuple(gpu for gpu in gpus if builds_for(situation, one.name, (gpu,)))
        brought = one.row.gpu == "sometimes" and not (one.files and one.files.requested)
        severity: Severity = "note" if not served or brought or _works_beside(situation, one) else "warning"
        severity = "error" if served and _is_meant(situation, one) else severity
        yield Finding(
            severity=severity,
            message=f"{one.title} {one.version} is a CPU build: it does not use {_names(served or gpus)}."
            + ("" if served else f" No build of {one.title} supports it."),
            saw="CPU build",
            want=f"a build for {'NVIDIA' if (served or gpus)[0].vendor == 'nvidia' else 'AMD'} GPUs",
            subject=f"{one.title} {one.version}",
            devices=tuple(map(Device.of, served)),
            framework=one.name,
            evidence=_evidence(one),
            fixes=installs(situation, one, served),
        )


def _is_meant(situation: Situation, framework: InstalledFramework) -> bool:
    """Whether a person or a job asks that this framework computes on a GPU."""
    smoke = situation.machine.smoke
    required = any(one.framework == framework.name and one.field.kind == "build" for one in situation.required)
    return required or (smoke is not None and smoke.asked and smoke.framework == framework.name)


def _sharing(situation: Situation) -> frozenset[str]:
    """Frameworks of which several packages own the same files."""
    listed = situation.environment.distributions.value if situation.environment else None
    names = [one.name for one in listed or ()]
    rows = (row for row in situation.matrix.tables.shared_files if row.framework)
    return frozenset(
        row.framework or "" for row in rows if sum(bool(re.fullmatch(row.packages, name)) for name in names) > 1
    )


@check("GPD461", "framework-libraries-not-found", "framework", needs=_has_others)
def framework_libraries_not_found(situation: Situation) -> Verdicts:
    """A framework cannot find the CUDA libraries that it opens itself.

    ## Why it matters
    JAX and TensorFlow print one line ("Unable to load cuDNN. Is it installed?", "Cannot dlopen some GPU libraries")
    and compute on the CPU. CuPy and CTranslate2 fail at their first operation on the GPU.

    ## How it is judged
    The matrix names the libraries that a build opens when it needs them. The check looks in NVIDIA's wheels, in the
    environment's own folder of libraries, in CUDA toolkits and on the loader's path. It is an error if a usable GPU
    is there. It is a warning if the package serves machines without a GPU as well and another framework uses the GPU.

    ## Fix safety
    Installs the libraries as the framework's own extra names them, or again where only their files are gone; the
    framework keeps its version.
    """
    for one in situation.others:
        lacking = one.files.not_found.value if one.files else None
        if not lacking or one.vendor is None or one.build is None or not situation.usable_of(one.vendor):
            continue
        optional = (
            one.build.default
            and one.row is not None
            and (one.row.gpu == "sometimes" or _works_beside(situation, one))
        )
        fix = _again(situation, one, lacking) or (install(situation, one, one.build) if one.build.extra else None)
        text = f"Install the CUDA {one.cuda} that {one.title} needs, so that the loader finds {', '.join(lacking)}."
        yield Finding(
            severity="warning" if optional else "error",
            message=f"{one.title} {one.version} opens {', '.join(lacking)}, and no folder that it looks in has "
            f"{'it' if len(lacking) == 1 else 'them'}: it cannot use {_names(situation.usable_of(one.vendor))}.",
            saw=f"no {', '.join(lacking)}",
            want=", ".join(lacking),
            subject=f"{one.title} {one.version}",
            slug="framework-cuda-libs-missing",
            framework=one.name,
            evidence=(*_evidence(one), Evidence.of(f"{one.name}.not_found", one.files.not_found))
            if one.files
            else _evidence(one),
            fixes=(fix,) if fix else (Fix(f"Install CUDA {one.cuda}", (Manual(text, risk="replaces"),)),),
            refs=(one.build.source,),
        )


def _again(situation: Situation, one: InstalledFramework, lacking: tuple[str, ...]) -> Fix | None:
    """Installs packages again whose records are there and whose libraries are not: pip takes them for installed."""
    major = (one.cuda or "").partition(".")[0]
    bases = dict.fromkeys(filter(None, map(distribution_of, lacking)))
    found = [situation.machine.installed(name) for base in bases for name in (f"{base}-cu{major}", base)]
    emptied = [package for package in found if package is not None]
    if len(emptied) < len(bases) or not emptied:
        return None
    why = f"its files are gone, and {one.title} needs them"
    remedies = tuple(ReinstallPackage(package.name, package.version, why=why) for package in emptied)
    return Fix("Install these packages again", remedies)


@check("GPD463", "framework-other-vendor", "framework", needs=_has_others)
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
            severity="error" if one.meant_for_gpu and not _works_beside(situation, one) else "note",
            message=f"{one.text} is built for {name} GPUs: it cannot use {_names(gpus)}.",
            saw=f"a build for {name} GPUs",
            want=f"a build for {'AMD' if one.vendor == 'nvidia' else 'NVIDIA'} GPUs",
            subject=f"{one.title} {one.version}",
            framework=one.name,
            evidence=_evidence(one),
            fixes=installs(situation, one, gpus)
            or (Fix("Use another framework", (Manual(f"No index has a build of {one.title} for these GPUs."),)),),
            supersedes=("framework-cuda-libs-missing",),
        )


@check("GPD464", "framework-variable", "framework", needs=_has_others)
def framework_variable(situation: Situation) -> Verdicts:
    """A variable keeps a framework from the GPU, or makes it fail.

    ## Why it matters
    JAX_PLATFORMS, NUMBA_ENABLE_CUDASIM and the like stay in shells, images and job scripts after the day they were
    needed.

    ## How it is judged
    The matrix names values and what they do. A value that keeps a GPU build on the CPU is a warning, because somebody
    may have chosen it; one that makes the framework stop is an error. Without a usable GPU nothing is reported, nor
    in a CPU build for a value that asks for the CPU.

    ## Fix safety
    Unsets the variable. Whoever set it must take it out of the place where it is set.
    """
    frameworks = {one.name: one for one in situation.others}
    for row in situation.matrix.tables.framework_variables:
        one, value = frameworks.get(row.framework), situation.variable(row.variable)
        if one is None or value is None or not re.fullmatch(row.pattern, value) or not situation.usable:
            continue
        if (row.unless is not None and row.unless == one.vendor) or (row.unless is None and one.vendor is None):
            continue
        yield Finding(
            severity=row.severity,
            message=f"{row.variable}={value}: {row.meaning}.",
            saw=f"{row.variable}={value}",
            want=f"{row.variable} unset",
            subject=row.variable,
            framework=one.name,
            evidence=(Evidence(row.variable, value, "environment"), *_evidence(one)),
            fixes=(Fix(f"Unset {row.variable}", (UnsetVariable(row.variable, why=f"{one.title} chooses itself"),)),),
            refs=(row.source,),
        )


@check("GPD465", "framework-library-too-old", "framework", needs=_has_others)
def framework_library_too_old(situation: Situation) -> Verdicts:
    """An NVIDIA library is older than the one a framework was built against.

    ## Why it matters
    JAX refuses it ("Outdated cuDNN installation found") and computes on the CPU; TensorFlow and others refuse a cuDNN
    that is older than the one they were built with. Another framework often pins such a library.

    ## How it is judged
    The extras in the framework's own metadata name these packages. What is installed must be no older than the lowest
    version there. An older cuDNN is an error, as is any of these libraries for JAX; for other frameworks an older
    library is a note.

    ## Fix safety
    Installs a newer release of that one package. Where torch pins another release, pip says so; torch works with a
    newer cuDNN of the same major.
    """
    for one in situation.others:
        if one.vendor != "nvidia" or not situation.usable_of("nvidia") or one.build is None:
            continue
        for owner in _owners(situation, one):
            for name, lowest, specifier in _lowest(owner):
                there = situation.machine.installed(name)
                if there is None or figures(there.version) >= figures(lowest):
                    continue
                cudnn = name.startswith("nvidia-cudnn")
                strict = cudnn or (one.row is not None and one.row.compares_versions)
                yield Finding(
                    severity="error" if strict else "note",
                    message=f"{one.title} {one.version} was built for {name} {lowest} or newer, and "
                    f"{there.version} is installed.",
                    saw=f"{name} {there.version}",
                    want=f"{name}{specifier}",
                    subject=f"{one.title} {one.version}",
                    framework=one.name,
                    evidence=(*_evidence(one), Evidence(name, there.version, there.path)),
                    fixes=(
                        Fix(
                            f"Install a newer {name}",
                            (ReplacePackage(name, specifier, why=f"{one.title} needs it", indirect=True),),
                        ),
                    ),
                    slug="cudnn-mismatch" if cudnn else "",
                )


@check("GPD474", "framework-rocblas-no-arch", "framework", needs=_has_others)
def framework_rocblas_no_arch(situation: Situation) -> Verdicts:
    """The ROCm beside a framework has no kernels for the GPU.

    ## Why it matters
    The plugin of JAX has code for many GPUs. ROCm's wheels for several GPUs have the kernels of rocBLAS and MIOpen in
    a wheel for each (rocm-sdk-device-gfx1151). Without it the first matrix product fails.

    ## How it is judged
    By the kernel files in the environment's _rocm_sdk folders. HSA_OVERRIDE_GFX_VERSION counts. An archive for a
    whole family of GPUs does not tell its targets, and nothing is judged then. Graphics of a processor beside a GPU
    do not count.

    ## Fix safety
    Adds one wheel from the index that the others came from.
    """
    for one in situation.others:
        have = one.files.blas_gfx if one.files and one.vendor == "amd" else None
        if have is None:
            continue
        lacking = (gpu for gpu in situation.usable_of("amd") if lacks_kernels(situation, have, gpu))
        for (name, arch), gpus in together(lacking, lambda gpu: (gpu.name, gpu.arch.value)).items():
            libraries = situation.machine.installed("rocm-sdk-libraries")
            release = f"=={libraries.version}" if libraries else ""
            text = f"Install rocm-sdk-device-{arch}{release} from the index that the rocm-sdk packages came from."
            yield finding(
                "error",
                gpus,
                message=f"{one.title} {one.version} computes with the ROCm wheels beside it: their rocBLAS has no "
                f"kernels for {name} ({arch}).",
                saw=" ".join(have) or "no kernels",
                want=arch or "",
                confidence="likely",
                framework=one.name,
                evidence=(*_evidence(one), Evidence.of("gpu.arch", gpus[0].arch)),
                fixes=(Fix(f"Install the kernels for {arch}", (Manual(text, risk="replaces"),)),),
                refs=("ROCm/TheRock#4578", "ROCm/TheRock#5347"),
            )


def _owners(situation: Situation, one: InstalledFramework) -> tuple[Distribution, ...]:
    """The distributions whose extras name the framework's CUDA libraries."""
    names = dict.fromkeys((one.build.package if one.build else "", one.distribution.name if one.distribution else ""))
    return tuple(found for name in names if (found := situation.machine.installed(name)) is not None)


def _lowest(owner: Distribution) -> Iterator[tuple[str, str, str]]:
    """Name, lowest version and specifier of each of NVIDIA's packages that its extras ask for."""
    for line in owner.requires:
        what = parsed(line) if "extra" in line and "nvidia-" in line else None
        bound = re.search(r"(?:>=|==|~=)([\d.]+)", what.specifier) if what else None
        if what is not None and bound is not None:
            yield what.name, bound[1].rstrip("."), what.specifier
