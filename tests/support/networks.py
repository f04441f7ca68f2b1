"""Made-up networks: RDMA devices and interfaces, with the values of real adapters."""

from __future__ import annotations

from typing import Any

from gpudoctor.machine import Interface, Machine, Network, RdmaDevice, RdmaPort, absent, known
from tests.support.machines import change

CONNECTX_7 = "MT_0000000838"
NO_RDMA = absent("/sys/class/infiniband", "no such file or directory")


def infiniband(name: str = "mlx5_0", **port: Any) -> RdmaDevice:
    """A ConnectX-7 on InfiniBand, as on a DGX H100."""
    own = RdmaPort(**{
        "number": 1, "state": "ACTIVE", "physical": "LinkUp", "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand", **port,
    })  # fmt: skip
    return RdmaDevice(name=name, driver="mlx5_core", board=CONNECTX_7, firmware="28.41.1000", node=True, ports=(own,))


def roce(name: str = "mlx5_0", **port: Any) -> RdmaDevice:
    """The same on Ethernet, with the GID table of an interface that has an IPv4 address."""
    defaults = {"link_layer": "Ethernet", "roce_v1": (0, 2), "roce_v2": (1, 3), "interface": f"eth_{name}"}
    return infiniband(name, **{**defaults, **port})


def efa(name: str = "rdmap0s6") -> RdmaDevice:
    """AWS's Elastic Fabric Adapter, whose link layer the kernel calls unknown."""
    port = RdmaPort(number=1, state="ACTIVE", physical="LinkUp", rate="100 Gb/sec (4X EDR)", link_layer="Unknown")
    return RdmaDevice(name=name, driver="efa", firmware="0.0.0.0", node=True, ports=(port,))


def with_network(machine: Machine, *devices: RdmaDevice, interfaces: dict[str, int] | None = None) -> Machine:
    """The machine with these RDMA devices, and interfaces by name and MTU."""
    found = tuple(Interface(name, mtu, "up") for name, mtu in (interfaces or {"lo": 65536, "eth0": 1500}).items())
    network = Network(
        rdma=known(devices, "/sys/class/infiniband") if devices else NO_RDMA,
        interfaces=known(found, "/sys/class/net"),
    )
    return change(machine, network=network)


def with_limit(machine: Machine, locked_memory: int | None, **limits: Any) -> Machine:
    """The machine with this limit of locked memory."""
    from gpudoctor.machine import ProcessLimits

    own = known(ProcessLimits(locked_memory=locked_memory, **limits), "getrlimit")
    return change(machine, system=change(machine.system, limits=own))
