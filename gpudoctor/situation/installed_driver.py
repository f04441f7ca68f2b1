"""What drivers are installed, what they say of themselves, which GPUs they refuse, and which one would serve.

Holds no checks itself.
"""

from __future__ import annotations

import re

from gpudoctor.finding import Evidence, Fix, InstallDriver, Manual, ModuleFlavour, Reboot
from gpudoctor.machine import BlockedModule, DkmsModule, Gpu, InstalledModule, LogFault, Vendor
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.no_common_driver import called_driver, choose_gpus
from gpudoctor.situation.nvidia_driver import driver_to_install, to_drive
from gpudoctor.situation.standing import RESERVED

NVML_NO_PERMISSION, NVML_MISMATCH, NVML_UNKNOWN = 4, 18, 999
CUDA_NOT_READY, CUDA_MISMATCH, CUDA_UNKNOWN = 802, 803, 999

DROPPED, NEEDS_OPEN, REFUSES_OPEN = (
    "nvidia-driver-dropped-gpu",
    "blackwell-open-module",
    "open-module-unsupported-gpu",
)


def core_modules(situation: Situation) -> tuple[InstalledModule, ...]:
    """NVIDIA's main module for each kernel that has it, under the names distributions give it."""
    return tuple(
        module for module in situation.machine.nvidia.modules_installed.value or () if is_nvidia_core(module.name)
    )


def is_nvidia_core(name: str) -> bool:
    """ "nvidia" itself (also nvidia-current, nvidia-tesla-470 ...), not nvidia_uvm and its other companions."""
    return bool(re.fullmatch(r"nvidia(_(current|tesla|legacy|open|\d+)\w*)?", name.replace("-", "_")))


def for_running_kernel(situation: Situation, modules: tuple[InstalledModule, ...]) -> InstalledModule | None:
    """The one of these modules that was built for the kernel that runs."""
    kernel = situation.machine.system.kernel.value
    return next((module for module in modules if module.kernel == kernel), None)


def nvidia_driver(situation: Situation) -> tuple[str | None, ModuleFlavour | None, str]:
    """Version, flavour, source of the NVIDIA driver: loaded, else installed for this kernel, else its libraries."""
    loaded = situation.machine.nvidia.module
    if loaded.value:
        return loaded.value.version, loaded.value.flavour, loaded.source
    if not situation.in_container and (module := for_running_kernel(situation, core_modules(situation))):
        return version_on_disk(situation) or situation.machine.nvidia.userland.value, module.flavour, module.path
    return situation.machine.nvidia.userland.value, None, situation.machine.nvidia.userland.source


def version_on_disk(situation: Situation) -> str | None:
    """Version of the NVIDIA module for the running kernel: by its file, else by the DKMS tree it was built from."""
    module = for_running_kernel(situation, core_modules(situation))
    if module is not None and module.version:
        return module.version
    if module is None and situation.machine.nvidia.modules_installed.known:
        return None
    kernel = situation.machine.system.kernel.value
    trees = [tree for tree in situation.machine.nvidia.dkms.value or () if kernel and tree.kernel == kernel]
    built = [tree.version for tree in trees if is_nvidia_core(tree.name) and tree.status in ("built", "installed")]
    return built[0] if len(built) == 1 else None


def blocked(situation: Situation, vendor: Vendor) -> tuple[BlockedModule, ...]:
    """Rules that keep the vendor's main module from loading."""
    if situation.in_container:
        return ()
    if vendor == "nvidia":
        rules = situation.machine.nvidia.blocked.value or ()
        return tuple(rule for rule in rules if is_nvidia_core(rule.module))
    return tuple(rule for rule in situation.machine.amd.blocked.value or () if rule.module == "amdgpu")


def unbuilt_dkms(situation: Situation, vendor: Vendor) -> tuple[DkmsModule, ...]:
    """DKMS trees of the vendor's driver, if none of them is installed for the running kernel."""
    kernel = situation.machine.system.kernel.value
    trees = (situation.machine.nvidia if vendor == "nvidia" else situation.machine.amd).dkms.value or ()
    ours = is_nvidia_core if vendor == "nvidia" else _is_amdgpu
    mine = tuple(tree for tree in trees if ours(tree.name))
    if kernel is None or situation.in_container:
        return ()
    return () if any(tree.kernel == kernel and tree.status == "installed" for tree in mine) else mine


def key_rejected(situation: Situation, vendor: Vendor) -> tuple[LogFault, ...]:
    """Lines that say that Secure Boot refused a module of this vendor, or do not say which module."""
    other = re.compile(r"'(amdgpu|amdkcl|amdttm)" if vendor == "nvidia" else r"'nvidia")
    return tuple(
        fault for fault in situation.log_faults("secure-boot-module-rejected") if not other.search(fault.line)
    )


def _is_amdgpu(name: str) -> bool:
    return name in ("amdgpu", "rock")


# --- what the driver itself says (level driver) ---


def cuda_status(situation: Situation) -> int | None:
    """What cuInit answered; None where nobody asked."""
    return situation.machine.nvidia.cuda.value.status if situation.machine.nvidia.cuda.value else None


def nvml_status(situation: Situation) -> int | None:
    """What NVML (else nvidia-smi) answered; None where nobody asked."""
    answers = (situation.machine.nvidia.nvml.value, situation.machine.nvidia.smi.value)
    return next((answer.status for answer in answers if answer), None)


def lists_no_gpu(situation: Situation) -> bool:
    """NVML (else nvidia-smi) started and found no GPU at all ("No devices were found")."""
    answers = [api.value for api in (situation.machine.nvidia.nvml, situation.machine.nvidia.smi) if api.value]
    return any(a.devices == () for a in answers) and all(a.status == 0 and not a.devices for a in answers)


def driver_answers(situation: Situation) -> tuple[Evidence, ...]:
    """Module, libraries, and what NVML and CUDA answered where they failed."""
    module = situation.machine.nvidia.module
    return (
        Evidence("nvidia.module", module.value.version if module.value else module.state, module.source),
        Evidence.of("nvidia.userland", situation.machine.nvidia.userland),
        *(
            Evidence(f"nvidia.{name}", f"error {api.value.status} {api.value.message}".strip(), api.source)
            for name, api in (
                ("nvml", situation.machine.nvidia.nvml),
                ("cuda", situation.machine.nvidia.cuda),
                ("smi", situation.machine.nvidia.smi),
            )
            if api.value and api.value.status
        ),
    )


# --- which GPUs it refuses ---


def about(gpu: Gpu, faults: tuple[LogFault, ...]) -> tuple[LogFault, ...]:
    """The log lines that name this GPU's slot, or no slot at all."""
    slot = (gpu.bdf or "").rpartition(".")[0].lower()
    return tuple(
        fault for fault in faults if fault.bdf is None or not slot or fault.bdf.lower().partition(".")[0] == slot
    )


def log_evidence(situation: Situation, faults: tuple[LogFault, ...]) -> tuple[Evidence, ...]:
    """The last of these lines, and where they were read."""
    log = situation.machine.kernel_log
    source = log.value.source if log.value and log.value.source else log.source
    return tuple(Evidence("kernel_log", fault.line, source) for fault in faults[-2:])


def nvidia_refusal(situation: Situation, gpu: Gpu) -> str | None:
    """Slug of the rule by which the driver that is there refuses this GPU: its branch, or its module flavour.

    Where the branch or the flavour is not known, the driver's own lines in the kernel log count.
    """
    version, flavour, _ = nvidia_driver(situation)
    sm = gpu.arch.value
    if sm is None:
        return None
    last, branch = situation.matrix.last_branch(sm), _branch(version or "")
    if last is not None and (branch > int(last.partition(".")[0]) or (not branch and _says(situation, gpu, DROPPED))):
        return DROPPED
    rule = situation.matrix.module_flavour(sm, gpu.name)
    if rule == "required" and (flavour == "proprietary" or (flavour is None and _says(situation, gpu, NEEDS_OPEN))):
        return NEEDS_OPEN
    if rule == "refused" and (flavour == "open" or (flavour is None and _says(situation, gpu, REFUSES_OPEN))):
        return REFUSES_OPEN
    # Open modules before 560 serve GeForce GPUs only when told to, and say so.
    early = rule == "supported" and flavour == "open" and 0 < branch < 560
    return REFUSES_OPEN if early and _says(situation, gpu, REFUSES_OPEN) else None


def _says(situation: Situation, gpu: Gpu, slug: str) -> bool:
    return bool(about(gpu, situation.log_faults(slug)))


def _branch(version: str) -> int:
    found = re.match(r"\d{1,9}", version)
    return int(found[0]) if found else 0


def kernel_too_old(situation: Situation, gpu: Gpu) -> str | None:
    """First kernel that knows the GPU, if the running one is older and no AMD driver package stands in."""
    target = situation.matrix.target(gpu.arch.value) if gpu.arch.value else None
    first, running = target.first_kernel if target else None, situation.machine.system.kernel.value
    if first is None or running is None:
        return None
    trees = situation.machine.amd.dkms.value or ()
    stands_in = any(tree.status == "installed" and tree.kernel == running for tree in trees)
    return first if not stands_in and _numbers(running) < _numbers(first) else None


def _numbers(kernel: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,9})\.(\d{1,9})", kernel)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def driver_older_than(situation: Situation, gpu: Gpu) -> bool:
    """Whether the kernel driver's branch is older than the first one that knows the GPU."""
    module = situation.machine.nvidia.module.value
    answered = gpu.nvml is not None and gpu.nvml.capability is not None
    if module is None or answered or not gpu.arch.value or counts_otherwise(situation):
        return False
    first = situation.matrix.first_driver(gpu.arch.value, gpu.chip)
    return first is not None and figures(module.version)[:1] < figures(first)[:1]


def counts_otherwise(situation: Situation) -> bool:
    """WSL2 shows the driver number of Windows, Jetson that of L4T."""
    return situation.machine.system.wsl.known or situation.machine.system.jetson.known


# --- the driver that serves ---


def driver_for(situation: Situation, gpus: tuple[Gpu, ...] = (), *, why: str = "") -> InstallDriver | None:
    """The NVIDIA driver to install on behalf of these GPUs; None where no one driver serves them and what else the
    machine's driver has to serve."""
    return driver_to_install(situation.machine, situation.matrix, gpus, why=why)


def is_vgpu(gpu: Gpu) -> bool:
    """Whether a GPU is a slice that a hypervisor lends: its model ends in the profile, as in "NVIDIA A10-24Q"."""
    profile = gpu.name.rpartition("-")[2]
    return profile.endswith(("Q", "C", "A", "B", "CME")) and profile.rstrip("QCABME").isdecimal()


def install_driver(situation: Situation, gpus: tuple[Gpu, ...] = ()) -> Fix:
    """The way out "install the NVIDIA driver that the machine takes", on the host where this is a container; where no
    one driver serves these GPUs and the others, the choice that a person has."""
    remedy = driver_for(situation, gpus, why=_left_without(situation, gpus))
    if remedy is None:
        names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus or situation.machine.of_vendor("nvidia")))
        text = f"Install a driver that names {names} in its list of supported GPUs."
        unknown = Fix("Install the GPU's driver", (Manual(text=text, risk="root"),))
        return choose_gpus(situation.machine, situation.matrix, gpus) or unknown
    what = called_driver(remedy)
    if any(map(is_vgpu, situation.machine.of_vendor("nvidia"))):
        text = (
            f"Ask who runs the hypervisor for the vGPU guest driver of branch {remedy.branch} (from NVIDIA's vGPU "
            "software; the drivers of NVIDIA's site, CUDA repository and distributions refuse a vGPU). It may be no "
            "newer than the vGPU manager of the host allows."
        )
        return Fix(f"Install the vGPU guest driver {remedy.branch}", (Manual(text=text, risk="reboot"),))
    if situation.in_container:
        return Fix(
            f"Install {what} on the host",
            (Manual(text=f"On the host, outside this container: install {what} and reboot.", risk="reboot"),),
        )
    return Fix(f"Install {what}", (remedy, Reboot(why="the new kernel module is loaded at boot")))


def _left_without(situation: Situation, gpus: tuple[Gpu, ...]) -> str:
    """Which GPU without any torch build the driver for these GPUs does not serve."""
    chosen = to_drive(situation.machine, situation.matrix, gpus)
    rest = [
        gpu for gpu in situation.machine.of_vendor("nvidia") if gpu not in chosen and gpu.driver.value not in RESERVED
    ]
    left = [gpu for gpu in rest if gpu.arch.value and driver_for(situation, (*gpus, gpu)) is None]
    if not left:
        return ""
    return f"it does not serve {', '.join(gpu.name for gpu in left)}, for which there is no torch build"
