"""Known issues of packages, and those without a slug of their own (GPD428, GPD430, GPD440, GPD450)."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.check import Verdicts
from gpudoctor.finding import Device, Fix, ReplaceTorch, by_hand
from gpudoctor.frameworks.torch import builds, check
from gpudoctor.machine import Torch
from gpudoctor.matrix.versions import at_least, figures
from gpudoctor.situation import Situation
from gpudoctor.situation.issue_findings import GENERAL, of_slug

BRINGS_ITS_PTXAS = ("ngc", "jetson", "conda", "conda-forge", "distribution")
"""Origins of torch whose Triton uses the ptxas of their own CUDA."""


@check("GPD428", "ptxas-too-old", "packages")
def ptxas_too_old(situation: Situation) -> Verdicts:
    """Triton's ptxas does not know this GPU.

    ## Why it matters
    torch.compile and Triton kernels fail with "Value 'sm_121a' is not defined for option 'gpu-name'".

    ## How it is judged
    By the known issues in the matrix: GPU and version of Triton. Builds of torch that bring a ptxas of their own
    (NGC, Jetson, conda, distributions) are not judged, nor builds without code for the GPU.

    ## Fix safety
    A torch with a newer Triton replaces the installed one. The variable makes Triton use the ptxas of an installed
    toolkit; nothing else changes.
    """
    if situation.torch is not None and situation.torch.origin in BRINGS_ITS_PTXAS:
        return
    issues = tuple(of_slug(situation, "ptxas-too-old"))
    if not issues:
        return
    from gpudoctor.frameworks.torch.gpu_coverage import fits

    without_code = [Device.of(fit.gpu) for fit in fits(situation) if fit.fails]
    for found in issues:
        if all(device in without_code for device in found.devices):
            continue  # nothing gets as far as Triton
        yield replace(found, fixes=_ptxas_fixes(situation, found.fixes[0]))


def _ptxas_fixes(situation: Situation, variable: Fix) -> tuple[Fix, ...]:
    """Another torch, whose Triton knows the GPUs, and the variable that names the ptxas of the installed toolkit.

    The variable comes first where that ptxas is known to know the GPUs. Where it does not, or none is installed, the
    variable would change nothing: Triton then falls back to its own.
    """
    from gpudoctor.frameworks.torch.installed_build import better_torch

    torch = situation.torch
    others = tuple(fix for fix in better_torch(situation) if torch and _installs_another(fix, torch))
    toolkit, needed = situation.machine.nvidia.ptxas, _cuda_needed(situation)
    if toolkit.undecided or needed is None:
        return (*others, variable)
    if toolkit.value is not None and at_least(toolkit.value, needed):
        return (variable, *others)
    text = f"Install the CUDA toolkit {needed} or newer, then: {variable.title}"
    return (*others, by_hand("Install a newer CUDA toolkit", text))


def _installs_another(fix: Fix, torch: Torch) -> bool:
    installs = [remedy for remedy in fix.remedies if isinstance(remedy, ReplaceTorch)]
    return any(not torch.is_build(remedy.version, remedy.build) for remedy in installs)


def _cuda_needed(situation: Situation) -> str | None:
    """The first CUDA that knows all usable NVIDIA GPUs."""
    rows = [situation.matrix.gpus.capability(gpu.arch.value) for gpu in situation.usable_of("nvidia")]
    return max((row.first_cuda for row in rows if row), key=figures, default=None)


@check("GPD430", "miopen-kdb-missing", "packages")
def miopen_kdb_missing(situation: Situation) -> Verdicts:
    """MIOpen has no precompiled kernels for this GPU.

    ## Why it matters
    The first convolutions are slow because MIOpen compiles their kernels; it prints "Missing system database file".

    ## How it is judged
    By the known issues in the matrix.

    ## Fix safety
    Nothing needs to be done.
    """
    yield from of_slug(situation, "miopen-kdb-missing")


@check("GPD440", "rocm-mem-efficient-attention", "packages")
def rocm_mem_efficient_attention(situation: Situation) -> Verdicts:
    """Memory-efficient attention in this ROCm build computes wrong values.

    ## Why it matters
    Results are wrong without any error: corrupted images, diverging training.

    ## How it is judged
    By the known issues in the matrix: torch and ROCm.

    ## Fix safety
    Another torch without the issue replaces the installed one, if there is one. The math backend of
    scaled_dot_product_attention is slower and needs more memory.
    """
    for found in of_slug(situation, "rocm-mem-efficient-attention"):
        yield builds.without_issue(situation, found)


@check("GPD450", GENERAL, "packages")
def known_issue(situation: Situation) -> Verdicts:
    """A known issue in the compatibility matrix affects this machine.

    ## Why it matters
    The matrix row says it.

    ## How it is judged
    Every condition of the row must match the known facts of the machine. A row whose condition is enough counts as
    the row says. One that needs a certain workload is a note. One that needs its symptom counts only with that line
    in the kernel log of this boot. An issue whose workaround is already set is not reported. Rows for a cause with a
    check of its own belong to that check.

    ## Fix safety
    The matrix row says it. What a build of torch has is fixed by another one without it, if there is one.
    """
    for found in of_slug(situation, GENERAL):
        yield builds.without_issue(situation, found)
