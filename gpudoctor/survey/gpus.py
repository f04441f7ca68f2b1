"""The GPUs of a machine, put together from what several probes saw."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Fact, Gpu, Machine
from gpudoctor.matrix.questions import Matrix
from gpudoctor.probes.gpus import assemble
from gpudoctor.probes.pci import PciDevice, probe_pci
from gpudoctor.survey.probing import Probing


def with_gpus(
    host: Host, matrix: Matrix, machine: Machine, probing: Probing, pci: Fact[tuple[PciDevice, ...]] | None = None
) -> Machine:
    """The machine with its GPUs put together from the bus, KFD and the drivers' answers."""
    bus = probe_pci(host) if pci is None else pci
    seen = machine.gpus, machine.buses
    gpus, buses = probing("gpus", lambda: assemble(bus, machine.amd, machine.nvidia, machine.system, matrix), seen)
    if not gpus and not bus.known and not machine.system.wsl.known:
        gpus, buses = probing("gpus in the log", lambda: _gpus_in_log(host, matrix, machine), (gpus, buses))
    return replace(machine, gpus=gpus, buses=buses)


def _gpus_in_log(host: Host, matrix: Matrix, machine: Machine) -> tuple[tuple[Gpu, ...], Fact[bool]]:
    from gpudoctor.probes.log_gpus import gpus_in_log

    named = gpus_in_log(host)
    if not named.known:
        return (), machine.buses
    return assemble(named, machine.amd, machine.nvidia, machine.system, matrix)
