"""What the kernel log of a described machine says of its driver, in the place of what was assumed."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.finding import ModuleFlavour
from gpudoctor.machine import ASSUMED, Gpu, InstalledModule, LogFault, Machine, NvidiaModule, absent, known, unknown
from gpudoctor.situation.kernel_log import GIVEN_UP, lines_about

_FLAVOURS: dict[str, ModuleFlavour] = {
    "nvidia-open-unsupported": "open",
    "nvidia-open-datacenter-only": "open",
    "nvidia-open-required": "proprietary",
}
"""Lines that only a module of one flavour writes."""
_REFUSED = ("module-key-rejected", "module-unsigned-refused")
_RIVAL = "nvidia-other-driver"


def with_logged_state(machine: Machine) -> Machine:
    """The machine as its log shows it: the flavour of the module that wrote the log, no module that the kernel
    refused, the driver that holds a GPU in place of NVIDIA's, and no driver on a GPU that its driver gave up. Nobody
    saw these GPUs work since."""
    log = machine.kernel_log.value
    if log is None or machine.system.wsl.known:
        return machine
    source = log.source or machine.kernel_log.source
    machine = replace(machine, gpus=tuple(_unless_given_up(gpu, log.faults, source) for gpu in machine.gpus))
    if not machine.of_vendor("nvidia"):
        return machine
    for fault in log.faults:
        flavour = _FLAVOURS.get(fault.kind)
        module = machine.nvidia.module.value
        if flavour and module:
            version = machine.nvidia.module.source
            changed = known(replace(module, flavour=flavour), version if version == ASSUMED else source)
            left = tuple(one for one in machine.assumed if one != f"{module.flavour} kernel module")
            machine = replace(machine, nvidia=replace(machine.nvidia, module=changed), assumed=left)
        if fault.kind in GIVEN_UP["nvidia"] and not machine.system.virtual_machine.known:  # the GPU may be a vGPU
            guest = unknown("the description does not say", source)
            machine = replace(machine, system=replace(machine.system, virtual_machine=guest))
        if fault.kind == _RIVAL:
            machine = _with_rival(machine, fault, source)
        if fault.kind in _REFUSED and "amd" not in fault.line:
            module = machine.nvidia.module.value
            machine = without_module(
                machine, source, "the kernel refused the module", _installed_here(machine, module)
            )
    return machine


def _unless_given_up(gpu: Gpu, faults: tuple[LogFault, ...], source: str) -> Gpu:
    lines = tuple(fault for fault in faults if fault.kind in GIVEN_UP.get(gpu.vendor, ()))
    if not lines_about(gpu, lines):
        return gpu
    return replace(gpu, driver=absent(source, "its driver gave it up"), kfd_node=None, nodes=())


def _with_rival(machine: Machine, fault: LogFault, source: str) -> Machine:
    """The GPUs that the line is about, bound to the driver that it names."""
    name = fault.line.rpartition("already bound to ")[2].split(".")[0].split()[0]
    gpus = tuple(
        replace(gpu, driver=known(name, source)) if gpu.vendor == "nvidia" and lines_about(gpu, (fault,)) else gpu
        for gpu in machine.gpus
    )
    return replace(machine, gpus=gpus)


def _installed_here(machine: Machine, module: NvidiaModule | None) -> tuple[InstalledModule, ...]:
    """NVIDIA's module as it is installed for the running kernel."""
    kernel = machine.system.kernel.value or ""
    version, flavour = (module.version, module.flavour) if module else (None, None)
    return (
        InstalledModule(
            name="nvidia", kernel=kernel, path=f"/lib/modules/{kernel}", version=version, flavour=flavour
        ),
    )


def without_module(machine: Machine, source: str, why: str, installed: tuple[InstalledModule, ...]) -> Machine:
    """The machine on which NVIDIA's module is not loaded; `installed` are those for the running kernel."""
    stack = replace(
        machine.nvidia,
        module=absent(source, why),
        modules_loaded=known((), source),
        modules_installed=known(installed, source),
        nodes=known((), source),
        proc_gpus=known((), source),
    )
    gpus = tuple(
        replace(gpu, driver=absent(source, why), nodes=()) if gpu.vendor == "nvidia" else gpu for gpu in machine.gpus
    )
    system = replace(machine.system, secure_boot=unknown("the description does not say", source))
    return replace(machine, nvidia=stack, gpus=gpus, system=system)
