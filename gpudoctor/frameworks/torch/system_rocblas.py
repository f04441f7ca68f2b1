"""Whether the rocBLAS of the system's ROCm has kernels for the GPUs: what programs without torch compute with."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.finding import Evidence, Finding, Fix, SetVariable, by_hand
from gpudoctor.frameworks.torch.coverage import override_in_force
from gpudoctor.late_regex import late
from gpudoctor.machine import OVERRIDE, Gpu
from gpudoctor.matrix.versions import minor
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import called, finding, group_by
from gpudoctor.situation.system_rocm import for_display, system_rocm

_CHOSEN_FOLDER = "ROCBLAS_TENSILE_LIBPATH"
_FOLDER = late(r"/opt/rocm(?:-(\d+\.\d+(?:\.\d+)?))?/")


def rocblas_of_system(situation: Situation) -> Iterator[Finding]:
    """A warning for the usable GPUs of each target that it has no kernel files for."""
    rocm = system_rocm(situation)
    if rocm is None or rocm.blas_gfx is None or situation.variable(_CHOSEN_FOLDER):
        return
    lacking = [gpu for gpu in situation.usable_of("amd") if lacks_kernels(situation, rocm.blas_gfx, gpu)]
    for gpus in group_by(lacking, lambda gpu: (gpu.name, gpu.arch.value)).values():
        gfx = gpus[0].arch.value or ""
        yield finding(
            "warning",
            gpus,
            message=f"The rocBLAS of ROCm {rocm.rocm} in {rocm.path} has no kernels for {called(gpus)} ({gfx}): "
            "programs that use it abort at their first matrix product.",
            saw=", ".join(rocm.blas_gfx),
            want=gfx,
            evidence=(
                Evidence.of("gpu.arch", gpus[0].arch),
                Evidence("rocblas.archs", ", ".join(rocm.blas_gfx), f"{rocm.path}/lib/rocblas/library"),
            ),
            fixes=(*_run_as_another(situation, rocm.blas_gfx, gpus[0]), *_other_release(situation, rocm.rocm, gfx)),
            refs=("ROCm/legacy-rocm-build#4625", "ROCm/TheRock#5179"),
        )


def lacks_kernels(situation: Situation, targets: tuple[str, ...], gpu: Gpu) -> bool:
    """Whether a rocBLAS for these targets has none for the GPU, with the override that is in force."""
    if not gpu.arch.value or for_display(situation, gpu):
        return False
    value = override_in_force(situation, gpu)
    named = situation.matrix.amd.gfx_of_override(value)
    return situation.matrix.gpus.gfx_answer(named or gpu.arch.value, targets).runs == "no"


def _run_as_another(situation: Situation, targets: tuple[str, ...], gpu: Gpu) -> Iterator[Fix]:
    """The override by which the GPU runs as one of its generation that rocBLAS has kernels for."""
    policy = situation.matrix.amd.override(gpu.arch.value)
    value = policy.proposed if policy else None
    named = situation.matrix.amd.gfx_of_override(value)
    if value and named in targets:
        why = f"the GPU then runs as {named}, which AMD does not support"
        yield Fix(f"Let the GPU run as {named}", (SetVariable(OVERRIDE, value, why=why),))


def release_for_message(situation: Situation, text: str, gpus: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """The ROCm for the GPU of a message of rocBLAS: the nearest to that of the folder it names, else the last."""
    named, targets = _FOLDER.search(text), {gpu.arch.value for gpu in gpus}
    gfx = targets.pop() if len(targets) == 1 else None
    return tuple(_other_release(situation, named[1], gfx)) if named and gfx else ()


def _other_release(situation: Situation, rocm: str | None, gfx: str) -> Iterator[Fix]:
    """The missing kernels, if this release has them for the GPU; else the nearest release that has them, the last one
    if it is unknown. A newer one comes first; lists that were read come before derived ones."""
    rows = [row for row in situation.matrix.tables.rocm_blas if row.rocblas]
    here = minor(rocm or max((row.rocm for row in rows), key=minor))
    own = max((row for row in rows if minor(row.rocm) <= here), key=lambda row: minor(row.rocm), default=None)
    if rocm and own and gfx in (own.rocblas or ()):
        text = f"Install the rocBLAS of ROCm {rocm} for {gfx}: the installed package is for other GPUs."
        yield by_hand(f"Install the rocBLAS package for {gfx}", text, "root")
        return
    having = [row for row in rows if gfx in (row.rocblas or ())]
    having = [row for row in having if row.rocblas_basis != "derived"] or having
    newer = min((row.rocm for row in having if minor(row.rocm) > here), key=minor, default=None)
    older = max((row.rocm for row in having if minor(row.rocm) < here or not rocm), key=minor, default=None)
    if release := newer or older:
        text = f"Install ROCm {release}, or the rocBLAS kernel files (lib/rocblas/library) of that release."
        yield by_hand(f"Install ROCm {release}, whose rocBLAS has kernels for {gfx}", text, "root")
