"""Environment variables that break a ROCm run (GPD306, GPD314)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AnyRemedy, Evidence, Finding, Fix, SetVariable, Severity, UnsetVariable, unset
from gpudoctor.frameworks.torch import NAME as TORCH
from gpudoctor.frameworks.torch import builds
from gpudoctor.frameworks.torch.coverage import natively, override_in_force, within_generation
from gpudoctor.frameworks.torch.gpu_coverage import (
    Fit,
    arch_list,
    broken_by_override,
    fits,
    is_secondary,
    without_override,
    without_variable,
)
from gpudoctor.frameworks.torch.hsa_override import override_alone
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.machine import OVERRIDE, Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import finding

# --- HSA_OVERRIDE_GFX_VERSION ----------------------------------------------------------------------


def _settings(situation: Situation) -> tuple[tuple[str, str, tuple[Gpu, ...]], ...]:
    """Every override that is set: (name, value, the usable GPUs that it applies to).

    An override with a number applies to the KFD node of that number, CPUs counted, and takes precedence.
    """
    gpus = situation.usable_of("amd")
    numbered = {f"{OVERRIDE}_{gpu.kfd_node}": gpu for gpu in gpus if gpu.kfd_node is not None}
    found = []
    for name, value in situation.machine.variables.items():
        if name == OVERRIDE:
            own = {gpu.key for other, gpu in numbered.items() if situation.variable(other)}
            found.append((name, value, tuple(gpu for gpu in gpus if gpu.key not in own)))
        elif re.fullmatch(rf"{OVERRIDE}_\d+", name):
            found.append((name, value, (numbered[name],) if name in numbered else ()))
    return tuple(found)


@check("GPD306", "hsa-override-wrong", "runtime")
def hsa_override_wrong(situation: Situation) -> Verdicts:
    """HSA_OVERRIDE_GFX_VERSION does not suit the GPU, or is not needed.

    ## Why it matters
    The variable makes the runtime treat the GPU as another one. Across generations the GPU meets instructions that it
    does not support: programs crash, fail with memory access faults at address (nil), or compute wrong values. An
    empty or meaningless value ends every HIP program.

    ## How it is judged
    The check compares the value with the GPU's real target, which the kernel reports. A value of another generation,
    an empty one, or one that names no target is an error. The GPU's own value is a note. Another value, although the
    build supports the GPU itself, is a warning; it is an error if the build has no code for that value. Integrated
    graphics beside a GPU do not count. A variable with a number counts KFD nodes, processors included. A value that
    is of the GPU's generation and needed is not reported.

    ## Fix safety
    Unsets or changes a variable for this process.
    """
    if situation.torch is not None and situation.built_for != "amd":
        return
    for name, value, gpus in _settings(situation):
        named = situation.matrix.amd.gfx_of_override(value)
        if named is None and situation.usable_of("amd"):
            yield _meaningless(situation, name, value)
            continue
        all_fits = fits(situation)
        ignored = [fit.gpu for fit in all_fits if fit.gpu.integrated and is_secondary(situation, fit, all_fits)]
        judged = tuple(gpu for gpu in gpus if gpu not in ignored)
        across = [
            gpu
            for gpu in judged
            if named and gpu.arch.value and not within_generation(situation.matrix, gpu.arch.value, named)
        ]
        if across:
            yield _across(situation, name, value, named or "", across[0])
            continue
        yield from _unneeded(situation, name, value, named or "", judged)


def _meaningless(situation: Situation, name: str, value: str) -> Finding:
    wrong = "names no gfx target"
    fixes = _fixes(situation, name, situation.usable_of("amd"))
    bare = value.strip("\"' ")
    if bare != value and situation.matrix.amd.gfx_of_override(bare):
        wrong = "has quotation marks in its value"
        fixes = (Fix(f"Set {name}={bare}", (SetVariable(name, bare, why="the same without them"),)), *fixes)
    return Finding(
        severity="error",
        message=f"{name} is set to an empty value: HIP programs fail with it."
        if not value.strip()
        else f"{name}={value} {wrong}.",
        saw=f"{name}={value!r}",
        want="a value such as 10.3.0, or not set",
        subject=name,
        evidence=(Evidence(name, value, "environment"),),
        fixes=fixes,
        supersedes=("torch-rocm-no-arch-for-gpu", "torch-import-fails"),
    )


def _across(situation: Situation, name: str, value: str, named: str, gpu: Gpu) -> Finding:
    real = gpu.arch.value or ""
    return finding(
        "error",
        (gpu,),
        message=f"{name}={value} makes {gpu.name} ({real}) run code for {named}, another generation: programs crash "
        "or compute wrong values.",
        saw=f"{name}={value} ({named})",
        want=f"{real}, or a target of its generation",
        evidence=(Evidence(name, value, "environment"), Evidence.of("gpu.arch", gpu.arch)),
        fixes=_fixes(situation, name, situation.usable_of("amd")),
        refs=("ROCm/legacy-rocm-build#5238",),
        supersedes=("torch-rocm-no-arch-for-gpu", "rocblas-no-arch", "torch-import-fails"),
    )


def _fixes(situation: Situation, name: str, usable: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """Unset the variable unless torch certainly does not support the GPUs itself; then fixes that support them in
    another way."""
    own_target = unset(name, "the GPU's own target then counts")
    gpus = builds.gpus_to_serve(situation, usable)
    own = (Fit(gpu, natively(situation, gpu)) for gpu in gpus)
    if situation.torch is None:
        return (*override_alone(situation, usable), own_target)
    if situation.built_for != "amd" or not any(fit.fails for fit in own):
        return (own_target,)
    return tuple(without_variable(fix, name) for fix in better_torch(situation)) or (own_target,)


def _unneeded(situation: Situation, name: str, value: str, named: str, gpus: tuple[Gpu, ...]) -> Verdicts:
    """An override that changes nothing, or that a build with the GPU's own code does not need."""
    for fit in fits(situation):
        gpu = fit.gpu
        if gpu not in gpus or override_in_force(situation, gpu) != value:
            continue
        same = gpu.arch.value == named
        if not same and not without_override(situation, fit).served:
            continue
        breaks = broken_by_override(situation, fit)
        severity: Severity = "note" if same else "error" if breaks else "warning"
        message = f"{name}={value} makes {gpu.name} run code for {named}, although this torch has code for "
        message += f"{gpu.arch.value}{f' and none for {named}' if breaks else ''}."
        yield finding(
            severity,
            (gpu,),
            message=f"{name}={value} is not needed: {gpu.name} already is {gpu.arch.value}." if same else message,
            saw=f"{name}={value}",
            want="not set",
            evidence=(
                Evidence(name, value, "environment"),
                Evidence.of("gpu.arch", gpu.arch),
                Evidence("torch.archs", arch_list(fit.carried.code), fit.carried.source),
            ),
            fixes=(unset(name, "then the GPU runs its own code"),),
        )
        return


# --- allocator -------------------------------------------------------------------------------------

_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


@check("GPD314", "alloc-conf-expandable-segments-rocm", "runtime", framework=TORCH)
def alloc_conf_expandable_segments_rocm(situation: Situation) -> Verdicts:
    """Expandable segments are switched on for a ROCm build.

    ## Why it matters
    The allocator's expandable segments are made for CUDA. On ROCm, copies to the GPU are known to hang with them.

    ## How it is judged
    A variable of the allocator has expandable_segments:True, torch is a ROCm build, and an AMD GPU is usable.

    ## Fix safety
    Removes one setting from a variable for this process; memory may fragment more.
    """
    if situation.built_for != "amd" or not situation.usable_of("amd"):
        return
    for name in _ALLOCATOR:
        value = situation.variable(name) or ""
        settings = [setting.strip() for setting in value.split(",") if setting.strip()]
        kept = [setting for setting in settings if not re.fullmatch(r"expandable_segments\s*:\s*true", setting, re.I)]
        if len(kept) == len(settings):
            continue
        why = "copies hang with expandable segments on ROCm"
        change: AnyRemedy = SetVariable(name, ",".join(kept), why=why) if kept else UnsetVariable(name, why=why)
        yield Finding(
            severity="warning",
            message=f"{name} enables expandable segments, with which copies to the GPU are known to hang on ROCm.",
            saw=f"{name}={value}",
            want="expandable_segments not set",
            subject=name,
            evidence=(Evidence(name, value, "environment"),),
            fixes=(Fix(f"Remove expandable_segments from {name}", (change,)),),
            refs=("pytorch/pytorch#192259",),
        )
        return
