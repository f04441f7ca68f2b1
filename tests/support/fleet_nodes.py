"""Nodes of a made-up fleet with all that is compared, and with what differs between equal nodes by its nature.

KINDS                    a node of each kind
with_noise(m, source)    the machine as another node of its kind has it, at another moment
"""

from __future__ import annotations

import random
import uuid

from msgspec.structs import replace

from gpudoctor.machine import (
    Board,
    Clock,
    Fabric,
    Gpu,
    Interface,
    Machine,
    Network,
    NvmlDevice,
    ProcessLimits,
    RdmaDevice,
    RdmaPort,
    absent,
    known,
)
from gpudoctor.testing import amd_gpu, amd_machine, nvidia_gpu, nvidia_machine

SOURCE = "made up"
_HGX = Board(
    vbios="96.00.99.00.01", inforom="G520.0200.00.05", gsp_firmware="580.95.05", pcie_generation=5,
    pcie_generation_max=5, pcie_width=16, pcie_width_max=16, power_limit=700, power_limit_default=700,
    throttled=(), persistence=True, links=18, links_up=18,
)  # fmt: skip
_PCIE = replace(_HGX, vbios="95.02.66.00.02", pcie_generation_max=4, power_limit=350, links=None, links_up=None)
_OAM = replace(_HGX, vbios="113-M3000100-102", inforom="", gsp_firmware="", power_limit=750, links=7, links_up=7)


def rdma(number: int, **changed: str) -> RdmaDevice:
    """An InfiniBand device; words change its port."""
    port = RdmaPort(1, state="ACTIVE", physical="LinkUp", rate="400 Gb/sec (4X NDR)", link_layer="InfiniBand")
    bdf = f"0000:{0x40 + number:02x}:00.0"
    board, firmware = "MT_0000000838", "28.39.3004"
    return RdmaDevice(f"mlx5_{number}", "mlx5_core", bdf, board, firmware, True, (replace(port, **changed),))


def _complete(machine: Machine, devices: int) -> Machine:
    """With what `--level driver` finds on a node of a cluster."""
    system = replace(
        machine.system,
        limits=known(ProcessLimits(open_files=1 << 20, cpus=112), SOURCE),
        hugepages=known(0, SOURCE),
        kernel_options=known(("iommu=pt",), SOURCE),
        iommu=known("identity", SOURCE),
        acs=known((), SOURCE),
        clock_source=known("tsc", SOURCE),
        clock=known(Clock("chronyd", True, 500), SOURCE),
        memory=known(2 << 40, SOURCE),
        shm=known(1 << 40, SOURCE),
    )
    interfaces = (Interface("eth0", 9000, "up"), Interface("lo", 65536, "unknown"))
    network = Network(
        rdma=known(tuple(map(rdma, range(devices))), SOURCE) if devices else absent(SOURCE),
        interfaces=known(interfaces, SOURCE),
    )
    variables = {"NCCL_SOCKET_IFNAME": "eth0", "LD_LIBRARY_PATH": "/opt/fabric/lib"}
    return replace(machine, system=system, network=network, variables=variables, level="driver")


def _nvidia(name: str, arch: str, count: int, board: Board, devices: int = 8) -> Machine:
    def gpu(index: int) -> Gpu:
        bdf = f"0000:{16 + index:02x}:00.0"
        nvml = NvmlDevice(
            index=index, name=name, bdf=bdf, memory=80 << 30, compute_mode="default", processes=0, mig=False,
            ecc_uncorrectable=0, remap_failed=False, remap_pending=False, board=board,
        )  # fmt: skip
        return replace(nvidia_gpu(name, arch, index=index), bdf=bdf, nvml=nvml)

    machine = _complete(nvidia_machine(*map(gpu, range(count))), devices)
    fabric = Fabric(known(4, SOURCE), known("580.95.05", SOURCE), known(True, SOURCE)) if board.links else Fabric()
    return replace(
        machine,
        nvidia=replace(machine.nvidia, gpudirect_modules=known(("nvidia_peermem",), SOURCE), fabric=fabric),
    )


def _amd(name: str, arch: str, count: int) -> Machine:
    gpus = (
        replace(amd_gpu(name, arch, index=at), bdf=f"0000:{16 + at:02x}:00.0", kfd_node=at + 1, amd_board=_OAM)
        for at in range(count)
    )
    return _complete(amd_machine(*gpus), 8)


KINDS: dict[str, Machine] = {
    "h100": _nvidia("NVIDIA H100 80GB HBM3", "sm_90", 8, _HGX),
    "a100": _nvidia(
        "NVIDIA A100-SXM4-80GB", "sm_80", 8, replace(_HGX, vbios="92.00.9E.00.01", links=12, links_up=12)
    ),
    "l40": _nvidia("NVIDIA L40S", "sm_89", 4, _PCIE, devices=0),
    "mi300": _amd("AMD Instinct MI300X", "gfx942", 8),
}


# --- what differs by its nature ------------------------------------------------------------------------


def with_noise(machine: Machine, source: random.Random) -> Machine:
    """Its own UUIDs and job, memory in use, an idle PCIe link or a busy one, containers that come and go."""
    busy = source.random() < 0.5
    system = machine.system
    if system.memory.value:
        system = replace(system, memory=known(system.memory.value + (source.randint(-300, 300) << 20), SOURCE))
    if system.clock.value:
        system = replace(system, clock=known(replace(system.clock.value, error=source.randint(9, 90_000)), SOURCE))
    if system.limits.value:
        limits = replace(system.limits.value, memory_kills=source.choice((0, 0, 3)))
        system = replace(system, limits=known(limits, SOURCE))
    network = machine.network
    if network.interfaces.value:
        pods = (Interface(f"cali{source.getrandbits(44):x}", 1450, "up") for _ in range(source.randint(0, 4)))
        network = replace(network, interfaces=known((*network.interfaces.value, *pods), SOURCE))
    job = {"SLURM_JOB_ID": str(source.randint(1, 99_999)), "CUDA_VISIBLE_DEVICES": "0,1,2,3"} if busy else {}
    return replace(
        machine,
        system=system,
        network=network,
        gpus=tuple(_gpu_with_noise(gpu, source, busy) for gpu in machine.gpus),
        variables={**machine.variables, **job},
    )


def _gpu_with_noise(gpu: Gpu, source: random.Random, busy: bool) -> Gpu:
    own = f"GPU-{uuid.UUID(int=source.getrandbits(128))}"
    throttled = ("power-cap",) if busy else ("idle",)
    if gpu.nvml is None:
        return replace(gpu, uuid=own, amd_board=_board_with_noise(gpu.amd_board, throttled, busy))
    nvml = replace(
        gpu.nvml,
        uuid=own,
        processes=int(busy),
        memory_used=source.randint(60 << 30, 76 << 30) if busy else source.randint(0, 1 << 29),
        board=_board_with_noise(gpu.nvml.board, throttled, busy),
    )
    return replace(gpu, uuid=own, nvml=nvml)


def _board_with_noise(board: Board, throttled: tuple[str, ...], busy: bool) -> Board:
    generation = board.pcie_generation_max if busy else 1
    return replace(board, pcie_generation=generation, throttled=(*(board.throttled or ()), *throttled))
