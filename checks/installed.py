"""What drivers are installed, what they say of themselves, which cards they refuse, and which one would serve.

Holds no checks itself.
"""

from __future__ import annotations

import re

from gpudoctor import builds
from gpudoctor.builds.drivers import driver_to_install, to_drive
from gpudoctor.check import Case
from gpudoctor.finding import Evidence, InstallDriver, Manual, ModuleFlavour, Reboot, WayOut
from gpudoctor.machine import BlockedModule, DkmsModule, Gpu, InstalledModule, LogFault, Vendor
from gpudoctor.matrix.versions import figures
from gpudoctor.visibility import RESERVED

NVML_NO_PERMISSION, NVML_MISMATCH, NVML_UNKNOWN = 4, 18, 999
CUDA_NOT_READY, CUDA_MISMATCH, CUDA_UNKNOWN = 802, 803, 999

DROPPED, NEEDS_OPEN, REFUSES_OPEN = (
    "nvidia-driver-dropped-gpu",
    "blackwell-open-module",
    "open-module-unsupported-gpu",
)


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
        return version_on_disk(case) or case.machine.nvidia.userland.value, module.flavour, module.path
    return case.machine.nvidia.userland.value, None, case.machine.nvidia.userland.source


def version_on_disk(case: Case) -> str | None:
    """Version of the NVIDIA module for the running kernel: by its file, else by the DKMS tree it was built from."""
    module = for_running_kernel(case, core_modules(case))
    if module is not None and module.version:
        return module.version
    if module is None and case.machine.nvidia.modules_installed.known:
        return None
    kernel = case.machine.system.kernel.value
    trees = [tree for tree in case.machine.nvidia.dkms.value or () if kernel and tree.kernel == kernel]
    built = [tree.version for tree in trees if is_nvidia_core(tree.name) and tree.status in ("built", "installed")]
    return built[0] if len(built) == 1 else None


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


def key_rejected(case: Case, vendor: Vendor) -> tuple[LogFault, ...]:
    """Lines that say that Secure Boot refused a module of this vendor, or do not say which module."""
    other = re.compile(r"'(amdgpu|amdkcl|amdttm)" if vendor == "nvidia" else r"'nvidia")
    return tuple(fault for fault in case.log_faults("secure-boot-module-rejected") if not other.search(fault.line))


def _is_amdgpu(name: str) -> bool:
    return name in ("amdgpu", "rock")


# --- what the driver itself says (level driver) ---


def cuda_status(case: Case) -> int | None:
    """What cuInit answered; None where nobody asked."""
    return case.machine.nvidia.cuda.value.status if case.machine.nvidia.cuda.value else None


def nvml_status(case: Case) -> int | None:
    """What NVML (else nvidia-smi) answered; None where nobody asked."""
    answers = (case.machine.nvidia.nvml.value, case.machine.nvidia.smi.value)
    return next((answer.status for answer in answers if answer), None)


def lists_no_card(case: Case) -> bool:
    """NVML (else nvidia-smi) started and found no card at all ("No devices were found")."""
    answers = [api.value for api in (case.machine.nvidia.nvml, case.machine.nvidia.smi) if api.value]
    return any(a.devices == () for a in answers) and all(a.status == 0 and not a.devices for a in answers)


def driver_answers(case: Case) -> tuple[Evidence, ...]:
    """Module, libraries, and what NVML and CUDA answered where they failed."""
    module = case.machine.nvidia.module
    return (
        Evidence("nvidia.module", module.value.version if module.value else module.state, module.source),
        Evidence.of("nvidia.userland", case.machine.nvidia.userland),
        *(
            Evidence(f"nvidia.{name}", f"error {api.value.status} {api.value.message}".strip(), api.source)
            for name, api in (
                ("nvml", case.machine.nvidia.nvml),
                ("cuda", case.machine.nvidia.cuda),
                ("smi", case.machine.nvidia.smi),
            )
            if api.value and api.value.status
        ),
    )


# --- which cards it refuses ---


def about(gpu: Gpu, faults: tuple[LogFault, ...]) -> tuple[LogFault, ...]:
    """The log lines that name this card's slot, or no slot at all."""
    slot = (gpu.bdf or "").rpartition(".")[0].lower()
    return tuple(
        fault for fault in faults if fault.bdf is None or not slot or fault.bdf.lower().partition(".")[0] == slot
    )


def log_evidence(case: Case, faults: tuple[LogFault, ...]) -> tuple[Evidence, ...]:
    """The last of these lines, and where they were read."""
    log = case.machine.kernel_log
    source = log.value.source if log.value and log.value.source else log.source
    return tuple(Evidence("kernel_log", fault.line, source) for fault in faults[-2:])


def nvidia_refusal(case: Case, gpu: Gpu) -> str | None:
    """Slug of the rule by which the driver that is there refuses this card: its branch, or its module flavour.

    Where the branch or the flavour is not known, the driver's own lines in the kernel log count.
    """
    version, flavour, _ = nvidia_driver(case)
    sm = gpu.arch.value
    if sm is None:
        return None
    last, branch = case.matrix.last_branch(sm), _branch(version or "")
    if last is not None and (branch > int(last.partition(".")[0]) or (not branch and _says(case, gpu, DROPPED))):
        return DROPPED
    rule = case.matrix.module_flavour(sm, gpu.name)
    if rule == "required" and (flavour == "proprietary" or (flavour is None and _says(case, gpu, NEEDS_OPEN))):
        return NEEDS_OPEN
    if rule == "refused" and (flavour == "open" or (flavour is None and _says(case, gpu, REFUSES_OPEN))):
        return REFUSES_OPEN
    # Open modules before 560 serve GeForce cards only when told to, and say so.
    early = rule == "supported" and flavour == "open" and 0 < branch < 560
    return REFUSES_OPEN if early and _says(case, gpu, REFUSES_OPEN) else None


def _says(case: Case, gpu: Gpu, slug: str) -> bool:
    return bool(about(gpu, case.log_faults(slug)))


def _branch(version: str) -> int:
    found = re.match(r"\d{1,9}", version)
    return int(found[0]) if found else 0


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
    found = re.match(r"(\d{1,9})\.(\d{1,9})", kernel)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def driver_older_than(case: Case, gpu: Gpu) -> bool:
    """Whether the kernel driver's branch is older than the first one that knows the card."""
    module = case.machine.nvidia.module.value
    answered = gpu.nvml is not None and gpu.nvml.capability is not None
    if module is None or answered or not gpu.arch.value or counts_otherwise(case):
        return False
    first = case.matrix.first_driver(gpu.arch.value, gpu.chip)
    return first is not None and figures(module.version)[:1] < figures(first)[:1]


def counts_otherwise(case: Case) -> bool:
    """WSL2 shows the driver number of Windows, Jetson that of L4T."""
    return case.machine.system.wsl.known or case.machine.system.jetson.known


# --- the driver that serves ---


def driver_for(case: Case, cards: tuple[Gpu, ...] = (), *, why: str = "") -> InstallDriver | None:
    """The NVIDIA driver to install on behalf of these cards; None where no one driver serves them and what else the
    machine's driver has to serve."""
    return driver_to_install(case.machine, case.matrix, cards, why=why)


def is_vgpu(gpu: Gpu) -> bool:
    """Whether a card is a slice that a hypervisor lends: its model ends in the profile, as in "NVIDIA A10-24Q"."""
    profile = gpu.name.rpartition("-")[2]
    return profile.endswith(("Q", "C", "A", "B", "CME")) and profile.rstrip("QCABME").isdecimal()


def install_driver(case: Case, cards: tuple[Gpu, ...] = ()) -> WayOut:
    """The way out "install the NVIDIA driver that the machine takes", on the host where this is a container; where no
    one driver serves these cards and the others, the choice that a person has."""
    remedy = driver_for(case, cards, why=_left_without(case, cards))
    if remedy is None:
        names = ", ".join(dict.fromkeys(gpu.name for gpu in cards or case.machine.of_vendor("nvidia")))
        text = f"Install a driver that names {names} in its list of supported cards."
        unknown = WayOut("Install the card's driver", (Manual(text=text, risk="root"),))
        return builds.choose_cards(case.machine, case.matrix, cards) or unknown
    what = builds.called_driver(remedy)
    if any(map(is_vgpu, case.machine.of_vendor("nvidia"))):
        text = (
            f"Ask who runs the hypervisor for the vGPU guest driver of branch {remedy.branch} (from NVIDIA's vGPU "
            "software; the drivers of NVIDIA's site, CUDA repository and distributions refuse a vGPU). It may be no "
            "newer than the vGPU manager of the host allows."
        )
        return WayOut(f"Install the vGPU guest driver {remedy.branch}", (Manual(text=text, risk="reboot"),))
    if case.in_container:
        return WayOut(
            f"Install {what} on the host",
            (Manual(text=f"On the host, outside this container: install {what} and reboot.", risk="reboot"),),
        )
    return WayOut(f"Install {what}", (remedy, Reboot(why="the new kernel module is loaded at boot")))


def _left_without(case: Case, cards: tuple[Gpu, ...]) -> str:
    """Which card without any torch build the driver for these cards does not serve."""
    chosen = to_drive(case.machine, case.matrix, cards)
    rest = [gpu for gpu in case.machine.of_vendor("nvidia") if gpu not in chosen and gpu.driver.value not in RESERVED]
    left = [gpu for gpu in rest if gpu.arch.value and driver_for(case, (*cards, gpu)) is None]
    if not left:
        return ""
    return f"it does not serve {', '.join(gpu.name for gpu in left)}, for which there is no torch build"
