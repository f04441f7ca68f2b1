"""GPUs without a working kernel driver, and the first reason why. Each GPU has one reason. Each check of the kernel
and driver layers reports only its own, so that a report names a cause and not its effects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from gpudoctor.finding import Fix, by_hand
from gpudoctor.isa import capability
from gpudoctor.machine import BlockedModule, Gpu, LogFault, Vendor
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.amdgpu_start import bad_pages, hardware_errors, no_address_space
from gpudoctor.situation.device_nodes import made_at_first_use
from gpudoctor.situation.gpu_groups import group_by
from gpudoctor.situation.kernel_log import lines_about, lines_of
from gpudoctor.situation.kernel_modules import (
    blocking_rules,
    core_modules,
    for_running_kernel,
    forbids,
    kernel_too_old,
    signature_refusal,
    signature_rule,
    unbuilt_dkms,
)
from gpudoctor.situation.nvidia_driver import cuda_status, refusal, refusals
from gpudoctor.situation.virtual_gpu import refused_in_guest

RIVALS = ("nouveau", "nova_core", "nova-core", "NovaCore", "nova", "nvidiafb", "rivafb")
"""Kernel drivers that keep NVIDIA's driver from the GPU."""

Weight = Literal["error", "note"]


# --- which GPUs ---


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


def loads_at_first_use(situation: Situation) -> bool:
    """Whether the first CUDA program loads NVIDIA's module, which is installed for this kernel, and nothing is known
    to keep it from that. It does not say yet whether it works."""
    ready = for_running_kernel(situation) is not None
    unloaded = ready and situation.machine.nvidia.module.absent and not situation.in_container
    return unloaded and _awaits_first_use(situation) and bool(because(situation, "no-driver"))


def _awaits_first_use(situation: Situation) -> bool:
    """Whether CUDA loads NVIDIA's modules when it starts, and nobody has tried to start it. At level driver
    gpudoctor has; and without its library nothing can."""
    tried = situation.machine.level != "static" or cuda_status(situation) is not None
    return not tried and not situation.machine.nvidia.userland.absent and made_at_first_use(situation) is True


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


# --- why ---


def because(situation: Situation, slug: str) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """GPUs without a driver for which this is the first reason, in groups of equal ones."""
    nvidia = [
        gpu for gpu in gpus_without_driver(situation, "nvidia") if next(_nvidia_reasons(situation, gpu)) == slug
    ]
    amd = [gpu for gpu in gpus_without_driver(situation, "amd") if next(_amd_reasons(situation, gpu)) == slug]
    return by_weight_and_name(situation, nvidia + amd)


def _nvidia_reasons(situation: Situation, gpu: Gpu) -> Iterator[str]:
    if rival(situation, gpu):
        yield "nouveau-conflict"
    if situation.in_container:
        yield "no-driver"
    if situation.machine.nvidia.module.known and any(
        f.bdf for f in lines_about(gpu, situation.log_faults("gpu-off-bus"))
    ):
        yield "gpu-off-bus"
    if refused_in_guest(situation, gpu):
        yield "vgpu-guest-driver"
    loaded = situation.machine.nvidia.module.known
    yield from (reason for reason in refusals(situation, gpu) if loaded or reason != "driver-too-old")
    if not loaded:
        modules = core_modules(situation)
        known = situation.machine.nvidia.modules_installed.known
        ready = for_running_kernel(situation) is not None
        rules = blocking_rules(situation, "nvidia")
        if rules and (modules or not known) and not _until_first_use(situation, rules):
            yield "module-blacklisted"
        refused = signature_refusal(situation, "nvidia")
        if refused and (ready or not known):
            yield refused
        misbuilt = situation.log_faults("nvidia-dkms-kernel-mismatch") or not ready
        if misbuilt and (modules or unbuilt_dkms(situation, "nvidia")) and situation.machine.system.kernel.known:
            yield "nvidia-dkms-kernel-mismatch"
        enforced = signature_rule(situation)
        if ready and enforced:
            yield enforced
    yield "no-driver"


def _until_first_use(situation: Situation, rules: tuple[BlockedModule, ...]) -> bool:
    """Whether these rules only keep the module from loading at boot: the first CUDA program loads it by its name."""
    return _awaits_first_use(situation) and not any(rule.chosen or forbids(rule.rule) for rule in rules)


def _amd_reasons(situation: Situation, gpu: Gpu) -> Iterator[str]:
    if not situation.in_container and gpu.driver.value != "radeon":
        if bad_pages(situation, gpu):
            yield "gpu-ecc"
        if no_address_space(situation, gpu):
            yield "driver-init-failed-bios"
        if hardware_errors(situation, gpu):
            yield "driver-init-failed-hw"
        if blocking_rules(situation, "amd") or "nomodeset" in (situation.machine.system.kernel_options.value or ()):
            yield "module-blacklisted"
        if refused := signature_refusal(situation, "amd"):
            yield refused
        misbuilt = unbuilt_dkms(situation, "amd") or situation.log_faults("amd-dkms-kernel-mismatch")
        if misbuilt and not situation.machine.amd.module.known:
            yield "amd-dkms-kernel-mismatch"
        if kernel_too_old(situation, gpu) or lines_of(situation, gpu, ("amdgpu-unknown-chip",)):
            yield "amd-kernel-or-runtime-too-old"
    yield "no-driver"


def rival(situation: Situation, gpu: Gpu) -> str | None:
    """The other kernel driver that has this NVIDIA GPU: the bound one; if the binding was not recorded, one that is
    loaded."""
    if gpu.driver.undecided and not situation.in_container:
        return next((name for name in situation.machine.nvidia.modules_loaded.value or () if name in RIVALS), None)
    return gpu.driver.value if gpu.driver.value in RIVALS else None


MOVE_FOR_ATOMICS = by_hand(
    "Move the GPU to a slot that is wired to the processor",
    "Move the GPU to a slot that is wired to the processor: not to the chipset, without riser or Thunderbolt. "
    "In a virtual machine, pass PCIe atomics through. Boards before PCIe 3.0 cannot do it.",
)


def without_kfd(situation: Situation, slug: str) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """GPUs bound to amdgpu but not listed by KFD (so without compute access) for which this is the first reason."""
    machine = situation.machine
    readable = all(node.readable for node in machine.amd.topology.value or ())
    seen = machine.amd.kfd.absent or not machine.amd.topology.undecided
    if situation.in_container or situation.in_wsl or not readable or not seen:
        return []
    bound = [gpu for gpu in machine.of_vendor("amd") if gpu.driver.value == "amdgpu" and gpu.kfd_node is None]
    wanted = [gpu for gpu in bound if gpu.arch.known and not (gpu.integrated and weight(situation, gpu) == "note")]
    return by_weight_and_name(situation, [gpu for gpu in wanted if next(_kfd_reasons(situation, gpu)) == slug])


def _kfd_reasons(situation: Situation, gpu: Gpu) -> Iterator[str]:
    target = situation.matrix.gpus.target(gpu.arch.value)
    others = (one for one in situation.machine.of_vendor("amd") if one.kfd_node is not None)
    knows_chip = any(one.arch.value == gpu.arch.value for one in others)
    if any(names_gpu(fault, gpu) for fault in lines_about(gpu, situation.log_faults("amd-pcie-atomics"))):
        yield "amd-pcie-atomics"
    if not knows_chip and unbuilt_dkms(situation, "amd"):
        yield "amd-dkms-kernel-mismatch"
    if not knows_chip and (kernel_too_old(situation, gpu) or situation.log_faults("amd-kernel-or-runtime-too-old")):
        yield "amd-kernel-or-runtime-too-old"
    if situation.machine.amd.kfd.absent or situation.machine.amd.topology.absent:
        yield "amd-kfd-missing"
    if target and target.atomics in ("always", "unless-firmware") and not situation.machine.kernel_log.known:
        yield "amd-pcie-atomics"
    yield "amd-kfd-missing" if knows_chip else "amd-kernel-or-runtime-too-old"


def all_need_atomics(situation: Situation) -> bool:
    """Whether KFD takes none of the AMD GPUs in a slot without PCIe atomics, whatever their firmware."""
    targets = [situation.matrix.gpus.target(gpu.arch.value) for gpu in situation.machine.of_vendor("amd")]
    return bool(targets) and all(target and target.atomics == "always" for target in targets)


def names_gpu(fault: LogFault, gpu: Gpu) -> bool:
    """Whether a log line names this PCI id, or none ("skipped device 1002:67df")."""
    named = re.search(r"device ([0-9a-f]{4}:[0-9a-f]{4})", fault.line, re.IGNORECASE)
    return named is None or gpu.pci_id is None or named[1].lower() == gpu.pci_id.lower()


def _older(gpu: Gpu, other: Gpu) -> bool:
    """Whether an NVIDIA GPU has a lower compute capability than another."""
    mine, theirs = capability(gpu.arch.value), capability(other.arch.value)
    return mine is not None and theirs is not None and mine < theirs
