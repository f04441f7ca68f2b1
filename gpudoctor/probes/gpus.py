"""Builds one Gpu from what the bus, KFD, the kernel module and the drivers tell about it.

The drivers' own answers take precedence over the table: the compute capability from NVML, the gfx target from KFD.
The matrix tells the rest by PCI id; what nothing tells is unknown.
"""

from __future__ import annotations

from typing import Any

from gpudoctor.machine import AmdStack, Fact, Gpu, NvidiaStack, System, absent, known, unknown
from gpudoctor.matrix.questions import Matrix
from gpudoctor.probes.amd_gpus import amd_gpus
from gpudoctor.probes.nvidia_gpus import nvidia_gpus
from gpudoctor.probes.pci import PciDevice


def assemble(
    pci: Fact[tuple[PciDevice, ...]], amd: AmdStack, nvidia: NvidiaStack, system: System, matrix: Matrix
) -> tuple[tuple[Gpu, ...], Fact[bool]]:
    """All GPUs, NVIDIA's first, each maker's in its runtime's order; and whether GPUs could be searched for at all.
    That is absent if the machine has no PCI bus and nothing in its place."""
    if pci.value is not None:
        classed = (device for device in pci.value if device.class_code or matrix.gpus.gpu_by_pci(device.pci_id))
        pci = known(tuple(classed), pci.source)
    gpus = (*nvidia_gpus(pci, nvidia, system, matrix), *amd_gpus(pci, amd, system, matrix))
    return gpus, _search_possible(pci, amd, nvidia, system)


def _search_possible(
    pci: Fact[tuple[PciDevice, ...]], amd: AmdStack, nvidia: NvidiaStack, system: System
) -> Fact[bool]:
    if pci.known:
        return known(True, pci.source)
    # A driver that failed, or listed no GPU, says nothing about a bus that nobody read.
    listed = (api for api in nvidia.answered if api.value and api.value.devices)
    stand_ins: tuple[Fact[Any], ...] = (nvidia.proc_gpus, amd.topology, *listed)
    for fact in stand_ins:
        if fact.known:
            return known(True, fact.source)
    if system.wsl.known:
        return known(True, system.wsl.source) if nvidia.nodes.known else unknown("/dev cannot be read", "/dev")
    if system.jetson.known:
        return known(True, system.jetson.source)
    return absent(pci.source, "no PCI bus") if pci.absent else unknown(pci.why, pci.source)
