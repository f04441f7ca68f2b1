"""What tells a node of a cluster from the next one: its clock, its PCI routes, its interfaces, AMD's boards.

No single GPU needs it to work, so it is read only where the driver is asked, too.
"""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Machine, unknown
from gpudoctor.probes.amd_board import amd_board
from gpudoctor.probes.clock import probe_clock, probe_clock_source
from gpudoctor.probes.network import read_interfaces
from gpudoctor.probes.pci_routes import probe_acs, probe_iommu


def with_platform(host: Host, machine: Machine) -> Machine:
    """The machine with these facts."""
    gpus, network = machine.gpus, machine.network
    system = replace(
        machine.system,
        clock_source=probe_clock_source(host),
        clock=probe_clock(host),
        iommu=probe_iommu(host, gpus),
        acs=probe_acs(host, gpus) if len(gpus) > 1 else unknown("not read: transfers need two GPUs"),
    )
    if not network.interfaces.known:
        network = replace(network, interfaces=read_interfaces(host))
    links = {node.node: node.xgmi_links for node in machine.amd.topology.value or ()}
    boards = tuple(
        replace(gpu, amd_board=amd_board(host, gpu, links.get(gpu.kfd_node or 0, 0))) if gpu.vendor == "amd" else gpu
        for gpu in gpus
    )
    return replace(machine, system=system, network=network, gpus=boards)
