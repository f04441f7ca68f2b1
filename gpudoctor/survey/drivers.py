"""Level driver: timed children that initialise NVML, libcuda and the HSA runtime."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Machine, unknown
from gpudoctor.matrix.questions import Matrix
from gpudoctor.survey.gpus import with_gpus
from gpudoctor.survey.probing import Probing


def ask_drivers(host: Host, matrix: Matrix, machine: Machine, probing: Probing) -> Machine:
    """Level driver: timed children that initialise NVML, libcuda and the HSA runtime."""
    from gpudoctor.probes.amd_answers import ask_hsa
    from gpudoctor.probes.nvidia_answers import ask_nvidia

    recorded = not host.live  # asking a recording costs nothing: what it has of the tools' output is read
    if recorded or _worth_asking_nvidia(machine):
        silent = unknown("not asked")
        nvml, cuda, smi = probing("nvidia driver", lambda: ask_nvidia(host), (silent, silent, silent))
        machine = replace(machine, nvidia=replace(machine.nvidia, nvml=nvml, cuda=cuda, smi=smi))
        machine = with_gpus(host, matrix, machine, probing)
    if recorded or machine.of_vendor("amd") or machine.load_path.first("libhsa-runtime64.so.1"):
        path, torch = machine.load_path, machine.torch
        hsa = probing("hsa runtime", lambda: ask_hsa(host, path, torch=torch), unknown("not asked"))
        machine = replace(machine, amd=replace(machine.amd, hsa=hsa))
        machine = with_gpus(host, matrix, machine, probing)
    return probing("platform", lambda: _with_platform(host, machine), machine)


def _with_platform(host: Host, machine: Machine) -> Machine:
    """The machine with what tells a node of a cluster from the next one: its clock, its PCI routes, its interfaces,
    AMD's boards. No single GPU needs it to work."""
    from gpudoctor.probes.amd_board import amd_board
    from gpudoctor.probes.clock import probe_clock, probe_clock_source
    from gpudoctor.probes.network import read_interfaces
    from gpudoctor.probes.pci_routes import probe_acs, probe_iommu

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


def with_recorded_answers(host: Host, matrix: Matrix, machine: Machine, probing: Probing) -> Machine:
    """What a recording kept of the drivers' tools (`commands` of gpudoctor-host.json)."""
    from gpudoctor.probes.amd_smi import recorded_smi

    smi = probing("smi", lambda: recorded_smi(host), unknown("the reader of rocm-smi crashed"))
    machine = replace(machine, amd=replace(machine.amd, smi=smi))
    return replace(ask_drivers(host, matrix, machine, probing), level="static")


def _worth_asking_nvidia(machine: Machine) -> bool:
    libraries = any(machine.load_path.first(name) for name in ("libnvidia-ml.so.1", "libcuda.so.1"))
    return bool(libraries or machine.of_vendor("nvidia") or machine.nvidia.nodes.value)
