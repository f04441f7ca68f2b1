"""The NVIDIA driver of a machine: what it says to a CUDA release and to the GPUs, and which one there should be.

One kernel module serves all NVIDIA GPUs of a machine, in one branch and one flavour. So there is one rule for the
driver to install, and it is asked of the whole machine, whatever GPU is the occasion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpudoctor.finding import InstallDriver, ModuleFlavour
from gpudoctor.isa import cuda_runs
from gpudoctor.machine import Gpu, Machine
from gpudoctor.matrix.versions import figures
from gpudoctor.situation.standing import RESERVED

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import DriverVerdict, Matrix

Refusal = Literal["too-old", "dropped", "needs-open", "refuses-open"]
"""Why a driver does not run a GPU at all: older than it, of a later branch than its last, of the other flavour."""


# --- the driver that is there ------------------------------------------------------------------------


def cuda_driver(machine: Machine) -> str | None:
    """Version of the driver whose libcuda a program loads; cuda-compat counts where the GPUs are eligible for it.

    None where it is not known, or where its number is not one of Linux (WSL2, Jetson).
    """
    if _counts_otherwise(machine):
        return None
    library = machine.load_path.first("libcuda.so.1")
    gpus = machine.of_vendor("nvidia")
    if library and library.kind == "compat" and library.version and gpus and all(gpu.datacenter for gpu in gpus):
        return library.version
    for api in machine.nvidia.answered:
        if api.value and api.value.driver_version:
            return api.value.driver_version
    if machine.nvidia.module.value:
        return machine.nvidia.module.value.version
    return machine.nvidia.userland.value


def no_driver(machine: Machine) -> bool:
    """Whether no NVIDIA driver is there, as far as its number would be known."""
    return machine.nvidia.module.absent and not _counts_otherwise(machine) and cuda_driver(machine) is None


def driver_verdict(machine: Machine, matrix: Matrix, cuda: str, driver: str | None = None) -> DriverVerdict:
    """Whether the driver of this machine (or `driver`, where another one is meant) runs a CUDA such as "12.8"."""
    version = driver or cuda_driver(machine)
    by_number: DriverVerdict = matrix.driver_for_cuda(version, cuda) if version else "unknown"
    if by_number != "unknown" or driver:
        return by_number
    stack = machine.nvidia
    answers = (api.value for api in (stack.cuda, stack.nvml, stack.smi))
    said = [answer.cuda_version for answer in answers if answer and answer.cuda_version]
    if not said:
        return "unknown"
    served, wanted = figures(said[0]), figures(cuda)
    if served >= wanted:
        return "serves"
    return "minor-version" if served[:1] == wanted[:1] else "too-old"


def refusal(machine: Machine, matrix: Matrix, gpu: Gpu) -> Refusal | None:
    """Why the driver that is there does not run a GPU at all; None where it does, or is not known to refuse it."""
    driver, sm = cuda_driver(machine), gpu.arch.value
    if gpu.vendor != "nvidia" or driver is None or sm is None or gpu.nvml is not None:
        return None
    first, last = matrix.first_driver(sm, gpu.chip), matrix.last_branch(sm)
    if first is not None and figures(driver) < figures(first):
        return "too-old"
    if last is not None and figures(driver)[:1] > figures(last)[:1]:
        return "dropped"
    module, rule = machine.nvidia.module.value, matrix.module_flavour(sm, gpu.name)
    flavour = module.flavour if module else None
    if rule == "required" and flavour == "proprietary":
        return "needs-open"
    return "refuses-open" if rule == "refused" and flavour == "open" else None


def _counts_otherwise(machine: Machine) -> bool:
    """WSL2 shows the driver number of Windows, Jetson that of L4T."""
    return machine.system.wsl.known or machine.system.jetson.known


# --- the driver that there should be -----------------------------------------------------------------


def driver_to_install(
    machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...] = (), *, why: str = ""
) -> InstallDriver | None:
    """The driver for all GPUs that this machine's driver has to serve, and for `gpus`; one that runs the present
    torch, if there is any. None where no one driver serves them all, or a GPU is not known."""
    return driver_serving(machine, matrix, to_drive(machine, matrix, gpus), why=why)


def driver_serving(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...], *, why: str = "") -> InstallDriver | None:
    """The driver that serves just these GPUs, by branch and by module flavour."""
    flavour = flavour_serving(matrix, gpus)
    if flavour is None:
        return None
    sms = tuple(dict.fromkeys(gpu.arch.value for gpu in gpus if gpu.arch.value))
    firsts = [first for gpu in gpus if (first := matrix.first_driver(gpu.arch.value or "", gpu.chip))]
    first = max(firsts, key=figures, default=None)
    cuda = machine.torch.cuda if machine.torch else None
    floor = matrix.floor(cuda) if cuda else None
    wanted = max((version for version in (first, floor) if version), key=figures, default=None)
    present = cuda_driver(machine)
    chosen = matrix.branch_to_install(sms, wanted, present=present) or matrix.branch_to_install(
        sms, first, present=present
    )
    return InstallDriver(branch=chosen[0], minimum=chosen[1], flavour=flavour, why=why) if chosen else None


def flavour_serving(matrix: Matrix, gpus: tuple[Gpu, ...]) -> ModuleFlavour | None:
    """The kernel-module flavour that all these GPUs take; None where none does, or a GPU is not known."""
    rules = {matrix.module_flavour(gpu.arch.value or "", gpu.name) for gpu in gpus}
    if not rules or None in rules or {"required", "refused"} <= rules:
        return None
    return "proprietary" if "refused" in rules else "open"


def to_drive(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...] = ()) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that the one driver of this machine has to serve, `gpus` among them.

    GPUs that are kept for virtual machines take no driver here, and one without any torch build does not hold back
    the others. Visibility variables and containers choose GPUs for a process; the kernel module is everyone's.
    """
    asked = tuple(gpu for gpu in gpus if gpu.vendor == "nvidia" and gpu.arch.value)
    others = (gpu for gpu in machine.of_vendor("nvidia") if gpu not in asked and gpu.driver.value not in RESERVED)
    ours = (*asked, *(gpu for gpu in others if gpu.arch.value))
    computing = [gpu for gpu in ours if runs_some_build(matrix, gpu)]
    return tuple(gpu for gpu in ours if gpu in asked or gpu in computing) if computing else ours


def runs_some_build(matrix: Matrix, gpu: Gpu) -> bool:
    """Whether some torch build has code for this NVIDIA GPU, or it is too new to be known."""
    if not gpu.arch.value:
        return True
    builds = (build for build in matrix.builds() if build.cuda and build.archs)
    return any(cuda_runs(gpu.arch.value, build.archs or (), build.ptx or ()).runs == "yes" for build in builds)


def driver_after_repair(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...]) -> str | None:
    """The driver that builds are chosen for: the present one, unless there is none or the GPUs need another.

    A driver that does not run a GPU must be replaced whatever torch says. None: not known, or a driver whose number
    says nothing (WSL2, Jetson).
    """
    driver = cuda_driver(machine)
    if not no_driver(machine) and not any(refusal(machine, matrix, gpu) for gpu in gpus):
        return driver
    chosen = driver_to_install(machine, matrix)
    if chosen is None:
        return driver
    branch = matrix.branch(chosen.branch)
    return (branch.latest if branch else None) or chosen.minimum
