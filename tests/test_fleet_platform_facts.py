"""One odd node among equal ones: what is compared of boards, RDMA, limits and clock, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpudoctor.fleet.documents import Document
from gpudoctor.fleet.facts import compared_values
from gpudoctor.fleet.merge import merge
from gpudoctor.machine import (
    Board,
    Clock,
    Library,
    LoadPath,
    Machine,
    NvmlDevice,
    ProcessLimits,
    SettingsFile,
    absent,
    known,
)
from tests.support.check_cases import matrix
from tests.support.machines import change, nvidia_gpu, nvidia_machine, with_environment, with_stack, with_system
from tests.support.networks import roce, with_network

NODES = 5
BOARD = Board(
    vbios="96.00.A5.00.01", inforom="G520.0200.00.05", gsp_firmware="580.95.05", pcie_generation=5,
    pcie_generation_max=5, pcie_width=16, pcie_width_max=16, power_limit=700, power_limit_default=700,
    throttled=(), persistence=True, links=18, links_up=18,
)  # fmt: skip


def node(*, interfaces: dict[str, int] | None = None, devices: Any = None, **board: Any) -> Machine:
    """Two H100 with two RoCE ports; words change the first GPU's board."""
    boards = (change(BOARD, **board), BOARD)
    gpus = tuple(
        nvidia_gpu(
            "NVIDIA H100 80GB HBM3", "sm_90", datacenter=True, index=place, bdf=f"0000:0{place}:00.0",
            nodes=(f"/dev/nvidia{place}",), nvml=NvmlDevice(index=place, board=own),
        )
        for place, own in enumerate(boards)
    )  # fmt: skip
    mtus = {"lo": 65536, "eth0": 1500, "eth_mlx5_0": 9000, "eth_mlx5_1": 9000, **(interfaces or {})}
    own = with_network(nvidia_machine(*gpus), *(devices or (roce("mlx5_0"), roce("mlx5_1"))), interfaces=mtus)
    own = with_environment(own, libraries=LoadPath(complete=known(True, "no LD_LIBRARY_PATH")))
    own = with_stack(own, gpudirect_modules=known(("nvidia_peermem",), "/proc/modules"))
    return with_system(
        own,
        limits=known(ProcessLimits(open_files=1 << 20, cpus=96), "getrlimit"),
        hugepages=known(5128 << 21, "/proc/meminfo"),
        iommu=absent("/sys"),
        acs=known((), "/sys"),
        clock_source=known("tsc", "/sys"),
        clock=known(Clock(service="chronyd", synchronized=True, error=420), "adjtimex"),
    )


def system(**parts: Any) -> Machine:
    return with_system(node(), **parts)


def settings() -> Machine:
    own = node()
    return change(own, network=change(own.network, settings=(SettingsFile("/etc/nccl.conf", {"NCCL_ALGO": "Ring"}),)))


PRELOADED = LoadPath(
    found=(Library("libnccl.so.2", "/opt/nccl/libnccl.so.2", "2.29.2", "toolkit", "LD_PRELOAD", wins=True),),
    complete=known(True, "LD_PRELOAD"),
)


def odd_facts(odd: Machine) -> dict[str, str]:
    """The odd facts of that machine among four good ones; nobody else may be odd."""
    documents = [Document(f"n{place}", machine=node() if place else odd) for place in range(NODES)]
    rows = merge(documents, matrix()).nodes
    assert [row.name for row in rows if row.odd and row.name != "n0"] == []
    return {one.fact: one.value for row in rows for one in row.odd}


ODD: dict[str, Callable[[], Machine]] = {
    "board.vbios": lambda: node(vbios="96.00.74.00.11"),
    "board.inforom": lambda: node(inforom="G520.0280.02.02"),
    "board.gsp_firmware": lambda: node(gsp_firmware="570.148.08"),
    "board.nvlinks": lambda: node(links_up=17),
    "board.pcie_width": lambda: node(pcie_width=8),
    "board.pcie_generation": lambda: node(pcie_generation_max=4),
    "board.power_limit": lambda: node(power_limit=500),
    "board.throttled": lambda: node(throttled=("power-cap", "hardware-thermal")),
    "board.persistence": lambda: node(persistence=False),
    "rdma.devices": lambda: node(devices=(roce("mlx5_0"),)),
    "rdma.firmware": lambda: node(devices=(change(roce("mlx5_0"), firmware="28.39.1002"), roce("mlx5_1"))),
    "rdma.ports": lambda: node(devices=(roce("mlx5_0"), roce("mlx5_1", state="DOWN"))),
    "rdma.rates": lambda: node(devices=(roce("mlx5_0"), roce("mlx5_1", rate="200 Gb/sec (4X HDR)"))),
    "rdma.gids": lambda: node(devices=(roce("mlx5_0"), roce("mlx5_1", roce_v2=(1, 5)))),
    "rdma.mtu": lambda: node(interfaces={"eth_mlx5_1": 1500}),
    "interfaces": lambda: node(interfaces={"eth1": 1500}),
    "mtu.eth0": lambda: node(interfaces={"eth0": 9000}),
    "gpudirect.modules": lambda: with_stack(node(), gpudirect_modules=known((), "/proc/modules")),
    "iommu": lambda: system(iommu=known("DMA-FQ", "/sys")),
    "acs": lambda: system(acs=known(("0000:00:01.0",), "/sys")),
    "limits.locked_memory": lambda: system(limits=known(ProcessLimits(8, locked_memory=8 << 20), "getrlimit")),
    "limits.open_files": lambda: system(limits=known(ProcessLimits(open_files=1024, cpus=96), "getrlimit")),
    "limits.cpus": lambda: system(limits=known(ProcessLimits(open_files=1 << 20, cpus=4), "getrlimit")),
    "hugepages": lambda: system(hugepages=known(0, "/proc/meminfo")),
    "clock.source": lambda: system(clock_source=known("hpet", "/sys")),
    "clock.synchronized": lambda: system(clock=known(Clock("chronyd", synchronized=False), "adjtimex")),
    "clock.error": lambda: system(clock=known(Clock("chronyd", True, 2_500_000), "adjtimex")),
    "clock.service": lambda: system(clock=known(Clock("ntpd", True, 420), "adjtimex")),
    "nccl": lambda: with_environment(node(), libraries=PRELOADED),
    "nccl.files": settings,
}


@pytest.mark.parametrize("fact", ODD)
def test_the_odd_node_is_named_with_this_fact(fact: str) -> None:
    assert fact in odd_facts(ODD[fact]())


def test_values_as_a_person_reads_them() -> None:
    assert odd_facts(node(links_up=17)) == {"board.nvlinks": "17 up (1 GPU), 18 up (1 GPU)"}
    down = odd_facts(node(devices=(roce("mlx5_0"), roce("mlx5_1", state="DOWN"))))
    assert down["rdma.ports"] == "ACTIVE (1 port), DOWN (1 port)"


def test_a_fault_of_one_port_is_one_difference() -> None:
    """What follows from it is none: a port that is down has no rate, and a missing device has no port."""
    down = change(node(), network=node(devices=(roce("mlx5_0"), roce("mlx5_1", state="DOWN"))).network)
    assert set(odd_facts(down)) == {"rdma.ports"}
    assert set(odd_facts(node(devices=(roce("mlx5_0"),)))) == {"rdma.devices"}
    assert set(odd_facts(node(interfaces={"eth_mlx5_1": 1500}))) == {"rdma.mtu"}


def test_what_differs_by_its_nature_makes_nobody_odd() -> None:
    idle = node(pcie_generation=1, throttled=("power-cap",))
    assert odd_facts(idle) == {}
    assert odd_facts(system(clock=known(Clock("chronyd", True, 999), "adjtimex"))) == {}
    assert odd_facts(node(interfaces={"veth1": 1450, "docker0": 1500, "cali9": 8900, "lo": 16384})) == {}
    exempt = ProcessLimits(locked_memory=8 << 20, locks_any_memory=True, open_files=1 << 20, cpus=96)
    assert odd_facts(system(limits=known(exempt, "getrlimit"))) == {}


def test_a_snapshot_of_an_older_gpudoctor_lacks_these_facts_and_is_not_odd() -> None:
    old = nvidia_machine(*(change(gpu, nvml=NvmlDevice(index=gpu.index or 0)) for gpu in node().gpus))
    assert odd_facts(old) == {}
    names = [fact.name for fact, _ in compared_values(old)]
    assert not [name for name in names if name.startswith(("board.", "rdma.", "clock.", "limits.", "nccl"))]
