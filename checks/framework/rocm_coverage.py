"""Whether the installed ROCm build of torch has code for the AMD GPUs (GPD404, GPD408, GPD409, GPD414)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.check import check as plain_check
from gpudoctor.finding import Evidence, Finding, Fix, ReplaceTorch, by_hand, unset
from gpudoctor.frameworks.torch import NAME, check
from gpudoctor.frameworks.torch.coverage import never_published
from gpudoctor.frameworks.torch.gpu_coverage import (
    Fit,
    arch_list,
    broken_by_override,
    confidence,
    equal_fits,
    evidence,
    finding_about,
    fits,
    fixes_beside,
    is_secondary,
    not_told,
    override_misfits,
    without_override,
    without_variable,
)
from gpudoctor.frameworks.torch.installed_build import REPAIRED_WITH_TORCH, better_torch, build_name
from gpudoctor.machine import OVERRIDE, Torch
from gpudoctor.situation import Situation, needs


@check("GPD404", "torch-rocm-no-arch-for-gpu", "framework", needs=needs.rocm_torch)
def torch_rocm_no_arch_for_gpu(situation: Situation) -> Verdicts:
    """The installed ROCm build of torch has no code for this AMD GPU.

    ## Why it matters
    HIP needs code for exactly the GPU's gfx target. Without it the first kernel dies with "invalid device function"
    or hipErrorNoBinaryForGpu, or the process crashes.

    ## How it is judged
    gpudoctor reads the code in torch's libraries or device packages, or else the list of that build in the matrix.
    The kernel (KFD) tells the GPU's real target, which HSA_OVERRIDE_GFX_VERSION cannot change. If an override makes
    the GPU run as a supported one of its generation, that is a workaround: a warning. A separate check covers an
    integrated or second GPU beside one that works.

    ## Fix safety
    Replaces torch and its companions in this environment. AMD does not support the override: it is a workaround,
    and its known risks are named with it.
    """
    torch = situation.torch
    all_fits = fits(situation)
    if torch is None or situation.built_for != "amd" or never_published(situation):
        return
    for group in equal_fits(all_fits):
        fit = group[0]
        if _meaningless(situation, fit) or broken_by_override(situation, fit):
            continue
        if fit.carried.runs == "unknown":
            yield not_told(situation, fit, all_fits)
        elif fit.served and fit.carried.via_override and without_override(situation, fit).fails:
            if not (fit.gpu.integrated and is_secondary(situation, fit, all_fits)):
                yield _by_override(situation, torch, group)
        elif fit.carried.runs == "no" and not override_misfits(fit) and not is_secondary(situation, fit, all_fits):
            yield _without_gfx(situation, torch, group, all_fits)


def _without_gfx(situation: Situation, torch: Torch, group: tuple[Fit, ...], all_fits: tuple[Fit, ...]) -> Finding:
    fit = group[0]
    gfx = fit.gpu.arch.value or ""
    tried = f" with {OVERRIDE}={fit.carried.via_override}" if fit.carried.via_override else ""
    first = " A process uses it as its first GPU." if any(other.served for other in all_fits) else ""
    listed = f" AMD does not list this GPU for ROCm {torch.rocm}." if _unlisted(situation, torch, fit) else ""
    return finding_about(
        group,
        severity="error",
        message=f"{build_name(torch)} has no code for {fit.gpu.name} ({gfx}){tried}; it was built for "
        f"{arch_list(fit.carried.code)}.{first}{listed}",
        saw=arch_list(fit.carried.code),
        want=gfx,
        confidence=confidence(fit),
        evidence=evidence(torch, fit),
        fixes=fixes_beside(situation, fit, all_fits),
        refs=("pytorch/pytorch#73534",),
        supersedes=("rocblas-no-arch", *REPAIRED_WITH_TORCH),
    )


def _meaningless(situation: Situation, fit: Fit) -> bool:
    """Whether an override names no target: every HIP program then fails, which is a problem of its own."""
    return any(
        situation.variable(name) is not None
        and situation.matrix.amd.gfx_of_override(situation.variable(name)) is None
        for name in (OVERRIDE, f"{OVERRIDE}_{fit.gpu.kfd_node}")
    )


def _by_override(situation: Situation, torch: Torch, group: tuple[Fit, ...]) -> Finding:
    fit = group[0]
    gfx, value = fit.gpu.arch.value or "", fit.carried.via_override or ""
    name = next((n for n in (f"{OVERRIDE}_{fit.gpu.kfd_node}", OVERRIDE) if situation.variable(n) == value), OVERRIDE)
    policy = situation.matrix.amd.override(gfx)
    risk = f" Known risk: {policy.note}." if policy and policy.note else ""
    lacks = "code" if without_override(situation, fit).carried.runs == "no" else "rocBLAS kernels"
    return finding_about(
        group,
        severity="warning",
        message=f"{build_name(torch)} has no {lacks} for {fit.gpu.name} ({gfx}). {name}={value} makes it run as "
        f"{situation.matrix.amd.gfx_of_override(value)}, a workaround that AMD does not support.{risk}",
        saw=f"{name}={value}",
        want=f"a build with code for {gfx}",
        evidence=(*evidence(torch, fit), Evidence(name, value, "environment")),
        fixes=_natively(situation, name, gfx),
        refs=("ROCm/rocBLAS#1339",),
    )


def _natively(situation: Situation, name: str, gfx: str) -> tuple[Fix, ...]:
    """Fixes with a build that supports the GPU itself and needs no override."""
    builds = (
        fix
        for fix in better_torch(situation)
        if any(isinstance(remedy, ReplaceTorch) and gfx in remedy.carries.split(", ") for remedy in fix.remedies)
    )
    text = "Nothing needs to be done: torch works under the override, and no build here has code for the GPU itself."
    return tuple(without_variable(fix, name) for fix in builds) or (by_hand("Keep the override", text),)


@plain_check("GPD408", "rocblas-no-arch", "framework")
def rocblas_no_arch(situation: Situation) -> Verdicts:
    """The rocBLAS of torch, or of the system, has no kernels for the GPU.

    ## Why it matters
    torch lists the GPU's target and element-wise kernels run, but the first matrix product aborts with "rocBLAS
    error: Cannot read TensileLibrary.dat".

    ## How it is judged
    gpudoctor looks at the Tensile files beside torch's rocBLAS, or else at what that ROCm ships. torch lists gfx900
    and gfx906 up to ROCm 7.2; rocBLAS dropped them with 6.4. Without torch it looks at the Tensile files of the
    system's ROCm, which other programs use: a warning.

    ## Fix safety
    Replaces torch and its companions in this environment, mostly with a build for an older ROCm. Another ROCm of the
    system needs root.
    """
    torch = situation.torch
    if torch is None:
        from gpudoctor.frameworks.torch.system_rocblas import rocblas_of_system

        yield from rocblas_of_system(situation)
        return
    all_fits = fits(situation)
    for group in equal_fits(tuple(fit for fit in all_fits if fit.carried.runs == "yes" and fit.carried.blas == "no")):
        fit = group[0]
        if broken_by_override(situation, fit) or is_secondary(situation, fit, all_fits):
            continue
        gfx = fit.gpu.arch.value or ""
        via = situation.matrix.amd.gfx_of_override(fit.carried.via_override)
        yield finding_about(
            group,
            severity="error",
            message=(
                f"{build_name(torch)} lists {via or gfx}, but its rocBLAS has no kernels for it: matrix products on "
                f"{fit.gpu.name} abort."
            ),
            saw=f"no rocBLAS kernels for {via or gfx} in ROCm {torch.rocm}",
            want=f"rocBLAS kernels for {gfx}",
            framework=NAME,
            evidence=(*evidence(torch, fit), Evidence("rocblas.archs", *_blas(situation, torch))),
            fixes=fixes_beside(situation, fit, all_fits),
            refs=("ROCm/legacy-rocm-build#4625",),
            supersedes=REPAIRED_WITH_TORCH,
        )


def _blas(situation: Situation, torch: Torch) -> tuple[str, str]:
    own = torch.archs.value
    if own and own.blas_gfx is not None:
        return arch_list(own.blas_gfx), torch.archs.source
    row = situation.matrix.amd.blas(torch.rocm) if torch.rocm else None
    return arch_list(row.rocblas or ()) if row else "unknown", f"compat_matrix: {row.source}" if row else ""


def _unlisted(situation: Situation, torch: Torch, fit: Fit) -> bool:
    """Whether the GPU is known by name and missing in AMD's list for the ROCm of this torch."""
    gpu = fit.gpu
    return (
        gpu.chip is not None
        and situation.matrix.amd.listed_by_amd(gpu.arch.value or "", gpu.name, torch.rocm or "0") is False
    )


@check("GPD414", "amd-card-not-listed", "framework", needs=needs.rocm_torch)
def amd_gpu_not_listed(situation: Situation) -> Verdicts:
    """AMD does not list this GPU for ROCm, but this torch supports it.

    ## Why it matters
    The GPU works: this build has machine code for its target, as for the GPUs that AMD supports. But AMD need not
    fix problems on it, and guides that ask for an override do not mean this GPU.

    ## How it is judged
    The build has code for the GPU's own target, without an override. AMD's documents for that ROCm release name
    only other products: for gfx1030 the Radeon PRO W6800 and V620, not the RX 6800 and RX 6900.

    ## Fix safety
    There is nothing to fix.
    """
    torch, all_fits = situation.torch, fits(situation)
    if torch is None or situation.built_for != "amd":
        return
    for group in equal_fits(
        tuple(fit for fit in all_fits if fit.served and not is_secondary(situation, fit, all_fits))
    ):
        fit = group[0]
        if fit.carried.via_override or not _unlisted(situation, torch, fit):
            continue
        yield finding_about(
            group,
            severity="note",
            message=f"AMD does not list {fit.gpu.name} for ROCm {torch.rocm}. {build_name(torch)} has code for "
            f"{fit.gpu.arch.value} all the same: no override is needed.",
            saw=fit.gpu.arch.value or "",
            evidence=evidence(torch, fit),
            refs=("ROCm compatibility matrix",),
        )


@check("GPD409", "hipblaslt-unsupported-arch", "framework", needs=needs.rocm_torch)
def hipblaslt_unsupported_arch(situation: Situation) -> Verdicts:
    """A variable asks for hipBLASLt, which does not support this GPU.

    ## Why it matters
    torch prints "Attempting to use hipBLASLt on an unsupported architecture" and falls back to hipBLAS. This is
    mostly harmless, at worst slower.

    ## How it is judged
    TORCH_BLAS_PREFER_HIPBLASLT=1 is set, and torch for this ROCm does not use hipBLASLt on the GPU's target.

    ## Fix safety
    Unsetting the variable changes nothing else.
    """
    name = "TORCH_BLAS_PREFER_HIPBLASLT"
    torch = situation.torch
    if torch is None or not torch.rocm or situation.variable(name) not in ("1", "true", "TRUE", "True"):
        return
    for group in equal_fits(fits(situation)):
        gfx = group[0].gpu.arch.value
        if gfx is None or situation.matrix.amd.hipblaslt_asked(gfx, torch.rocm):
            continue
        yield finding_about(
            group,
            severity="note",
            message=f"{name}=1 asks for hipBLASLt, which torch does not use on {gfx} with ROCm {torch.rocm}; it "
            "falls back to hipBLAS.",
            saw=f"{name}=1",
            want="not set",
            evidence=(Evidence(name, "1", "environment"), Evidence.of("gpu.arch", group[0].gpu.arch)),
            fixes=(unset(name),),
            refs=("ROCm/legacy-rocm-build#5643",),
        )
