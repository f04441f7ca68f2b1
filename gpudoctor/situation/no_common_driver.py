"""Machines whose NVIDIA GPUs no one driver serves: which driver takes which GPUs, and what a person can do.

The open kernel modules refuse all GPUs before Turing and are the only ones for Blackwell; and a GPU's last branch
may be older than another's first driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.finding import Fix, InstallDriver, Manual
from gpudoctor.machine import Gpu, Machine
from gpudoctor.matrix.versions import figures
from gpudoctor.situation.nvidia_driver import cuda_driver, driver_serving, no_driver, refusal, to_drive

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

Served = tuple[InstallDriver, tuple[Gpu, ...]]


def apart(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...] = ()) -> tuple[Served, ...]:
    """The drivers to choose from, that of the newest GPU first, each with the GPUs that it serves; () where one
    serves all that the machine's driver has to serve, or where no driver is known for some GPU."""
    driven = to_drive(machine, matrix, gpus)
    if driver_serving(machine, matrix, driven) is not None:
        return ()
    newest_first = sorted(driven, key=lambda gpu: figures((gpu.arch.value or "").removeprefix("sm_")), reverse=True)
    groups: list[tuple[Gpu, ...]] = []
    for start in newest_first:
        group: tuple[Gpu, ...] = (start,)
        for gpu in newest_first:
            if gpu is not start and driver_serving(machine, matrix, (*group, gpu)) is not None:
                group = (*group, gpu)
        if not any(set(map(id, group)) <= set(map(id, other)) for other in groups):
            groups.append(group)
    drivers = [(driver_serving(machine, matrix, group), group) for group in groups]
    found = tuple((driver, group) for driver, group in drivers if driver is not None)
    return found if len(found) > 1 else ()


def gpus_to_choose(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...]) -> Fix | None:
    """The choice that comes before any torch for these GPUs: the driver that is there refuses one of them, or there
    is none, and none to come serves all. None where there is nothing to choose."""
    if no_driver(machine) or any(refusal(machine, matrix, gpu) for gpu in gpus):
        return choose_gpus(machine, matrix, gpus)
    return None


def choose_gpus(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...] = ()) -> Fix | None:
    """What a person can do where no one driver serves all GPUs; None where one does. Nothing here is done for them:
    every driver puts some GPU out of service."""
    options = apart(machine, matrix, gpus)
    if not options:
        return None
    driven = to_drive(machine, matrix, gpus)
    kinds = tuple({gpu.name: gpu for gpu in driven}.values())
    needs = "; ".join(f"{gpu.name} takes {taken(matrix, gpu)}" for gpu in kinds)
    choice = _choice(machine, matrix, driven, options)
    text = f"No one NVIDIA driver serves all GPUs of this machine: {needs}. {choice}"
    return Fix("Choose the GPUs to use: no one driver serves all", (Manual(text=text, risk="root"),))


def _choice(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...], options: tuple[Served, ...]) -> str:
    """Keep the driver that is there for what it serves, else choose one."""
    driver, module = cuda_driver(machine), machine.nvidia.module.value
    served = tuple(gpu for gpu in gpus if not refusal(machine, matrix, gpu))
    elsewhere = "into another machine, or to a virtual machine (bound to vfio-pci) with a driver of its own"
    if driver is None or not served or len(served) == len(gpus):
        fixes = "; or ".join(f"{called_driver(driver)} for {_names(group)}" for driver, group in options)
        return f"Choose: {fixes}. What is left out goes {elsewhere}."
    flavour = f" ({module.flavour} kernel modules)" if module and module.flavour else ""
    rest = tuple(gpu for gpu in gpus if gpu not in served)
    others = [
        f"{called_driver(driver)} serves {_names(group)}"
        for driver, group in options
        if any(gpu in rest for gpu in group)
    ]
    return (
        f"Driver {driver}{flavour} serves {_names(served)}: keep it for that. {_names(rest)} goes {elsewhere}. "
        f"Or the other way round: {'; '.join(others)}."
    )


def called_driver(driver: InstallDriver) -> str:
    """ "NVIDIA driver 580 (open kernel modules)"."""
    return f"NVIDIA driver {driver.branch} ({driver.flavour} kernel modules)"


def taken(matrix: Matrix, gpu: Gpu) -> str:
    """The drivers that a GPU takes: "the open kernel modules alone, from driver 570.86.16 on"."""
    sm = gpu.arch.value or ""
    rules = {"required": "the open kernel modules alone", "refused": "the proprietary kernel modules alone"}
    rule = matrix.module_flavour(sm, gpu.name) or ""
    first, last = matrix.first_driver(sm, gpu.chip), matrix.last_branch(sm)
    span = (f"from driver {first} on" if first else "", f"up to branch {last}" if last else "")
    return ", ".join(part for part in (rules.get(rule, "kernel modules of both flavours"), *span) if part)


def _names(gpus: tuple[Gpu, ...]) -> str:
    return " and ".join(dict.fromkeys(gpu.name for gpu in gpus))
