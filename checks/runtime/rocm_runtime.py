"""Whether ROCm matches the kernel driver, and whether other AMD GPUs interfere (GPD305, GPD307, GPD308)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts
from gpudoctor.check import check as plain_check
from gpudoctor.finding import Evidence, Finding, Fix, by_hand
from gpudoctor.frameworks.torch import NAME, builds, check
from gpudoctor.frameworks.torch.gpu_coverage import (
    Fit,
    arch_list,
    broken_by_override,
    fits,
    fixes_beside,
    override_misfits,
    process_order,
    show_only,
)
from gpudoctor.frameworks.torch.shadowed_libraries import library_evidence, out_of_the_cache, without_folder
from gpudoctor.machine import Gpu, Library
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation, needs
from gpudoctor.situation.gpu_groups import finding, gpu_names
from gpudoctor.situation.rocm_driver import current_driver, too_far_apart, untested
from gpudoctor.situation.system_rocm import system_rocm

# --- kernel driver ------------------------------------------------------------------------------------------


@plain_check("GPD305", "rocm-version-mismatch", "runtime")
def rocm_version_mismatch(situation: Situation) -> Verdicts:
    """The ROCm of torch or of the system does not match AMD's kernel driver.

    ## Why it matters
    AMD tests ROCm's user space and kernel driver within a window of releases. Outside it calls fail with "invalid
    argument" or hang, or the GPU is not found.

    ## How it is judged
    The check compares the ROCm release of the amdgpu-dkms driver with the ROCm inside the wheel, by AMD's own rule:
    two releases apart before 6.4, one year from 6.4 on. It is a note if patch releases leave the distance open, and
    the driver is older than all that AMD names for this ROCm. The kernel's own driver has no such number and is not
    checked. A ROCm in /opt may differ: without torch it is compared, and the result is a warning. Another ROCm that
    LD_PRELOAD forces into the process is a warning.

    ## Fix safety
    Another kernel driver needs root and a reboot. The alternative replaces torch; it comes first for a newer driver.
    """
    torch, installed = situation.torch, system_rocm(situation)
    rocm = torch.rocm if torch else installed.rocm if installed else None
    if not rocm or not situation.usable_of("amd") or situation.in_wsl:
        return
    driver = too_far_apart(situation, rocm)
    if driver is not None:
        newer = situation.matrix.amd.rocm_driver_is_newer(rocm, driver.release)
        gap = "later than what AMD tests with it" if newer else "too old for it"
        have = f"torch contains ROCm {rocm}" if torch else f"The system's ROCm is {rocm}"
        yield Finding(
            severity="error" if torch else "warning",
            message=f"{have}, but the kernel driver is {driver.text}: {gap}.",
            saw=f"kernel driver {situation.machine.amd.module.value}, {driver.text}",
            want=f"a kernel driver for ROCm {rocm}",
            subject="AMD kernel driver",
            confidence="likely",
            framework=NAME if torch else None,
            evidence=(
                Evidence.of("amd.module", situation.machine.amd.module),
                Evidence("torch.rocm", rocm, torch.source)
                if torch
                else Evidence("ROCm", rocm, installed.path if installed else ""),
            ),
            fixes=_rocm_fixes(situation, rocm, "" if driver.older else driver.release, newer=newer),
            refs=("ROCm compatibility matrix, user and kernel-space support",),
        )
    if torch is None:
        return
    if old := untested(situation, rocm):
        yield Finding(
            severity="note",
            message=f"torch contains ROCm {rocm}, and AMD tests it with newer kernel drivers only: this one is "
            f"{old.text}.",
            saw=f"kernel driver {situation.machine.amd.module.value}, {old.text}",
            want=f"a kernel driver for ROCm {rocm}",
            subject="AMD kernel driver",
            confidence="possible",
            framework=NAME,
            evidence=(Evidence.of("amd.module", situation.machine.amd.module),),
            refs=("ROCm compatibility matrix, user and kernel-space support",),
        )
    for library in situation.environment.libraries.found:
        major = _hip_major(library)
        if library.wins and major is not None and major != figures(rocm)[0]:
            yield Finding(
                severity="warning",
                message=f"{library.via} makes the process load {library.path} of ROCm {major}, but torch was built "
                f"with ROCm {rocm}.",
                saw=library.path,
                want=f"ROCm {rocm} of the wheel",
                subject=library.name,
                framework=NAME,
                evidence=library_evidence(situation, library),
                fixes=(without_folder(situation, library, otherwise=out_of_the_cache(library)),),
            )
            return


def _hip_major(library: Library) -> int | None:
    """The ROCm major of a HIP library, by its name: libamdhip64.so.6 belongs to ROCm 6."""
    found = re.fullmatch(r"libamdhip64\.so\.(\d{1,9})", library.name)
    return int(found[1]) if found else None


def _rocm_fixes(situation: Situation, rocm: str, driver: str, *, newer: bool) -> tuple[Fix, ...]:
    """`driver` is the ROCm of the kernel driver; "" if only a later one is known."""
    fixes = () if not driver else _torch_for(situation, driver) if situation.torch else (_rocm_near(driver),)
    if newer and fixes:
        return fixes
    return (current_driver(situation, rocm), *fixes)


def _torch_for(situation: Situation, driver: str) -> tuple[Fix, ...]:
    from gpudoctor.frameworks.torch.nearest_build import nearest

    gpus = builds.gpus_to_serve(situation, situation.usable_of("amd"))
    choices, _ = builds.candidates(situation, gpus)
    fitting = tuple(c for c in choices if c.rocm and situation.matrix.amd.rocm_driver_fits(c.rocm, driver))
    near = nearest(situation, fitting, situation.torch)
    return tuple(builds.fix_by(situation, choice, situation.torch) for choice in near)


def _rocm_near(driver: str) -> Fix:
    text = f"Install ROCm {driver}, or a release near it; in a container, take an image with that ROCm."
    return by_hand(f"Use a ROCm near {driver}", text, "replaces")


# --- GPUs beside the wanted one --------------------------------------------------------------------


@check("GPD307", "amd-igpu-interferes", "runtime", needs=needs.rocm_torch)
def amd_igpu_interferes(situation: Situation) -> Verdicts:
    """Integrated AMD graphics interfere with the GPU.

    ## Why it matters
    ROCm also counts the graphics of a Ryzen processor, but torch has no code for them. A program that starts on the
    first GPU fails there with "invalid device function", and some libraries fail as soon as they see them.

    ## How it is judged
    The build has no code for the integrated graphics but supports a GPU beside them: a note. It is an error if they
    are the first GPU of a process. A process that a visibility variable limits to the GPU does not see them.

    ## Fix safety
    A variable hides them from this process. Switching them off in the firmware setup also frees memory.
    """
    all_fits = fits(situation)
    served = tuple(fit.gpu for fit in all_fits if fit.served and not fit.gpu.integrated)
    if situation.built_for != "amd" or not served:
        return
    order = process_order(situation)
    for fit in all_fits:
        if not fit.gpu.integrated or not fit.fails:
            continue
        first = bool(order) and order[0].key == fit.gpu.key
        where = "comes first, so programs start on it and fail" if first else "is counted as a GPU"
        lacks = "no code" if fit.carried.runs == "no" else "no rocBLAS kernels"
        yield finding(
            "error" if first else "note",
            (fit.gpu,),
            message=f"The integrated {fit.gpu.name} ({fit.gpu.arch.value}) {where}; this torch has {lacks} for it.",
            saw=f"{len(order) or len(all_fits)} GPUs, including the integrated one",
            want=f"only {gpu_names(served)}",
            evidence=_side_evidence(fit),
            fixes=_without_integrated(situation, served),
            refs=("ROCm/TheRock#3392",),
        )


@check("GPD308", "amd-unsupported-second-gpu", "runtime", needs=needs.rocm_torch)
def amd_unsupported_second_gpu(situation: Situation) -> Verdicts:
    """A second AMD GPU is visible that this torch does not support.

    ## Why it matters
    A program that uses all GPUs fails on it. ROCm releases that do not support it may fail at their start.

    ## How it is judged
    This build has no code for the GPU, but supports another one that comes first.

    ## Fix safety
    A variable hides it from this process.
    """
    all_fits = fits(situation)
    served = tuple(fit.gpu for fit in all_fits if fit.served)
    if situation.built_for != "amd" or not served:
        return
    order = process_order(situation)
    for fit in all_fits:
        first = not order or order[0].key == fit.gpu.key
        if (
            fit.gpu.integrated
            or not fit.fails
            or first
            or override_misfits(fit)
            or broken_by_override(situation, fit)
        ):
            continue
        lacks = "no code" if fit.carried.runs == "no" else "no rocBLAS kernels"
        fixes = fixes_beside(situation, fit, all_fits)
        yield finding(
            "warning",
            (fit.gpu,),
            message=f"This torch has {lacks} for the second GPU {fit.gpu.name} ({fit.gpu.arch.value}): programs "
            "that use all GPUs fail on it.",
            saw=arch_list(fit.carried.code),
            want=fit.gpu.arch.value or "",
            evidence=_side_evidence(fit),
            fixes=(*fixes[-1:], *fixes[:-1]),
            refs=("ROCm/legacy-rocm-build#1881",),
        )


def _side_evidence(fit: Fit) -> tuple[Evidence, ...]:
    return (
        Evidence.of("gpu.arch", fit.gpu.arch),
        Evidence("torch.archs", arch_list(fit.carried.code), fit.carried.source),
    )


def _without_integrated(situation: Situation, served: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    text = (
        "Switch the integrated graphics off in the firmware setup (BIOS/UEFI), unless a screen is connected to them."
    )
    off = by_hand("Switch the integrated graphics off in the firmware setup", text, "reboot")
    show = show_only(situation, served)
    return (show, off) if show else (off,)
