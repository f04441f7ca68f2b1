"""Cards that no working kernel driver serves, the first reason why, and the driver that would serve them.

One card has one reason. Each check of the kernel and driver layers asks for it and speaks only of its own, so
that a report names a cause and not its effects. Holds no checks itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from gpudoctor.check import Case
from gpudoctor.finding import (
    Device,
    Evidence,
    Finding,
    InstallDriver,
    Manual,
    ModuleFlavour,
    Reboot,
    WayOut,
    gpu_subject,
)
from gpudoctor.isa import cuda_runs
from gpudoctor.machine import BlockedModule, DkmsModule, Gpu, InstalledModule, LogFault, Vendor

RESERVED = ("vfio-pci", "pci-stub", "pciback", "xen-pciback", "uio_pci_generic", "igb_uio")
"""Drivers that hand a card to a virtual machine: chosen, never a fault."""

RIVALS = ("nouveau", "nova_core", "nova-core", "NovaCore", "nova", "nvidiafb", "rivafb")
"""Kernel drivers that keep NVIDIA's from taking the card."""

Weight = Literal["error", "note"]

NVML_NOT_LOADED, NVML_MISMATCH = 9, 18
CUDA_NOT_READY, CUDA_MISMATCH, CUDA_UNKNOWN = 802, 803, 999


# --- which cards ------------------------------------------------------------------------------------


def unserved(case: Case, vendor: Vendor) -> tuple[Gpu, ...]:
    """Cards of a vendor that are on the bus, not reserved for virtual machines, and that its driver does not have."""
    machine = case.machine
    if machine.system.wsl.known or machine.system.jetson.known:
        return ()
    return tuple(
        standing.gpu
        for standing in case.standings
        if standing.gpu.vendor == vendor
        and standing.gpu.driver.value not in RESERVED
        and (standing.bound == "no" or (standing.bound == "unknown" and _module_is_out(case, vendor)))
    )


def _module_is_out(case: Case, vendor: Vendor) -> bool:
    """The vendor's module is known not to be loaded (asked where it is not known what a card is bound to)."""
    machine = case.machine
    if case.in_container:
        return False
    loaded = machine.nvidia.modules_loaded if vendor == "nvidia" else machine.amd.modules_loaded
    if loaded.value is None or ("nvidia" if vendor == "nvidia" else "amdgpu") in loaded.value:
        return False
    return machine.nvidia.module.absent if vendor == "nvidia" else not machine.amd.module.known


def served(case: Case) -> tuple[Gpu, ...]:
    """Usable cards that nothing speaks against."""
    out = {id(gpu) for vendor in ("nvidia", "amd") for gpu in unserved(case, vendor)}
    return tuple(gpu for gpu in case.usable if id(gpu) not in out and not _in_doubt(case, gpu))


def _in_doubt(case: Case, gpu: Gpu) -> bool:
    """Bound to its driver, and refused by it, gone, or without compute all the same."""
    if gpu.vendor == "nvidia":
        return gpu.off_bus or (gpu.nvml is None and nvidia_refusal(case, gpu) is not None)
    return gpu.off_bus or (gpu.kfd_node is None and case.machine.amd.topology.known and not case.in_container)


def weight(case: Case, gpu: Gpu) -> Weight:
    """How much it weighs that this card does not work: a note for a display card beside a working one."""
    working = tuple(other for other in served(case) if other is not gpu)
    if case.built_for:
        working = tuple(other for other in working if other.vendor == case.built_for)
    elif not gpu.integrated:
        working = tuple(other for other in working if not other.integrated)
    if any(
        gpu.integrated or gpu.boot_vga or gpu.vendor != other.vendor or _older(case, gpu, other) for other in working
    ):
        return "note"
    if case.built_for == gpu.vendor:
        return "error"
    if case.in_container and case.built_for is None:
        return "note"
    by_the_way = gpu.vendor == "amd" and gpu.integrated
    return "note" if by_the_way or not _computes(case, gpu) else "error"


def _older(case: Case, gpu: Gpu, other: Gpu) -> bool:
    mine, theirs = _capability(gpu), _capability(other)
    return mine is not None and theirs is not None and mine < theirs


def _capability(gpu: Gpu) -> int | None:
    found = re.fullmatch(r"sm_(\d+)", gpu.arch.value or "")
    return int(found[1]) if found else None


def _computes(case: Case, gpu: Gpu) -> bool:
    """Whether some torch build serves the card, or it is too new to be known."""
    if gpu.vendor == "amd":
        return gpu.arch.known or gpu.driver.value != "radeon"
    if not gpu.arch.value:
        return True
    builds = (build for build in case.matrix.builds() if build.cuda and build.archs)
    return any(cuda_runs(gpu.arch.value, build.archs or (), build.ptx or ()).runs == "yes" for build in builds)


def alike(case: Case, cards: list[Gpu]) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """Cards of one name and weight together, so that eight equal cards are one finding."""
    groups: dict[tuple[Weight, str], list[Gpu]] = {}
    for gpu in cards:
        groups.setdefault((weight(case, gpu), gpu.name), []).append(gpu)
    return [(severity, tuple(group)) for (severity, _), group in groups.items()]


def finding(severity: Weight, cards: tuple[Gpu, ...], **parts: Any) -> Finding:
    """A finding about such a group; `parts` are the other fields of a Finding."""
    device = Device.of(cards[0]) if len(cards) == 1 else None
    subject = gpu_subject(cards[0]) if len(cards) == 1 else called(cards)
    return Finding(severity=severity, subject=subject, device=device, **parts)


def called(cards: tuple[Gpu, ...]) -> str:
    """What a message calls such a group: "NVIDIA A100-SXM4-80GB (8 cards)"."""
    return cards[0].name if len(cards) == 1 else f"{cards[0].name} ({len(cards)} cards)"


# --- what is installed ------------------------------------------------------------------------------


def core_modules(case: Case) -> tuple[InstalledModule, ...]:
    """NVIDIA's main module for each kernel that has it, under the names distributions give it."""
    return tuple(
        module for module in case.machine.nvidia.modules_installed.value or () if is_nvidia_core(module.name)
    )


def is_nvidia_core(name: str) -> bool:
    """ "nvidia" itself (also nvidia-current, nvidia-tesla-470 ...), not nvidia_uvm and its other companions."""
    return bool(re.fullmatch(r"nvidia(_(current|tesla|legacy|open|\d+)\w*)?", name.replace("-", "_")))


def for_running_kernel(case: Case, modules: tuple[InstalledModule, ...]) -> InstalledModule | None:
    """The one of these modules that was built for the kernel that runs."""
    kernel = case.machine.system.kernel.value
    return next((module for module in modules if module.kernel == kernel), None)


def nvidia_driver(case: Case) -> tuple[str | None, ModuleFlavour | None, str]:
    """Version, flavour, source of the NVIDIA driver: loaded, else installed for this kernel, else its libraries."""
    loaded = case.machine.nvidia.module
    if loaded.value:
        return loaded.value.version, loaded.value.flavour, loaded.source
    if not case.in_container and (module := for_running_kernel(case, core_modules(case))):
        return module.version or case.machine.nvidia.userland.value, module.flavour, module.path
    return case.machine.nvidia.userland.value, None, case.machine.nvidia.userland.source


def blocked(case: Case, vendor: Vendor) -> tuple[BlockedModule, ...]:
    """Rules that keep the vendor's main module from loading."""
    if case.in_container:
        return ()
    if vendor == "nvidia":
        rules = case.machine.nvidia.blocked.value or ()
        return tuple(rule for rule in rules if is_nvidia_core(rule.module))
    return tuple(rule for rule in case.machine.amd.blocked.value or () if rule.module == "amdgpu")


def unbuilt_dkms(case: Case, vendor: Vendor) -> tuple[DkmsModule, ...]:
    """DKMS trees of the vendor's driver, if none of them is installed for the running kernel."""
    kernel = case.machine.system.kernel.value
    trees = (case.machine.nvidia if vendor == "nvidia" else case.machine.amd).dkms.value or ()
    ours = is_nvidia_core if vendor == "nvidia" else _is_amdgpu
    mine = tuple(tree for tree in trees if ours(tree.name))
    if kernel is None or case.in_container:
        return ()
    return () if any(tree.kernel == kernel and tree.status == "installed" for tree in mine) else mine


def _is_amdgpu(name: str) -> bool:
    return name in ("amdgpu", "rock")


def about(gpu: Gpu, faults: tuple[LogFault, ...]) -> tuple[LogFault, ...]:
    """The log lines that name this card's slot, or no slot at all."""
    slot = (gpu.bdf or "").rpartition(".")[0].lower()
    return tuple(
        fault for fault in faults if fault.bdf is None or not slot or fault.bdf.lower().partition(".")[0] == slot
    )


# --- what the driver itself says (level driver) ---------------------------------------------------------


def cuda_status(case: Case) -> int | None:
    """What cuInit answered; None where nobody asked."""
    return case.machine.nvidia.cuda.value.status if case.machine.nvidia.cuda.value else None


def nvml_status(case: Case) -> int | None:
    """What NVML (else nvidia-smi) answered; None where nobody asked."""
    answers = (case.machine.nvidia.nvml.value, case.machine.nvidia.smi.value)
    return next((answer.status for answer in answers if answer), None)


def driver_answers(case: Case) -> tuple[Evidence, ...]:
    """Module, libraries, and what NVML and CUDA answered where they failed."""
    module = case.machine.nvidia.module
    return (
        Evidence("nvidia.module", module.value.version if module.value else module.state, module.source),
        Evidence.of("nvidia.userland", case.machine.nvidia.userland),
        *(
            Evidence(f"nvidia.{name}", f"error {api.value.status} {api.value.message}".strip(), api.source)
            for name, api in (("nvml", case.machine.nvidia.nvml), ("cuda", case.machine.nvidia.cuda))
            if api.value and api.value.status
        ),
    )


# --- why --------------------------------------------------------------------------------------------


def because(case: Case, slug: str) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """Unserved cards for which this is the first reason, in groups of equal ones."""
    nvidia = [gpu for gpu in unserved(case, "nvidia") if next(_nvidia_reasons(case, gpu)) == slug]
    amd = [gpu for gpu in unserved(case, "amd") if next(_amd_reasons(case, gpu)) == slug]
    return alike(case, nvidia + amd)


def _nvidia_reasons(case: Case, gpu: Gpu) -> Iterator[str]:
    if gpu.driver.value in RIVALS:
        yield "nouveau-conflict"
    if case.in_container:
        yield "no-driver"
    if refusal := nvidia_refusal(case, gpu):
        yield refusal
    if not case.machine.nvidia.module.known:
        modules = core_modules(case)
        known = case.machine.nvidia.modules_installed.known
        ready = for_running_kernel(case, modules) is not None
        if blocked(case, "nvidia") and (modules or not known):
            yield "module-blacklisted"
        if case.log_faults("secure-boot-module-rejected"):
            yield "secure-boot-module-rejected"
        if not ready and (modules or unbuilt_dkms(case, "nvidia")) and case.machine.system.kernel.known:
            yield "nvidia-dkms-kernel-mismatch"
        if ready and case.machine.system.secure_boot.value:
            yield "secure-boot-module-rejected"
    yield "no-driver"


def nvidia_refusal(case: Case, gpu: Gpu) -> str | None:
    """Slug of the rule by which the driver that is there refuses this card: its branch, or its module flavour."""
    version, flavour, _ = nvidia_driver(case)
    sm = gpu.arch.value
    if sm is None or version is None:
        return None
    last = case.matrix.last_branch(sm)
    branch = _branch(version)
    if last is not None and branch is not None and branch > int(last.partition(".")[0]):
        return "nvidia-driver-dropped-gpu"
    rule = case.matrix.module_flavour(sm, gpu.name)
    if rule == "required" and flavour == "proprietary":
        return "blackwell-open-module"
    if rule == "refused" and flavour == "open":
        return "open-module-unsupported-gpu"
    return None


def _branch(version: str) -> int | None:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else None


def _amd_reasons(case: Case, gpu: Gpu) -> Iterator[str]:
    if not case.in_container and gpu.driver.value != "radeon":
        if blocked(case, "amd") or "nomodeset" in (case.machine.system.kernel_options.value or ()):
            yield "module-blacklisted"
        if case.log_faults("secure-boot-module-rejected"):
            yield "secure-boot-module-rejected"
        if unbuilt_dkms(case, "amd") and not case.machine.amd.module.known:
            yield "amd-dkms-kernel-mismatch"
        if kernel_too_old(case, gpu):
            yield "amd-kernel-or-runtime-too-old"
    yield "no-driver"


def kernel_too_old(case: Case, gpu: Gpu) -> str | None:
    """First kernel that knows the card, if the running one is older and no AMD driver package stands in."""
    target = case.matrix.target(gpu.arch.value) if gpu.arch.value else None
    first, running = target.first_kernel if target else None, case.machine.system.kernel.value
    if first is None or running is None:
        return None
    trees = case.machine.amd.dkms.value or ()
    stands_in = any(tree.status == "installed" and tree.kernel == running for tree in trees)
    return first if not stands_in and _numbers(running) < _numbers(first) else None


def _numbers(kernel: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", kernel)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def without_kfd(case: Case, slug: str) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """Cards that amdgpu has and KFD does not (so: a screen and no compute), for which this is the first reason."""
    machine = case.machine
    readable = all(node.readable for node in machine.amd.topology.value or ())
    if case.in_container or machine.system.wsl.known or not readable or machine.amd.topology.undecided:
        return []
    bound = [gpu for gpu in machine.of_vendor("amd") if gpu.driver.value == "amdgpu" and gpu.kfd_node is None]
    wanted = [gpu for gpu in bound if gpu.arch.known and not (gpu.integrated and weight(case, gpu) == "note")]
    return alike(case, [gpu for gpu in wanted if next(_kfd_reasons(case, gpu)) == slug])


def _kfd_reasons(case: Case, gpu: Gpu) -> Iterator[str]:
    target = case.matrix.target(gpu.arch.value or "")
    if any(names_card(fault, gpu) for fault in about(gpu, case.log_faults("amd-pcie-atomics"))):
        yield "amd-pcie-atomics"
    if unbuilt_dkms(case, "amd"):
        yield "amd-dkms-kernel-mismatch"
    if kernel_too_old(case, gpu):
        yield "amd-kernel-or-runtime-too-old"
    if case.machine.amd.kfd.absent or case.machine.amd.topology.absent:
        yield "amd-kfd-missing"
    if target and target.atomics in ("always", "unless-firmware") and not case.machine.kernel_log.known:
        yield "amd-pcie-atomics"
    yield "amd-kernel-or-runtime-too-old"


def names_card(fault: LogFault, gpu: Gpu) -> bool:
    """Whether a log line speaks of this PCI id, or of none ("skipped device 1002:67df")."""
    named = re.search(r"device ([0-9a-f]{4}:[0-9a-f]{4})", fault.line, re.IGNORECASE)
    return named is None or gpu.pci_id is None or named[1].lower() == gpu.pci_id.lower()


# --- the driver that serves -------------------------------------------------------------------------


def flavour_for(case: Case, cards: tuple[Gpu, ...]) -> ModuleFlavour | None:
    """The kernel-module flavour that all these cards take; None where no flavour serves them all."""
    rules = {case.matrix.module_flavour(gpu.arch.value, gpu.name) for gpu in cards if gpu.arch.value}
    if {"required", "refused"} <= rules:
        return None
    return "proprietary" if "refused" in rules else "open"


def driver_for(case: Case, cards: tuple[Gpu, ...], *, why: str = "") -> InstallDriver | None:
    """The NVIDIA driver to install for these cards, or None where no one driver serves them all."""
    sms = tuple(dict.fromkeys(gpu.arch.value for gpu in cards if gpu.arch.value))
    flavour = flavour_for(case, cards)
    if not sms or flavour is None:
        return None
    cuda = case.torch.cuda if case.torch else None
    floor = case.matrix.floor(cuda) if cuda else None
    chosen = case.matrix.branch_to_install(sms, floor) or case.matrix.branch_to_install(sms, None)
    return InstallDriver(branch=chosen[0], minimum=chosen[1], flavour=flavour, why=why) if chosen else None


def install_driver(case: Case, cards: tuple[Gpu, ...]) -> WayOut:
    """The way out "install the NVIDIA driver that these cards take", on the host where this is a container."""
    remedy = driver_for(case, cards)
    if remedy is None:
        return WayOut("No one driver serves all cards", (Manual(text=_each(case, cards), risk="root"),))
    what = f"NVIDIA driver {remedy.branch} ({remedy.flavour} kernel modules)"
    if case.in_container:
        return WayOut(
            f"Install {what} on the host",
            (Manual(text=f"On the host, outside this container: install {what} and reboot.", risk="reboot"),),
        )
    return WayOut(f"Install {what}", (remedy, Reboot(why="the new kernel module is loaded at boot")))


def _each(case: Case, cards: tuple[Gpu, ...]) -> str:
    needs = []
    for gpu in cards:
        remedy = driver_for(case, (gpu,))
        if remedy is None:
            needs.append(f"{gpu.name}: a driver that names it in its list of supported cards")
        else:
            needs.append(f"{gpu.name}: driver {remedy.branch} with {remedy.flavour} kernel modules")
    joint = " These do not go together in one system: choose the card to use." if len(cards) > 1 else ""
    return f"Install the driver that the card takes. {'; '.join(needs)}.{joint}"
