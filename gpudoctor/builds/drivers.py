"""The NVIDIA driver that a CUDA program of this machine meets, and what it says to a CUDA release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.machine import Gpu, Machine
from gpudoctor.matrix.versions import figures

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import DriverVerdict, Matrix


def cuda_driver(machine: Machine) -> str | None:
    """Version of the driver whose libcuda a program loads; cuda-compat counts where the cards are eligible for it.

    None where it is not known, or where its number is not one of Linux (WSL2, Jetson).
    """
    if machine.system.wsl.known or machine.system.jetson.known:
        return None
    library = machine.load_path.first("libcuda.so.1")
    cards = machine.of_vendor("nvidia")
    if library and library.kind == "compat" and library.version and cards and all(gpu.datacenter for gpu in cards):
        return library.version
    for api in machine.nvidia.answered:
        if api.value and api.value.driver_version:
            return api.value.driver_version
    if machine.nvidia.module.value:
        return machine.nvidia.module.value.version
    return machine.nvidia.userland.value


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


def driver_to_install(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...]) -> tuple[str, str] | None:
    """(branch, minimum version) of the driver that these cards get, one that runs the present torch if there is any;
    None where no one branch runs them all."""
    sms = tuple(dict.fromkeys(gpu.arch.value for gpu in gpus if gpu.vendor == "nvidia" and gpu.arch.value))
    if not sms:
        return None
    cuda = machine.torch.cuda if machine.torch else None
    floor = matrix.floor(cuda) if cuda else None
    return matrix.branch_to_install(sms, floor) or matrix.branch_to_install(sms, None)


def driver_after_repair(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...]) -> str | None:
    """The driver that builds are chosen for: the present one, unless the cards themselves need another.

    A driver that is older than a card, or of a branch that has dropped it, must be replaced whatever torch says.
    None: not known, or a driver whose number says nothing (WSL2, Jetson).
    """
    driver = cuda_driver(machine)
    if driver is None or not any(_must_go(matrix, driver, gpu) for gpu in gpus):
        return driver
    chosen = driver_to_install(machine, matrix, gpus)
    if chosen is None:
        return driver
    branch = matrix.branch(chosen[0])
    return (branch.latest if branch else None) or chosen[1]


def _must_go(matrix: Matrix, driver: str, gpu: Gpu) -> bool:
    """Whether a driver does not know a card yet, or not any more."""
    if gpu.vendor != "nvidia" or not gpu.arch.value:
        return False
    first, last = matrix.first_driver(gpu.arch.value, gpu.chip), matrix.last_branch(gpu.arch.value)
    too_old = first is not None and figures(driver) < figures(first)
    return too_old or (last is not None and figures(driver)[:1] > figures(last)[:1])
