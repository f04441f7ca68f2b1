"""The networks that GPUs of several machines talk over: RDMA devices, network interfaces, NCCL's own files.

GUIDs, GIDs, addresses and the names of hosts are never read.
"""

from __future__ import annotations

from msgspec import field

from gpudoctor.machine.facts import Fact, Record, unknown


class RdmaPort(Record, frozen=True):
    """One port of an RDMA device, as /sys/class/infiniband describes it."""

    number: int
    state: str = ""
    """ACTIVE, DOWN, INIT (no subnet manager has configured it), ARMED; "" if unknown."""
    physical: str = ""
    """LinkUp, Polling (it looks for the other end), Disabled ..."""
    rate: str = ""
    """ "400 Gb/sec (4X NDR)"."""
    link_layer: str = ""
    """InfiniBand, or Ethernet (RoCE); AWS's EFA has neither."""
    roce_v1: tuple[int, ...] = ()
    """Indexes of its GIDs for RoCE v1; what the GIDs are stays unread."""
    roce_v2: tuple[int, ...] = ()
    interface: str = ""
    """Its network interface, where this container sees it."""

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"


class RdmaDevice(Record, frozen=True):
    """One RDMA device: "mlx5_0", or "rdmap0s6" of AWS's EFA."""

    name: str
    driver: str = ""
    """mlx5_core, efa, bnxt_en ..."""
    bdf: str = ""
    board: str = ""
    """The model of the board, as its firmware names it: "MT_0000000838"."""
    firmware: str = ""
    node: bool | None = None
    """Whether its /dev/infiniband/uverbsN is here, without which no program can use it (None: unknown)."""
    ports: tuple[RdmaPort, ...] = ()

    @property
    def is_efa(self) -> bool:
        """AWS's own transport: NCCL reaches it with a plugin over libfabric."""
        return self.driver == "efa"


class Interface(Record, frozen=True):
    """A network interface; `state` is the kernel's operstate: up, down, unknown ..."""

    name: str
    mtu: int | None = None
    state: str = ""


class SettingsFile(Record, frozen=True):
    """A file in which NCCL or RCCL looks for variables that the environment does not set."""

    path: str
    values: dict[str, str] = field(default_factory=dict)


class Network(Record, frozen=True):
    """RDMA devices, network interfaces, and NCCL's files."""

    rdma: Fact[tuple[RdmaDevice, ...]] = unknown("not probed")
    interfaces: Fact[tuple[Interface, ...]] = unknown("not probed")
    """Read if an RDMA device or a variable asks for it, and wherever the driver is asked."""
    settings: tuple[SettingsFile, ...] = ()
    """The file that takes precedence first."""
