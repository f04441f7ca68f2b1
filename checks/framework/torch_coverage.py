"""Whether the installed torch has code for the NVIDIA GPUs (GPD402, GPD403, GPD413)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, NotJudged, Severity, by_hand
from gpudoctor.frameworks.torch import builds, check
from gpudoctor.frameworks.torch.coverage import never_published
from gpudoctor.frameworks.torch.gpu_coverage import (
    Fit,
    arch_list,
    confidence,
    equal_fits,
    evidence,
    finding_about,
    fits,
    fixes_beside,
    not_told,
    only_old_ptx,
    torch_for_all,
    weight,
)
from gpudoctor.frameworks.torch.installed_build import REPAIRED_WITH_TORCH, better_torch, build_name
from gpudoctor.isa import cuda_runs
from gpudoctor.machine import Torch
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import driver_options
from gpudoctor.situation.nvidia_driver import refusals

# --- NVIDIA ----------------------------------------------------------------------------------------


@check("GPD402", "torch-no-arch-for-gpu", "framework")
def torch_no_arch_for_gpu(situation: Situation) -> Verdicts:
    """The installed torch is older than the NVIDIA GPU and has no code for it.

    ## Why it matters
    `torch.cuda.is_available()` says True, and the first kernel dies with "no kernel image is available for
    execution on the device".

    ## How it is judged
    gpudoctor reads the code in torch's own libraries, or else the list of that exact build in the matrix. Machine
    code runs on the same major capability and an equal or higher minor. PTX runs on anything newer, if the driver can
    compile it; it is a warning if torch's CUDA is older than the GPU, because the libraries of that CUDA do not know
    it either. If another GPU works, a small display GPU or one that no build supports is a note, unless a process
    would use it first. A build without a known list is not checked. That does not matter for a build made for its
    place (from source, by conda, a distribution, NVIDIA's images) whose CUDA can compile for the GPU.

    ## Fix safety
    Replaces torch and its companions in this environment; packages compiled against torch may need an update too.
    The version stays where a build of it supports the GPU and the driver.
    """
    all_fits = fits(situation)
    yield from _no_list(situation, all_fits)
    for group in equal_fits(tuple(fit for fit in all_fits if _lacks_cuda(fit) and not _dropped(fit))):
        yield _without_code(situation, group, all_fits)
    for group in equal_fits(tuple(fit for fit in all_fits if only_old_ptx(situation, fit))):
        yield _only_ptx(situation, group)


def _only_ptx(situation: Situation, group: tuple[Fit, ...]) -> Finding:
    torch, fit = situation.torch, group[0]
    assert torch is not None
    gpu, arch = fit.gpu, fit.gpu.arch.value or ""
    return finding_about(
        group,
        severity="warning",
        message=(
            f"{build_name(torch)} has only PTX for {gpu.name} ({arch}), which the driver compiles at first start; "
            f"the libraries of CUDA {torch.cuda} are older than this GPU."
        ),
        saw=arch_list(fit.carried.code),
        want=arch,
        confidence="likely",
        evidence=evidence(torch, fit),
        fixes=better_torch(situation),
    )


@check("GPD403", "torch-dropped-old-gpu", "framework")
def torch_dropped_old_gpu(situation: Situation) -> Verdicts:
    """The installed torch no longer has code for this older NVIDIA GPU.

    ## Why it matters
    `torch.cuda.is_available()` says True, and the first kernel dies with "no kernel image is available for
    execution on the device". A newer driver does not help.

    ## How it is judged
    As for torch-no-arch-for-gpu, but the GPU is older than what the build was made for, or than what its CUDA can
    compile for. Builds of the same version for an older CUDA often support it (cu126 keeps Maxwell to Volta).

    ## Fix safety
    Replaces torch and its companions in this environment; packages compiled against torch may need an update too.
    """
    all_fits = fits(situation)
    for group in equal_fits(tuple(fit for fit in all_fits if _lacks_cuda(fit) and _dropped(fit))):
        yield _without_code(situation, group, all_fits)


def _lacks_cuda(fit: Fit) -> bool:
    return fit.gpu.vendor == "nvidia" and fit.carried.runs == "no"


def _dropped(fit: Fit) -> bool:
    """Whether the GPU is older than every GPU that the build has code for, or than its toolkit compiles for."""
    if fit.carried.rule == "toolkit-dropped-gpu":
        return True
    gpu = _capability(fit.gpu.arch.value or "")
    code = [arch for arch in map(_capability, fit.carried.code) if arch is not None]
    if gpu is None or not code:
        return False
    # Up to Turing a lower number means an older GPU; after that it may be the newer one (11.0 and 12.0).
    return gpu < (max(code) if gpu < _TURING else min(code))


_TURING = 75


def _capability(arch: str) -> int | None:
    found = re.match(r"(?:sm|compute)_(\d{2,3})", arch)
    return int(found[1]) if found else None


def _no_list(situation: Situation, all_fits: tuple[Fit, ...]) -> Verdicts:
    """NVIDIA GPUs for which it is unknown whether the build has code."""
    torch = situation.torch
    if torch is None or never_published(situation):
        return
    if situation.torch_target is None and torch.build != "xpu" and situation.usable:
        yield NotJudged(
            why=f"whether torch {torch.version} is built for CUDA, ROCm or neither is unknown", matters=True
        )
    unknown = tuple(fit for fit in all_fits if fit.gpu.vendor == "nvidia" and fit.carried.runs == "unknown")
    for group in equal_fits(unknown):
        yield not_told(situation, group[0], all_fits)


def _without_code(situation: Situation, group: tuple[Fit, ...], all_fits: tuple[Fit, ...]) -> Finding:
    torch, fit = situation.torch, group[0]
    assert torch is not None
    severity = weight(situation, fit, all_fits)
    message, saw, want = _lack(situation, torch, fit)
    return finding_about(
        group,
        severity=severity,
        message=message + _beside(severity, all_fits),
        saw=saw,
        want=want,
        confidence=confidence(fit),
        evidence=evidence(torch, fit),
        fixes=_fixes(situation, group, all_fits) if severity == "error" else torch_for_all(situation),
        refs=("pytorch/pytorch#149845",) if not _dropped(fit) else ("pytorch/pytorch#157517",),
        supersedes=(*_of_the_driver(situation), *REPAIRED_WITH_TORCH),
    )


def _beside(severity: Severity, all_fits: tuple[Fit, ...]) -> str:
    """A sentence about the GPUs beside those without code."""
    if not any(fit.served for fit in all_fits):
        return ""
    return " The other GPUs work." if severity == "note" else " Programs that use it, or all GPUs, fail."


def _fixes(situation: Situation, group: tuple[Fit, ...], all_fits: tuple[Fit, ...]) -> tuple[Fix, ...]:
    """Another torch; where no one driver supports these GPUs and the others, what each kind needs by itself."""
    usable = situation.usable_of("nvidia")
    if all(refusals(situation, fit.gpu) for fit in group) and driver_options(situation, usable):
        return (builds.for_each_kind(situation, usable, situation.torch),)
    return fixes_beside(situation, group[0], all_fits)


def _of_the_driver(situation: Situation) -> tuple[str, ...]:
    """A driver too old for this torch is checked again with the next torch; one older than a GPU is not."""
    outdated = any("driver-too-old" in refusals(situation, gpu) for gpu in situation.usable_of("nvidia"))
    return () if outdated else ("driver-too-old",)


def _lack(situation: Situation, torch: Torch, fit: Fit) -> tuple[str, str, str]:
    """What the build lacks for the GPU: the message, found and needed."""
    arch = fit.gpu.arch.value or ""
    gpu, code = f"{fit.gpu.name} ({arch})", arch_list(fit.carried.code)
    row = situation.matrix.gpus.capability(arch)
    if fit.carried.rule == "toolkit-dropped-gpu" and row:
        made = f"{build_name(torch)} was built with CUDA {torch.cuda}, which cannot compile for {gpu}"
        last = f"CUDA {row.last_cuda}"
        return f"{made}: {last} was the last that could.", f"CUDA {torch.cuda}", f"{last} or older"
    if fit.carried.rule == "toolkit-too-old" and row:
        made = f"{build_name(torch)} was built with CUDA {torch.cuda}, which cannot compile for {gpu}"
        first = f"CUDA {row.first_cuda}"
        return f"{made}: {first} is the first that can.", f"CUDA {torch.cuda}", f"{first} or newer"
    if fit.carried.rule == "ptx-too-new":
        only = f"{build_name(torch)} has only PTX for {gpu}"
        return f"{only}, and this driver is too old to compile the PTX of CUDA {torch.cuda}.", code, arch
    few = f", only a few kernels for {arch}" if fit.carried.partial else ""
    return f"{build_name(torch)} has no kernels for {gpu}; it was built for {code}{few}.", code, arch


@check("GPD413", "torch-linalg-no-arch", "framework")
def torch_linalg_no_arch(situation: Situation) -> Verdicts:
    """The linear-algebra library of this torch has no code for the GPU.

    ## Why it matters
    torch itself runs on the GPU. Calls such as torch.linalg.eigh or lstsq live in a library of their own
    (libtorch_cuda_linalg) and find no code there.

    ## How it is judged
    gpudoctor reads the architectures in that library, or else the matrix. Turing with torch 2.11 to 2.14 is such a
    case: their linear-algebra library starts at sm_80. This was read from the files, not seen to fail on a GPU.

    ## Fix safety
    Replaces torch in this environment. Nothing needs to be done where no such function is used.
    """
    torch = situation.torch
    served = tuple(fit for fit in fits(situation) if fit.served and fit.gpu.vendor == "nvidia")
    if torch is None or not served:
        return
    linalg = _linalg(situation, torch)
    for group in equal_fits(served):
        fit = group[0]
        arch = fit.gpu.arch.value or ""
        ptx = tuple(code for code in fit.carried.code if code.startswith("compute_"))
        if not linalg or cuda_runs(arch, linalg, ptx).runs != "no":
            continue
        yield finding_about(
            group,
            severity="warning",
            message=f"The linear-algebra library of {build_name(torch)} has no code for {fit.gpu.name} ({arch}): "
            "functions of torch.linalg may fail on this GPU; everything else runs.",
            saw=arch_list(linalg),
            want=arch,
            confidence="likely",
            evidence=(
                Evidence.of("gpu.arch", fit.gpu.arch),
                Evidence("torch.archs.linalg", arch_list(linalg), torch.archs.source or "compat_matrix"),
            ),
            fixes=(*builds.without_fault(situation, lambda choice: choice.linalg != "yes"), _LINALG_ON_THE_CPU),
        )


_LINALG_ON_THE_CPU = by_hand(
    "Compute these functions on the CPU", "Move the input of torch.linalg functions to the CPU."
)


# --- the matrix ------------------------------------------------------------------------------------


def _linalg(situation: Situation, torch: Torch) -> tuple[str, ...]:
    """The architectures of the linear-algebra library, as read, else from the matrix; empty where neither knows."""
    own = torch.archs.value
    if own and own.linalg:
        return own.linalg
    row = situation.build_of(torch)
    return (row.linalg or ()) if row else ()
