"""What keeps a loaded NVIDIA driver from starting CUDA (GPD127 to GPD129)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, LoadModule, Manual, Reboot, StartService, by_hand
from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.kernel_log import log_evidence
from gpudoctor.situation.nvidia_driver import (
    CUDA_NOT_INITIALISED,
    CUDA_NOT_READY,
    CUDA_UNKNOWN,
    cuda_status,
    driver_answers,
    kernel_driver,
    nvml_status,
)

_SUBNET_MANAGER = (
    "HGX B200 and B300 boards also need the NVLink subnet manager: install nvlsm and load ib_umad (`sudo modprobe "
    "ib_umad`). Without it the fabric manager does not start."
)


@check("GPD127", "fabric-manager-not-running", "driver")
def fabric_manager_not_running(situation: Situation) -> Verdicts:
    """The NVSwitch fabric manager is missing, stopped, or of another version.

    ## Why it matters
    On machines with NVSwitch, CUDA fails with error 802 ("system not yet initialized") until the fabric manager has
    set up the switches. The fabric manager works only with a driver of exactly its own version.

    ## How it is judged
    On bare metal, the check looks for the switches on the PCI bus and for the fabric manager service. The switches of
    HGX B200 and B300 boards do not appear there as NVIDIA's; the check recognises these boards by their GPUs. Their
    fabric manager ends at once, again and again, while the kernel module ib_umad is not loaded. In a container, or in
    a virtual machine without switches, only the driver's answer tells: error 802, or GPUs that wait for their fabric.
    The host then needs the fix.

    ## Fix safety
    Starting the service does not disturb running programs that work without it.
    """
    fabric, module = situation.machine.nvidia.fabric, situation.machine.nvidia.module.value
    waits = cuda_status(situation) == CUDA_NOT_READY or _unregistered(situation)
    if cuda_status(situation) == 0 or not situation.machine.of_vendor("nvidia"):
        return
    if situation.in_container or not (fabric.switches.value or _needs_subnet_manager(situation)):
        if waits and not _hmm(situation) and any(gpu.datacenter for gpu in situation.machine.of_vendor("nvidia")):
            yield _unready(situation)
        return
    driver, manager = module.version if module else None, fabric.manager_version.value
    differs = manager is not None and driver is not None and manager != driver
    running, absent = fabric.manager_running.value, fabric.manager_version.absent
    no_umad = _needs_subnet_manager(situation) and fabric.umad.value is False and not absent
    if not (waits or differs or running is False or (absent and not running)):
        return
    state = "is not installed" if absent else f"is version {manager}" if differs else "is not running"
    state = "cannot start: the kernel module ib_umad is not loaded" if no_umad and not differs else state
    package = f"nvidia-fabricmanager={driver}" if driver and (absent or differs) else ""
    start = StartService("nvidia-fabricmanager", package=package, why="sets up the NVSwitch fabric for the driver")
    subnet = (Manual(_SUBNET_MANAGER, risk="root"),) if _needs_subnet_manager(situation) else ()
    load = (LoadModule("ib_umad", why="the fabric manager reaches the switches through it"),) if no_umad else ()
    yield Finding(
        severity="error",
        message=f"This machine has NVSwitches, and its fabric manager {state}"
        + (f" while the driver is {driver}" if differs else "")
        + ": CUDA does not start (error 802).",
        saw="ib_umad not loaded"
        if no_umad and not differs
        else f"fabric manager {manager or ('absent' if absent else 'stopped')}",
        want=f"fabric manager {driver} running" if driver else "fabric manager running",
        subject="NVSwitch fabric",
        confidence="certain" if waits or differs or running is False else "likely",
        evidence=(
            Evidence.of("nvidia.fabric.switches", fabric.switches),
            Evidence.of("nvidia.fabric.manager_version", fabric.manager_version),
            Evidence.of("nvidia.fabric.manager_running", fabric.manager_running),
            *((Evidence.of("nvidia.fabric.umad", fabric.umad),) if no_umad else ()),
            *driver_answers(situation),
        ),
        fixes=(
            Fix(
                f"Install nvidia-fabricmanager {driver} and start it" if package else "Start nvidia-fabricmanager",
                (*load, *subnet, start),
            ),
        ),
        refs=("NVIDIA/gpu-operator#2781", "spectrocloud/CanvOS#700") if no_umad else (),
        supersedes=("cuda-init-hmm-kaslr", "no-driver"),
    )


def _needs_subnet_manager(situation: Situation) -> bool:
    """Whether this is an HGX board with eight B200 or B300 whose switches are set up here: on bare metal, or in a
    virtual machine with a fabric manager of its own. On Grace (GB200) the fabric manager runs elsewhere."""
    system = situation.machine.system
    ours = system.virtual_machine.absent or situation.machine.nvidia.fabric.manager_version.known
    if not ours or system.arch.value != "x86_64":
        return False
    return sum(gpu.datacenter for gpu in _with_subnet_manager(situation)) >= 8


def _with_subnet_manager(situation: Situation) -> list[Gpu]:
    capability = situation.matrix.gpus.capability
    rows = ((gpu, capability(gpu.arch.value or "")) for gpu in situation.machine.of_vendor("nvidia"))
    return [gpu for gpu, row in rows if row and row.subnet_manager]


def _unready(situation: Situation) -> Finding:
    text = (
        "On the host: install nvidia-fabricmanager in exactly the driver's version, start it, and check "
        "`systemctl status nvidia-fabricmanager`. On a rented machine: ask the provider, or use another host."
    )
    if _with_subnet_manager(situation):
        text += f" {_SUBNET_MANAGER}"
    failed = cuda_status(situation) == CUDA_NOT_READY
    state = "CUDA says that the system is not yet initialized (802)" if failed else "The GPUs wait for their fabric"
    return Finding(
        severity="error",
        message=f"{state}: the host's NVSwitch fabric manager is stopped, or of another version than the driver.",
        saw="cuInit 802" if failed else "NVLink fabric not set up",
        want="cuInit 0" if failed else "NVLink fabric completed",
        subject="NVSwitch fabric",
        confidence="likely",
        evidence=driver_answers(situation),
        fixes=(by_hand("Start the fabric manager on the host", text, "root"),),
        supersedes=("cuda-init-hmm-kaslr", "no-driver"),
    )


def _unregistered(situation: Situation) -> bool:
    """Whether NVML reports GPUs whose NVLink fabric is not set up."""
    states = [gpu.nvml.fabric for gpu in situation.machine.of_vendor("nvidia") if gpu.nvml]
    return any(state in ("not-started", "in-progress") for state in states)


def _hmm(situation: Situation) -> bool:
    return bool(situation.log_faults("cuda-init-hmm-kaslr"))


@check("GPD128", "cuda-init-hmm-kaslr", "driver")
def cuda_init_hmm_kaslr(situation: Situation) -> Verdicts:
    """CUDA does not start: a bug of HMM with kernel address randomisation.

    ## Why it matters
    nvidia_uvm asks the kernel for an address range for device memory. With some memory layouts the kernel has none
    left, and CUDA fails at its start on an otherwise healthy machine.

    ## How it is judged
    At level driver: CUDA fails (802, 999 and similar), and the kernel log has nvidia-uvm's line about it; or the
    error is 802 on a machine without NVSwitch; or it is 3 (not initialised) with open kernel modules whose device
    nodes all open, while NVML works.

    ## Fix safety
    The option switches off heterogeneous memory management (HMM) in nvidia_uvm; programs do not need it. Needs root.
    """
    status = cuda_status(situation)
    lines = situation.log_faults("cuda-init-hmm-kaslr")
    switches = situation.machine.nvidia.fabric.switches.value
    datacenter = any(gpu.datacenter for gpu in situation.machine.of_vendor("nvidia"))
    look_alike = (status == CUDA_NOT_READY and not switches and not datacenter) or _uninitialised(situation)
    if status in (None, 0) or not (lines or look_alike) or situation.in_wsl:
        return
    option = LoadModule(
        "nvidia_uvm", reload=True, options=("uvm_disable_hmm=1",), why="without HMM, nvidia_uvm needs no such range"
    )
    weaker = "Add `nokaslr` to the kernel command line and reboot (this weakens the kernel's protection)."
    yield Finding(
        severity="error",
        message=f"CUDA does not start (error {status}): the kernel had no address range left for nvidia-uvm (HMM and "
        "address randomisation).",
        saw=lines[-1].line if lines else f"cuInit {status}",
        want="cuInit 0",
        subject="NVIDIA driver",
        confidence="certain" if lines else "possible",
        evidence=(*driver_answers(situation), *log_evidence(situation, lines[-1:])),
        fixes=(
            Fix("Load nvidia_uvm without HMM", (option,)),
            by_hand("Switch address randomisation off", weaker, "reboot"),
        ),
        refs=(
            "CUDA 13.2 Update 2 release notes, known issues",
            "NVIDIA/open-gpu-kernel-modules#797",
            "NVIDIA/open-gpu-kernel-modules#901",
        ),
        supersedes=("nvidia-uvm-after-suspend", "no-driver"),
    )


def _uninitialised(situation: Situation) -> bool:
    """Whether CUDA alone says that it is not initialised: NVML works, and nothing else keeps CUDA from its devices.
    Reports of this name the open modules only."""
    _, flavour, _ = kernel_driver(situation)
    nodes = situation.machine.nvidia.nodes.value or ()
    uvm = [node.opened for node in nodes if node.path == "/dev/nvidia-uvm"]
    opens = uvm in (["ok"], ["untried"])
    return (
        cuda_status(situation) == CUDA_NOT_INITIALISED
        and nvml_status(situation) == 0
        and flavour != "proprietary"
        and opens
    )


@check("GPD129", "nvidia-uvm-after-suspend", "driver")
def nvidia_uvm_after_suspend(situation: Situation) -> Verdicts:
    """CUDA stopped working when the machine was suspended.

    ## Why it matters
    After a resume, nvidia_uvm can be left in a state in which CUDA fails with error 999 although nvidia-smi works.

    ## How it is judged
    At level driver: cuInit answers 999, NVML works, and the machine was suspended at least once since it booted.

    ## Fix safety
    Reloading the module needs root, and no program may be using the GPU. Nothing on disk changes.
    """
    suspends = situation.machine.system.suspends
    if (
        cuda_status(situation) != CUDA_UNKNOWN
        or not suspends.value
        or nvml_status(situation) not in (0, None)
        or _hmm(situation)
        or situation.in_wsl
    ):
        return
    reload = LoadModule("nvidia_uvm", reload=True, why="a freshly loaded nvidia_uvm does not have the problem")
    on_host = Manual("On the host: `modprobe -r nvidia_uvm`, then `modprobe nvidia_uvm`, as root.", risk="root")
    keep = Manual(
        "To prevent this: set NVreg_PreserveVideoMemoryAllocations=1 for the module nvidia, and enable "
        "nvidia-suspend.service, nvidia-resume.service and nvidia-hibernate.service.",
        risk="root",
    )
    yield Finding(
        severity="error",
        message="CUDA fails with error 999 since this machine was suspended: the module nvidia_uvm must be reloaded.",
        saw=f"cuInit 999 after {suspends.value} suspend(s)",
        want="cuInit 0",
        subject="NVIDIA driver",
        confidence="likely",
        evidence=(*driver_answers(situation), Evidence.of("system.suspends", suspends)),
        fixes=(
            Fix("Reload nvidia_uvm", (on_host if situation.in_container else reload,)),
            Fix("Reboot", (Reboot(), keep)),
        ),
        refs=("pytorch/pytorch#49081",),
        supersedes=("no-driver",),
    )
