"""The kernel drivers that lspci and lshw name for GPUs, and what follows where they name none."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.intake.text.facts import Facts, Statement
from gpudoctor.intake.text.ranking import decided, decided_with
from gpudoctor.intake.text.torch import source
from gpudoctor.machine import AmdStack, Gpu, Machine, absent, known, unknown
from gpudoctor.situation.no_kernel_driver import RIVALS

_NONE = "no kernel driver has it"
_ASSUMED_AMDGPU = "amdgpu driver"


def taken_by(facts: Facts) -> Statement | None:
    """The other driver that has an NVIDIA GPU, where lsmod lists one in use, and not NVIDIA's."""
    loaded, available = decided_with(facts, "loaded "), decided(facts, "available")
    rivals = (replace(said, value=name) for name, said in loaded.items() if name in RIVALS and said.value != "0")
    works = available is not None and available.value == "True"
    return None if works or "nvidia" in loaded else next(rivals, None)


def with_kernel_driver(gpu: Gpu, bound: Statement) -> Gpu:
    """The GPU with the kernel driver that has it ("": none); without amdgpu an AMD GPU has no node for computing."""
    where = source(bound)
    gpu = replace(gpu, driver=known(bound.value, where) if bound.value else absent(where, _NONE))
    return replace(gpu, kfd_node=None, nodes=()) if gpu.vendor == "amd" and bound.value != "amdgpu" else gpu


def with_amds_driver(machine: Machine, named: Statement) -> Machine:
    """The machine, whose amdgpu may be AMD's own: a text that names that does not always tell its release."""
    module = unknown("the text names AMD's own driver, and not its release", source(named))
    assumed = tuple(one for one in machine.assumed if one != _ASSUMED_AMDGPU)
    return replace(machine, amd=replace(machine.amd, module=module), assumed=assumed)


def without_unused_modules(machine: Machine, *, driver_named: bool) -> Machine:
    """The machine without a kernel module that nobody named and that has none of its GPUs."""
    nvidia, amd = machine.of_vendor("nvidia"), machine.of_vendor("amd")
    module = machine.nvidia.module
    if nvidia and all(gpu.driver.absent for gpu in nvidia) and module.known and not driver_named:
        where = module.source
        nothing = replace(machine.nvidia, module=absent(where, _NONE), modules_loaded=known((), where))
        machine = replace(machine, nvidia=nothing)
    if amd and all(gpu.driver.absent for gpu in amd):
        assumed = tuple(one for one in machine.assumed if one != _ASSUMED_AMDGPU)
        machine = replace(machine, amd=AmdStack(), assumed=assumed)
    return machine
