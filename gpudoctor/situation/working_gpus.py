"""Which GPUs have no kernel driver, which work, and how much one that does not work matters."""

from __future__ import annotations

from typing import Literal

from gpudoctor.finding import Fix
from gpudoctor.isa import capability
from gpudoctor.machine import Gpu, Vendor
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.gpu_groups import group_by
from gpudoctor.situation.nvidia_driver import refusal

Weight = Literal["error", "note"]


@answer_once
def gpus_without_driver(situation: Situation, vendor: Vendor) -> tuple[Gpu, ...]:
    """GPUs of a vendor that are on the bus, not reserved for virtual machines, and not bound to its driver."""
    if situation.in_wsl or situation.on_jetson:
        return ()
    return tuple(
        standing.gpu
        for standing in situation.standings
        if standing.gpu.vendor == vendor
        and not standing.gpu.reserved
        and (standing.bound == "no" or (standing.bound == "unknown" and _module_is_out(situation, vendor)))
    )


def _module_is_out(situation: Situation, vendor: Vendor) -> bool:
    """Whether the vendor's module is known not to be loaded. This counts only if a GPU's driver is unknown."""
    machine = situation.machine
    if situation.in_container:
        return False
    loaded = machine.nvidia.modules_loaded if vendor == "nvidia" else machine.amd.modules_loaded
    if loaded.value is None or ("nvidia" if vendor == "nvidia" else "amdgpu") in loaded.value:
        return False
    return machine.nvidia.module.absent if vendor == "nvidia" else not machine.amd.module.known


@answer_once
def gpus_that_work(situation: Situation) -> tuple[Gpu, ...]:
    """Usable GPUs without a known problem."""
    out = (*gpus_without_driver(situation, "nvidia"), *gpus_without_driver(situation, "amd"))
    return tuple(gpu for gpu in situation.usable if gpu not in out and not _is_in_doubt(situation, gpu))


def _is_in_doubt(situation: Situation, gpu: Gpu) -> bool:
    """Bound to its driver, and refused by it or gone all the same."""
    return gpu.off_bus or refusal(situation, gpu) is not None


def weight(situation: Situation, gpu: Gpu) -> Weight:
    """How severe it is that this GPU does not work: a note for a display GPU beside a working one."""
    if has_a_better(situation, gpu):
        return "note"
    others = tuple(other for other in situation.standings if other.gpu.key != gpu.key)
    driven = (other.gpu for other in others if "no" not in (other.bound, other.counted))
    in_use = any(other.usable for other in others) or any(has_build(situation, other) for other in driven)
    if in_use and not has_build(situation, gpu):
        return "note"
    if situation.expected_vendor == gpu.vendor:
        return "error"
    if situation.in_container and situation.expected_vendor is None:
        return "note"
    if refusal(situation, gpu):
        return "error"  # somebody installed a driver, and the only GPU gets none
    by_the_way = gpu.vendor == "amd" and gpu.integrated and not for_computing(situation, gpu)
    return "note" if by_the_way or not computes(situation, gpu) else "error"


def has_a_better(situation: Situation, gpu: Gpu) -> bool:
    """Whether another GPU works that is meant rather than this one: of the vendor that a framework is for, else of
    another vendor, or newer."""
    working = tuple(other for other in gpus_that_work(situation) if other.key != gpu.key)
    if situation.framework_vendor:
        working = tuple(other for other in working if other.vendor == situation.framework_vendor)
    elif not gpu.integrated:
        working = tuple(other for other in working if not other.integrated)
    return any(gpu.integrated or gpu.boot_vga or gpu.vendor != one.vendor or _older(gpu, one) for one in working)


def for_computing(situation: Situation, gpu: Gpu) -> bool:
    """Whether people buy these graphics of a processor for computing: NVIDIA's, and those on which AMD supports it
    (Strix Halo)."""
    if gpu.vendor == "nvidia":
        return True
    return situation.matrix.amd.is_for_computing(gpu.arch.value)


def computes(situation: Situation, gpu: Gpu) -> bool:
    """Whether some torch build supports the GPU, or it is too new to be known."""
    if gpu.vendor == "amd":
        target = situation.matrix.gpus.target(gpu.arch.value)
        served = target is None or target.override.value is not None or has_build(situation, gpu)
        return gpu.driver.value != "radeon" and served
    from gpudoctor.situation.driver_choice import runs_some_build

    return runs_some_build(situation.matrix, gpu)


def has_build(situation: Situation, gpu: Gpu) -> bool:
    """Whether some torch build has code for the GPU; for an AMD GPU also for a target that an override may name."""
    gfx = gpu.arch.value
    if gpu.vendor != "amd" or gfx is None:
        return computes(situation, gpu)
    target, policy = situation.matrix.gpus.target(gfx), situation.matrix.amd.override(gfx)
    stands_in = situation.matrix.amd.gfx_of_override(policy.value if policy else None)
    carried = {arch for build in situation.matrix.torch.builds() if build.rocm for arch in build.archs or ()}
    return target is None or target.device_extra or not carried.isdisjoint({gfx, stands_in})


def without_any_build(situation: Situation) -> bool:
    """Whether the usable GPUs are AMD's and known, and no torch build has code for one of them: ROCm itself knows
    none of these."""
    gpus = situation.usable
    amd = bool(gpus) and all(gpu.vendor == "amd" and gpu.arch.value for gpu in gpus)
    return amd and not any(has_build(situation, gpu) for gpu in gpus)


def worthwhile(situation: Situation, gpus: tuple[Gpu, ...], fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """These fixes of a driver, unless no torch build supports the GPUs, or none loads here: then no driver helps
    torch. The CPU or another GPU is left, and nothing needs a fix if another GPU does the work."""
    from gpudoctor.situation.driver_choice import no_build_for, no_build_loads

    if any(has_build(situation, gpu) for gpu in gpus):
        elsewhere = no_build_loads(situation, gpus)
        return (elsewhere,) if elsewhere else fixes
    if any(other not in gpus and has_build(situation, other) for other in situation.usable):
        return ()
    return (no_build_for(gpus),)


def by_weight_and_name(situation: Situation, gpus: list[Gpu]) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """GPUs of one name and severity together."""
    groups = group_by(gpus, lambda gpu: (weight(situation, gpu), gpu.name))
    return [(severity, group) for (severity, _), group in groups.items()]


def _older(gpu: Gpu, other: Gpu) -> bool:
    """Whether an NVIDIA GPU has a lower compute capability than another."""
    mine, theirs = capability(gpu.arch.value), capability(other.arch.value)
    return mine is not None and theirs is not None and mine < theirs
