"""The vendors' kernel modules that are installed, and what keeps them from loading."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.finding import Fix, InstallKernel, InstallRocmDriver, InstallSystemPackage, Manual, Reboot
from gpudoctor.machine import ASSUMED, BlockedModule, DkmsModule, Gpu, InstalledModule, LogFault, Os, Vendor
from gpudoctor.matrix.driver_packages import kernel_package, reaches
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.kernel_log import GIVEN_UP
from gpudoctor.situation.seen_errors import seen_errors

_TOO_OLD = "amd-kernel-or-runtime-too-old"
_WHILE_IN_USE = (
    "amdgpu-ring-timeout", "amdgpu-sdma-timeout", "amdgpu-page-fault", "amdgpu-reset", "amdgpu-mes-hung",
)  # fmt: skip
"""Faults of a GPU that amdgpu has started."""
_NOT_STARTED = (*GIVEN_UP["amd"], "kfd-ip-unknown")
"""Of one that it has not."""


def core_modules(situation: Situation) -> tuple[InstalledModule, ...]:
    """NVIDIA's main module for each kernel that has it, under the names that distributions use."""
    return tuple(
        module for module in situation.machine.nvidia.modules_installed.value or () if is_nvidia_core(module.name)
    )


def is_nvidia_core(name: str) -> bool:
    """ "nvidia" itself (also nvidia-current, nvidia-srv, nvidia-tesla-470 ...), not nvidia_uvm and its other
    companions."""
    return bool(re.fullmatch(r"nvidia(_(current|tesla|legacy|open|srv|\d+)\w*)?", name.replace("-", "_")))


def for_running_kernel(situation: Situation) -> InstalledModule | None:
    """The one that was built for the running kernel."""
    kernel = situation.machine.system.kernel.value
    return next((module for module in core_modules(situation) if module.kernel == kernel), None)


def version_on_disk(situation: Situation) -> str | None:
    """Version of the NVIDIA module for the running kernel, by its file, else by the DKMS tree that it was built
    from."""
    module = for_running_kernel(situation)
    if module is not None and module.version:
        return module.version
    if module is None and situation.machine.nvidia.modules_installed.known:
        return None
    kernel = situation.machine.system.kernel.value
    trees = [tree for tree in situation.machine.nvidia.dkms.value or () if kernel and tree.kernel == kernel]
    built = [tree.version for tree in trees if is_nvidia_core(tree.name) and tree.status in ("built", "installed")]
    return built[0] if len(built) == 1 else None


def blocking_rules(situation: Situation, vendor: Vendor) -> tuple[BlockedModule, ...]:
    """Rules that keep the vendor's main module from loading."""
    if situation.in_container:
        return ()
    if vendor == "nvidia":
        rules = situation.machine.nvidia.blocked.value or ()
        return tuple(rule for rule in rules if is_nvidia_core(rule.module))
    return tuple(rule for rule in situation.machine.amd.blocked.value or () if rule.module == "amdgpu")


def newer_kernel_with_amdgpu(situation: Situation) -> str:
    """A newer installed kernel that has amdgpu, where the running one lacks it and no rule blocks it: a reboot starts
    it. "" if there is none."""
    running = situation.machine.system.kernel.value or ""
    modules = situation.machine.amd.modules_installed.value or ()
    kernels = [module.kernel for module in modules if module.name == "amdgpu"]
    newest = max(kernels, key=figures, default="")
    waits = running not in kernels and not blocking_rules(situation, "amd")
    return newest if waits and figures(newest) > figures(running) else ""


def forbids(rule: str) -> bool:
    """Whether a rule stops a module that is loaded by its name, as programs do; a plain "blacklist" stops only what
    the kernel loads for a device."""
    return rule.strip().startswith(("install", "alias")) or rule.startswith("module_blacklist")


def unbuilt_dkms(situation: Situation, vendor: Vendor) -> tuple[DkmsModule, ...]:
    """DKMS trees of the vendor's driver, if none of them is installed for the running kernel."""
    kernel = situation.machine.system.kernel.value
    trees = (situation.machine.nvidia if vendor == "nvidia" else situation.machine.amd).dkms.value or ()
    ours = is_nvidia_core if vendor == "nvidia" else _is_amdgpu
    mine = tuple(tree for tree in trees if ours(tree.name))
    if kernel is None or situation.in_container:
        return ()
    return () if any(tree.kernel == kernel and tree.status == "installed" for tree in mine) else mine


SECURE_BOOT, LOCKDOWN = "secure-boot-module-rejected", "kernel-lockdown"
_KEY_REJECTED = "Key was rejected by service"
"""What Secure Boot nearly always, and other rules seldom, make modprobe print."""


def signature_rule(situation: Situation) -> str | None:
    """The slug of what makes this kernel refuse modules without a trusted signature: Secure Boot, which locks the
    kernel down as well, or lockdown or module.sig_enforce alone. None if nothing is known to."""
    system = situation.machine.system
    if system.secure_boot.value:
        return SECURE_BOOT
    enforced = any(map(_enforces_signatures, system.kernel_options.value or ()))
    return LOCKDOWN if enforced or system.lockdown.value in ("integrity", "confidentiality") else None


def signature_refusal(situation: Situation, vendor: Vendor) -> str | None:
    """The slug of what refused a module of this vendor, if the kernel log has such a line."""
    lines = key_rejected(situation, vendor)
    if not lines:
        return None
    unknown = situation.machine.system.secure_boot.undecided or any(_KEY_REJECTED in line.line for line in lines)
    secure_boot = unknown and not any("Lockdown:" in line.line for line in lines)
    return signature_rule(situation) or (SECURE_BOOT if secure_boot else LOCKDOWN)


def _enforces_signatures(option: str) -> bool:
    name, _, value = option.partition("=")
    return name == "lockdown" or (name == "module.sig_enforce" and value in ("", "1", "y", "Y"))


def key_rejected(situation: Situation, vendor: Vendor) -> tuple[LogFault, ...]:
    """Lines that say that the kernel refused the signature of a module of this vendor, or of an unnamed module."""
    other = re.compile(r"'(amdgpu|amdkcl|amdttm)" if vendor == "nvidia" else r"'nvidia")
    return tuple(
        fault for fault in situation.log_faults("secure-boot-module-rejected") if not other.search(fault.line)
    )


def _is_amdgpu(name: str) -> bool:
    return name in ("amdgpu", "rock")


def kernel_too_old(situation: Situation, gpu: Gpu) -> str | None:
    """The first kernel that supports the GPU, if the running one is older and no AMD driver package is installed for
    it."""
    target = situation.matrix.gpus.target(gpu.arch.value)
    first, running = target.first_kernel if target else None, situation.machine.system.kernel.value
    if first is None or running is None or situation.machine.system.kernel.source == ASSUMED:
        return None
    trees, module = situation.machine.amd.dkms.value or (), situation.machine.amd.module.value
    stands_in = any(tree.status == "installed" and tree.kernel == running for tree in trees)
    stands_in = stands_in or module not in (None, "in-tree")  # only AMD's own module states a version
    return first if not stands_in and _numbers(running) < _numbers(first) else None


def newer_than_described_kernel(situation: Situation) -> tuple[Gpu, ...]:
    """Described GPUs that the described kernel's own amdgpu does not support, if the description names no driver.
    In a text something must miss the GPU: most who run ROCm on an old kernel have AMD's own driver, unsaid."""
    machine = situation.machine
    kernel = machine.system.kernel
    if "amdgpu driver" not in machine.assumed or has_backports(situation):
        return ()
    if machine.pasted and (_reached(situation) or not _missed(situation)):
        return ()
    described = (gpu for gpu in situation.usable_of("amd") if machine.pasted or gpu.source == kernel.source)
    return tuple(gpu for gpu in described if kernel_too_old(situation, gpu))


def _reached(situation: Situation) -> bool:
    """Whether a text shows that its kernel's driver has the GPU: torch, a tool of ROCm or the kernel log found it."""
    text, amd = situation.machine.text, situation.machine.amd
    listed = (amd.hsa.value is not None and amd.hsa.value.lists_gpu) or amd.smi.known
    used = any(fault.kind in _WHILE_IN_USE for fault in situation.machine.log_faults)
    return bool(text.works or text.started) or listed or used


def _missed(situation: Situation) -> bool:
    """Whether a text shows that nothing finds the GPU: torch counted none, amdgpu did not start it, or a program says
    what an old kernel may be the cause of."""
    trial = situation.torch_trial
    refused = any(fault.kind in _NOT_STARTED for fault in situation.machine.log_faults)
    told = any(row is not None and _TOO_OLD in row.causes for _, row in seen_errors(situation))
    return (trial is not None and trial.device_count == 0) or refused or told


def described_together(situation: Situation, gpu: Gpu) -> bool:
    """Whether a GPU and the kernel belong to one machine: both are described, or both are here."""
    kernel = situation.machine.system.kernel.source
    return "description" not in (gpu.source, kernel) or gpu.source == kernel


def amds_driver(situation: Situation, title: str) -> tuple[Fix, ...]:
    """The fix that installs AMD's own kernel driver (amdgpu-dkms), where AMD supports it: elsewhere it need not even
    build."""
    os, kernel = _os_of_the_kernel(situation), situation.machine.system.kernel.value or ""
    if not os.id or situation.matrix.distributions.supports_amdgpu_dkms(os, kernel):
        return (Fix(title, (InstallRocmDriver(), Reboot())),)
    for row in situation.matrix.distributions.kernels(os)[::-1]:
        shipped = row.kernel if row.kernel.count(".") > 1 else f"{row.kernel}.0"
        if figures(row.kernel) > _numbers(kernel) and situation.matrix.distributions.supports_amdgpu_dkms(
            os, shipped
        ):
            remedies = (InstallKernel(row.kernel), InstallRocmDriver(kernel=shipped), Reboot())
            return (Fix(f"{title}, on Linux {row.kernel}", remedies),)
    return ()


def _os_of_the_kernel(situation: Situation) -> Os:
    """The distribution that the kernel belongs to; inside a container it is unknown."""
    return Os() if situation.in_container else situation.machine.system.os.value or Os()


def newer_kernel(situation: Situation, first: str | None, why: str = "") -> tuple[Fix, ...]:
    """Ways to a kernel of this number or newer: the distribution's own, else a later release of it. Without a number,
    any newer one."""
    os, running = _os_of_the_kernel(situation), situation.machine.system.kernel.value or ""
    rows = [
        row
        for row in situation.matrix.distributions.kernels(os)
        if row.rolling or figures(row.kernel) > _numbers(running)
    ]
    enough = [row for row in rows if reaches(row, first)] if first else rows[-1:]
    if enough:
        row = enough[0]
        title = f"Install Linux {row.kernel}{' or newer' if row.rolling else ''} ({kernel_package(row, running)})"
        return (Fix(title, (InstallKernel(row.kernel, why=why), Reboot(why="starts the new kernel"))),)
    title, text = _newer_kernel_by_hand(situation, os, first)
    return (Fix(title, (Manual(text, why=why, risk="reboot"),)),)


def _newer_kernel_by_hand(situation: Situation, os: Os, first: str | None) -> tuple[str, str]:
    """Title and text of what a person does where no command installs such a kernel."""
    distributions = situation.matrix.distributions
    shipped = distributions.kernels(os)
    title = f"Boot Linux {first} or newer" if first else "Boot a newer kernel"
    if not shipped:
        return title, "Install a newer kernel of the distribution, and boot it."
    newest = shipped[-1]
    if newest.backports:
        text = f"Install the newest {newest.package} of this release, and boot it: newer GPU drivers are added to it."
        return "Boot the newest kernel of this release", text
    text = f"This release of the distribution ships no kernel newer than Linux {newest.kernel} ({newest.package})"
    later = distributions.later_release(os, first) if first else None
    if later is None:
        return title, f"{text}: install one from another source, and boot it."
    own = later.example.startswith(f"{os.id}-")
    target = later.example if own else f"a release based on {later.example}"
    return f"Upgrade to {target}", f"{text}: upgrade to {target}, which has Linux {later.kernel} ({later.package})."


def kernel_with_the_chip(situation: Situation, first: str | None) -> tuple[Fix, ...]:
    """A kernel that the distribution ships, AMD's own driver, or another way to a newer kernel."""
    kernel, driver = newer_kernel(situation, first), amds_driver(situation, "Install AMD's kernel driver")
    os = situation.machine.system.os.value
    if os is not None and situation.matrix.distributions.firmware_package(os) and not situation.in_container:
        firmware = InstallSystemPackage("linux-firmware", why="a newer GPU needs newer firmware, too")
        kernel = tuple(replace(fix, remedies=(firmware, *fix.remedies)) for fix in kernel)
    ships = any(isinstance(remedy, InstallKernel) for fix in kernel for remedy in fix.remedies)
    return (*kernel, *driver) if ships else (*driver, *kernel)


def has_backports(situation: Situation) -> bool:
    """Whether newer GPU drivers were added to the kernel: its number does not tell which GPUs it knows."""
    system = situation.machine.system
    return situation.matrix.distributions.has_backports(system.os.value, system.kernel.value or "")


def _numbers(kernel: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,9})\.(\d{1,9})", kernel)
    return (int(found[1]), int(found[2])) if found else (0, 0)
