"""The fix with HSA_OVERRIDE_GFX_VERSION: a GPU runs the code of a listed target of its generation.

A workaround within a generation, with the risks that the matrix names; never across generations.
"""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.finding import AnyRemedy, Fix, SetVariable
from gpudoctor.frameworks.torch.candidates import Choice, candidates
from gpudoctor.frameworks.torch.coverage import carries, without_overrides
from gpudoctor.frameworks.torch.nearest_build import nearest, replace_torch, settings_in_wsl
from gpudoctor.machine import OVERRIDE, Gpu, Torch, known
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows.gpus import Override
from gpudoctor.matrix.versions import matches
from gpudoctor.situation import Situation
from gpudoctor.situation.wsl import against_build_in_wsl


def override_fixes(situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None) -> list[Fix]:
    """At most one: the override with the present torch if that has code for its target, else with another build."""
    matrix = situation.matrix
    usable = _usable(matrix, gpus)
    if not usable or any(gpu.vendor != "amd" for gpu in gpus):
        return []
    variables = _variables(situation, gpus, usable)
    if variables is None:
        return []
    stand_ins = tuple(_stand_in(matrix, gpu, usable) for gpu in gpus)
    plain = without_overrides(situation)
    remedies: tuple[AnyRemedy, ...] = ()
    rocm = keep.rocm if keep else None
    works = rocm and _serves(plain, stand_ins) and not _faults(matrix, usable, rocm)
    if not works or against_build_in_wsl(situation, rocm or "", gpus):
        choices, _ = candidates(plain, stand_ins)
        # Inside WSL the driver of Windows decides by the GPU itself.
        wheels = tuple(
            choice
            for choice in choices
            if not choice.extra and not against_build_in_wsl(situation, choice.rocm or "", gpus)
        )
        sound = tuple(choice for choice in wheels if not _faults(matrix, usable, choice.rocm))
        best: Choice | None = next(iter(nearest(situation, sound or wheels, keep)), None)
        native, _ = candidates(plain, gpus)
        if best is None or any(_is_sound(choice, best) for choice in native):
            return []
        remedies = () if keep and keep.is_build(best.version, best.build) else replace_torch(situation, best)
        rocm = best.rocm
    if not variables and not remedies:
        return []
    settings = ", ".join(f"{item.name}={item.value}" for item in variables)
    title = f"Work around it with {settings}" if variables else "Keep the override"
    if remedies:
        title += f" and torch {best.version}+{best.build}" if best else ""
    risky = any(policy.safety == "risky" for policy in usable.values())
    settings_of_wsl = settings_in_wsl(situation, rocm) if rocm else ()
    return [Fix(title + (" (risky)" if risky else ""), (*remedies, *variables, *settings_of_wsl))]


def override_alone(situation: Situation, gpus: tuple[Gpu, ...]) -> list[Fix]:
    """At most one: the override that programs of the system's ROCm need, if each of these GPUs needs one."""
    usable = _usable(situation.matrix, gpus)
    variables = _variables(situation, gpus, usable) if all(gpu.arch.value in usable for gpu in gpus) else ()
    settings = ", ".join(f"{item.name}={item.value}" for item in variables or ())
    return [Fix(f"Set {settings}", variables)] if variables else []


def _usable(matrix: Matrix, gpus: tuple[Gpu, ...]) -> dict[str, Override]:
    """The overrides within their generation, by target."""
    targets = {gpu.arch.value or "": None for gpu in gpus if gpu.vendor == "amd"}
    policies = {gfx: matrix.amd.override(gfx) for gfx in targets}
    return {gfx: policy for gfx, policy in policies.items() if policy and policy.proposed}


def _stand_in(matrix: Matrix, gpu: Gpu, usable: dict[str, Override]) -> Gpu:
    """The GPU as the runtime sees it under its override."""
    policy = usable.get(gpu.arch.value or "")
    target = matrix.amd.gfx_of_override(policy.value if policy else None)
    return replace(gpu, arch=known(target, "override")) if target else gpu


def _serves(situation: Situation, gpus: tuple[Gpu, ...]) -> bool:
    found = [carries(situation, gpu) for gpu in gpus]
    return all(item.runs == "yes" and item.blas != "no" for item in found)


def _variables(
    situation: Situation, gpus: tuple[Gpu, ...], usable: dict[str, Override]
) -> tuple[SetVariable, ...] | None:
    """The variables to set: one for all GPUs if it suits all, also those that are not asked about, else one for each
    GPU by its KFD node."""
    matrix = situation.matrix
    values = {policy.value for policy in usable.values() if policy.value}
    target = matrix.amd.gfx_of_override(next(iter(values))) if len(values) == 1 else None
    beside = tuple(gpu for gpu in situation.usable_of("amd") if not gpu.integrated)
    if target and all(gpu.arch.value in usable or gpu.arch.value == target for gpu in (*gpus, *beside)):
        wanted = {OVERRIDE: (next(iter(values)), next(iter(usable.items())))}
    else:
        wanted = {}
        for gpu in gpus:
            policy = usable.get(gpu.arch.value or "")
            if policy is None or policy.value is None:
                continue
            if gpu.kfd_node is None:
                return None
            wanted[f"{OVERRIDE}_{gpu.kfd_node}"] = (policy.value, (gpu.arch.value or "", policy))
    return tuple(
        SetVariable(
            name=name,
            value=value,
            why=f"{gfx} then runs the code of {matrix.amd.gfx_of_override(value)}, which AMD does not support"
            + (f"; {policy.note}" if policy.note else ""),
        )
        for name, (value, (gfx, policy)) in wanted.items()
        if situation.variable(name) != value
    )


def _is_sound(native: Choice, choice: Choice) -> bool:
    """Whether a build with code for the GPUs themselves is the chosen one: it needs no override."""
    return (native.version, native.build) == (choice.version, choice.build) and not native.fault


def _faults(matrix: Matrix, usable: dict[str, Override], rocm: str | None) -> bool:
    """Whether a known issue says that an override of these targets fails on this ROCm."""
    if not rocm:
        return False
    for issue in matrix.tables.known_issues:
        when = issue.when
        named = any(item.name == OVERRIDE for item in when.env)
        if named and when.rocm and set(when.gfx) & set(usable) and matches(when.rocm, rocm):
            return True
    return False
