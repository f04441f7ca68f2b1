"""What NCCL makes of the network: which interfaces and RDMA ports its variables select, and whether it will ask them.

The rules are those of NVIDIA/nccl: src/misc/socket.cc, src/misc/utils.cc, src/transport/net_ib. RCCL has the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gpudoctor.finding import Evidence
from gpudoctor.machine import Machine, RdmaDevice, RdmaPort
from gpudoctor.situation import Situation

NCCL_LINKS = ("InfiniBand", "Ethernet")
"""Link layers that NCCL's own transport uses."""


class NameFilter(Struct, frozen=True):
    """A list of names as NCCL reads it: "eth" is a prefix, "=eth0" a name, "^" in front excludes; "mlx5_0:1" adds a
    port. Blanks belong to the names."""

    excludes: bool
    exact: bool
    entries: tuple[tuple[str, int | None], ...]
    """Name or prefix, and the port, if one is named."""

    def matches(self, entry: tuple[str, int | None], name: str, port: int | None = None) -> bool:
        """Whether one entry stands for this name and port."""
        wanted, number = entry
        named = name == wanted if self.exact else name.startswith(wanted)
        return named and (number is None or port is None or number == port)

    def selects(self, name: str, port: int | None = None) -> bool:
        """Whether NCCL would take it."""
        listed = not self.entries or any(self.matches(entry, name, port) for entry in self.entries)
        return listed is not self.excludes


def read_filter(value: str) -> NameFilter:
    """The filter that a value of NCCL_SOCKET_IFNAME or NCCL_IB_HCA stands for."""
    excludes = value.startswith("^")
    value = value[excludes:]
    exact = value.startswith("=")
    parts = (entry.split(":") for entry in value[exact:].split(",") if entry)
    entries = tuple((name, _port(rest[0] if rest else "")) for name, *rest in parts if name)
    return NameFilter(excludes=excludes, exact=exact, entries=entries)


def _port(text: str) -> int | None:
    """The number of a port as atoi reads it; an empty field and -1 stand for every port."""
    digits = re.match(r"\s*([+-]?\d{1,9})", text)
    number = int(digits[1]) if digits else 0
    return None if not text or number == -1 else number


class NcclVariable(Struct, frozen=True):
    """A variable that NCCL will read, and where it is set: "environment", or one of NCCL's files."""

    name: str
    value: str
    source: str

    @property
    def in_file(self) -> bool:
        return self.source != "environment"


def setting(machine: Machine, name: str) -> NcclVariable | None:
    """A variable of NCCL or RCCL: the environment takes precedence over their files. None if nobody sets it."""
    if name in machine.variables:
        return NcclVariable(name, machine.variables[name], "environment")
    rccl = bool(machine.gpus) and all(gpu.vendor == "amd" for gpu in machine.gpus)
    for file in machine.network.settings:
        if name in file.values and ("rccl" in file.path.rpartition("/")[2]) is rccl:
            return NcclVariable(name, file.values[name], file.path)
    return None


def value_of(machine: Machine, name: str) -> str:
    """The value of such a variable; "" if it is not set."""
    found = setting(machine, name)
    return found.value if found else ""


def uses_own_transport(situation: Situation) -> bool:
    """Whether NCCL would use RDMA devices itself: neither switched off nor left to a plugin, such as AWS's and
    Google's."""
    machine = situation.machine
    if value_of(machine, "NCCL_IB_DISABLE") not in ("", "0"):
        return False
    if value_of(machine, "NCCL_NET").lower() not in ("", "ib"):
        return False
    if value_of(machine, "NCCL_NET_PLUGIN") not in ("", "none"):
        return False
    return not any(device.is_efa for device in machine.network.rdma.value or ())


class SelectedPort(Struct, frozen=True):
    """A port with its device."""

    device: RdmaDevice
    port: RdmaPort

    @property
    def name(self) -> str:
        return f"{self.device.name}:{self.port.number}" if len(self.device.ports) > 1 else self.device.name


def all_ports(machine: Machine) -> tuple[SelectedPort, ...]:
    """Every port of the RDMA devices that programs can open here."""
    devices = (device for device in machine.network.rdma.value or () if device.node is not False)
    return tuple(SelectedPort(device, port) for device in devices for port in device.ports)


def selected_ports(machine: Machine) -> tuple[SelectedPort, ...]:
    """The ports that NCCL_IB_HCA leaves, active or not."""
    hcas = read_filter(value_of(machine, "NCCL_IB_HCA"))
    return tuple(one for one in all_ports(machine) if hcas.selects(one.device.name, one.port.number))


def port_evidence(situation: Situation, port: SelectedPort, asked: NcclVariable | None) -> tuple[Evidence, ...]:
    """A port as it is, and the variable that asks for it."""
    state = Evidence("RDMA port", f"{port.name} {port.port.state}", situation.machine.network.rdma.source)
    return (state, Evidence(asked.name, asked.value, asked.source)) if asked else (state,)


def working(ports: Iterable[SelectedPort]) -> tuple[SelectedPort, ...]:
    """The ports that NCCL's own transport could use now."""
    return tuple(one for one in ports if one.port.active and one.port.link_layer in NCCL_LINKS)


def active_ports(machine: Machine) -> tuple[SelectedPort, ...]:
    """The ports that NCCL should use: all active ones where NCCL_IB_HCA is mistaken and leaves none."""
    mistaken = not read_filter(value_of(machine, "NCCL_IB_HCA")).excludes
    return working(selected_ports(machine)) or (working(all_ports(machine)) if mistaken else ())
