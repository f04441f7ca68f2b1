"""Does the installed ROCm build of torch have code for the AMD cards (GPD404, GPD408, GPD409)."""

from __future__ import annotations

from gpudoctor.builds.carried import OVERRIDE, gfx_answer
from gpudoctor.check import Case, Verdicts, check
from gpudoctor.finding import Evidence, Finding, ReplaceTorch, SetVariable, Severity, UnsetVariable, WayOut
from gpudoctor.machine import Torch

from .fitting import (
    REPAIRED_WITH_TORCH,
    Fit,
    about,
    alike,
    better_torch,
    build_name,
    confidence,
    evidence,
    fits,
    not_told,
    process_order,
    spelled,
    without_variable,
)


@check("GPD404", "torch-rocm-no-arch-for-gpu")
def torch_rocm_no_arch_for_gpu(case: Case) -> Verdicts:
    """The installed ROCm build of torch has no code for this AMD card.

    ## Why it matters
    HIP needs code for exactly the card's gfx target. Without it the first kernel dies with "invalid device function"
    or hipErrorNoBinaryForGpu, or the process crashes.

    ## How it is judged
    By the code read from torch's libraries or device packages, else by the list of that build in the matrix. The
    card's real target comes from the kernel (KFD), which HSA_OVERRIDE_GFX_VERSION cannot change. With an override
    within the generation that the build carries, it runs by a workaround: a warning. An integrated or second card
    beside one that works has a check of its own.

    ## Fix safety
    Replaces torch and its companions in this environment. The override is a workaround that AMD does not support:
    its known risks stand with it.
    """
    torch = case.torch
    all_fits = fits(case)
    if torch is None or case.built_for != "amd":
        return
    for group in alike(all_fits):
        fit = group[0]
        if _meaningless(case, fit):
            continue
        if fit.carried.runs == "unknown":
            yield not_told(case, fit, all_fits)
        elif fit.carried.runs == "yes" and fit.carried.via_override and not _native(case, fit):
            yield _by_override(case, torch, group)
        elif fit.carried.runs == "no" and fit.carried.rule != "override-out-of-generation":
            yield from () if _left_to_others(case, fit, all_fits) else (_without_gfx(case, torch, group, all_fits),)


def _native(case: Case, fit: Fit) -> bool:
    """Whether the build carries the card's own target, overrides left aside."""
    return gfx_answer(case.matrix, fit.gpu.arch.value or "", fit.carried.code).runs == "yes"


def _left_to_others(case: Case, fit: Fit, all_fits: tuple[Fit, ...]) -> bool:
    """A card beside one that works and that a process does not meet first; integrated graphics beside any card."""
    working = any(other.served for other in all_fits)
    first = process_order(case)[:1]
    beside_nvidia = fit.gpu.integrated and bool(case.usable_of("nvidia"))
    return beside_nvidia or (working and (fit.gpu.integrated or bool(first and first[0] is not fit.gpu)))


def _without_gfx(case: Case, torch: Torch, group: tuple[Fit, ...], all_fits: tuple[Fit, ...]) -> Finding:
    fit = group[0]
    gfx = fit.gpu.arch.value or ""
    tried = f" with {OVERRIDE}={fit.carried.via_override}" if fit.carried.via_override else ""
    first = " It is the first card of a process here." if any(other.served for other in all_fits) else ""
    return about(
        group,
        severity="error",
        message=(
            f"{build_name(torch)} has no code for {fit.gpu.name} ({gfx}){tried}; it was built for "
            f"{spelled(fit.carried.code)}.{first}"
        ),
        saw=spelled(fit.carried.code),
        want=gfx,
        confidence=confidence(fit),
        evidence=evidence(torch, fit),
        ways_out=better_torch(case),
        refs=("pytorch/pytorch#73534",),
        moots=("rocblas-no-arch", *REPAIRED_WITH_TORCH),
    )


def _meaningless(case: Case, fit: Fit) -> bool:
    """An override that names no target ends every HIP program, whatever the build carries: it has its own finding."""
    return any(
        case.variable(name) is not None and case.matrix.gfx_of_override(case.variable(name) or "") is None
        for name in (OVERRIDE, f"{OVERRIDE}_{fit.gpu.kfd_node}")
    )


def _by_override(case: Case, torch: Torch, group: tuple[Fit, ...]) -> Finding:
    fit = group[0]
    gfx, value = fit.gpu.arch.value or "", fit.carried.via_override or ""
    name = next((n for n in (f"{OVERRIDE}_{fit.gpu.kfd_node}", OVERRIDE) if case.variable(n) == value), OVERRIDE)
    policy = case.matrix.override(gfx)
    risk = f" Known risks: {policy.note}." if policy and policy.note else ""
    return about(
        group,
        severity="warning",
        message=(
            f"{build_name(torch)} has no code for {fit.gpu.name} ({gfx}); it runs as "
            f"{case.matrix.gfx_of_override(value)} because {name}={value} is set, a workaround that AMD does not "
            f"support.{risk}"
        ),
        saw=f"{name}={value}",
        want=f"a build with code for {gfx}",
        evidence=(*evidence(torch, fit), Evidence(name, value, "environment")),
        ways_out=_natively(case, name),
        refs=("ROCm/rocBLAS#1339",),
    )


def _natively(case: Case, name: str) -> tuple[WayOut, ...]:
    """Ways out by a build that carries the card itself, and needs no override any more."""
    plain = (way for way in better_torch(case) if not any(isinstance(remedy, SetVariable) for remedy in way.remedies))
    builds = (way for way in plain if any(isinstance(r, ReplaceTorch) and r.build != "cpu" for r in way.remedies))
    return tuple(without_variable(way, name) for way in builds)


@check("GPD408", "rocblas-no-arch")
def rocblas_no_arch(case: Case) -> Verdicts:
    """The rocBLAS of this torch has no kernels for the card.

    ## Why it matters
    torch lists the card's target and element-wise kernels run, but the first matrix product aborts with "rocBLAS
    error: Cannot read TensileLibrary.dat".

    ## How it is judged
    By the Tensile files that lie beside torch's rocBLAS, else by what that ROCm ships. gfx900 and gfx906 are in
    torch's lists up to ROCm 7.2 and in no rocBLAS from 6.4 on.

    ## Fix safety
    Replaces torch and its companions in this environment, mostly by a build of an older ROCm.
    """
    torch = case.torch
    all_fits = fits(case)
    if torch is None or case.built_for != "amd":
        return
    for group in alike(tuple(fit for fit in all_fits if fit.carried.runs == "yes" and fit.carried.blas == "no")):
        fit = group[0]
        beside = any(other.served for other in all_fits) and fit.gpu.integrated
        gfx = fit.gpu.arch.value or ""
        via = case.matrix.gfx_of_override(fit.carried.via_override) if fit.carried.via_override else None
        severity: Severity = "note" if beside else "error"
        yield about(
            group,
            severity=severity,
            message=(
                f"{build_name(torch)} lists {via or gfx}, but its rocBLAS has no kernels for it: matrix products on "
                f"{fit.gpu.name} abort."
            ),
            saw=f"no rocBLAS kernels for {via or gfx} in ROCm {torch.rocm}",
            want=f"rocBLAS kernels for {gfx}",
            evidence=(*evidence(torch, fit), Evidence("rocblas.archs", *_blas(case, torch))),
            ways_out=better_torch(case) if severity == "error" else (),
            refs=("ROCm/legacy-rocm-build#4625",),
            moots=REPAIRED_WITH_TORCH,
        )


def _blas(case: Case, torch: Torch) -> tuple[str, str]:
    own = torch.archs.value
    if own and own.blas_gfx is not None:
        return spelled(own.blas_gfx), torch.archs.source
    row = case.matrix.blas(torch.rocm) if torch.rocm else None
    return spelled(row.rocblas or ()) if row else "unknown", f"compat_matrix: {row.source}" if row else ""


@check("GPD409", "hipblaslt-unsupported-arch")
def hipblaslt_unsupported_arch(case: Case) -> Verdicts:
    """hipBLASLt is asked for and does not support this card.

    ## Why it matters
    torch prints "Attempting to use hipBLASLt on an unsupported architecture" and falls back to hipBLAS: mostly
    harmless, at most slower.

    ## How it is judged
    TORCH_BLAS_PREFER_HIPBLASLT=1 on a target that torch of this ROCm does not use hipBLASLt on.

    ## Fix safety
    Unsetting the variable changes nothing else.
    """
    name = "TORCH_BLAS_PREFER_HIPBLASLT"
    torch = case.torch
    if torch is None or not torch.rocm or case.variable(name) not in ("1", "true", "TRUE", "True"):
        return
    for group in alike(fits(case)):
        gfx = group[0].gpu.arch.value
        if gfx is None or case.matrix.hipblaslt_asked(gfx, torch.rocm):
            continue
        yield about(
            group,
            severity="note",
            message=f"{name}=1 asks for hipBLASLt, which torch does not use on {gfx} with ROCm {torch.rocm}; it "
            "falls "
            "back to hipBLAS.",
            saw=f"{name}=1",
            want="not set",
            evidence=(Evidence(name, "1", "environment"), Evidence.of("gpu.arch", group[0].gpu.arch)),
            ways_out=(WayOut(f"Unset {name}", (UnsetVariable(name),)),),
            refs=("ROCm/legacy-rocm-build#5643",),
        )
