"""RDMA devices, from /sys/class/infiniband.

GUIDs, GIDs and `node_desc`, which holds the host's name, are not read.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import RdmaDevice, RdmaPort
from gpudoctor.probes.pci import read_uevent
from gpudoctor.probes.pci_address import normal_address

_VERBS = "/sys/class/infiniband_verbs"
_MOST_DEVICES = 64
_MOST_PORTS = 4
_GIDS = 32
_EMPTY_IN_A_ROW = 6
"""The kernel fills the GID table from below, with few holes; the table may have hundreds of entries."""


def read_devices(host: Host, folder: str, names: tuple[str, ...], gid_index: str = "") -> tuple[RdmaDevice, ...]:
    """The devices of that folder. `gid_index` is an index that somebody asks for: it is looked at in any case."""
    nodes = _nodes(host)
    asked = int(gid_index) if re.fullmatch("[0-9]{1,3}", gid_index) else -1
    return tuple(_device(host, f"{folder}/{name}", name, nodes, asked) for name in names[:_MOST_DEVICES])


def _nodes(host: Host) -> dict[str, str]:
    """The device node of each device, by the device's name."""
    found = {}
    for name in (host.names(_VERBS).value or ())[: 2 * _MOST_DEVICES]:
        device = host.text(f"{_VERBS}/{name}/ibdev", 256).value if name.startswith("uverbs") else None
        if device:
            found[device] = f"/dev/infiniband/{name}"
    return found


def _device(host: Host, folder: str, name: str, nodes: dict[str, str], asked: int) -> RdmaDevice:
    event = read_uevent(host.text(f"{folder}/device/uevent", 4096).value)
    numbers = [int(port) for port in host.names(f"{folder}/ports").value or () if re.fullmatch("[0-9]{1,3}", port)]
    ports = tuple(_port(host, f"{folder}/ports/{number}", number, asked) for number in sorted(numbers)[:_MOST_PORTS])
    if len(ports) == 1 and not ports[0].interface:
        interfaces = host.names(f"{folder}/device/net").value or ()
        if len(interfaces) == 1:
            ports = (replace(ports[0], interface=interfaces[0]),)
    return RdmaDevice(
        name=name,
        driver=event.get("DRIVER", ""),
        bdf=normal_address(event.get("PCI_SLOT_NAME", "")) or "",
        board=_line(host, f"{folder}/board_id"),
        firmware=_line(host, f"{folder}/fw_ver"),
        node=_node_is_here(host, nodes.get(name, "")),
        ports=ports,
    )


def _node_is_here(host: Host, path: str) -> bool | None:
    """Without a node of its class no program can use a device; a recording need not hold that class."""
    if not path:
        return False if host.live else None
    found = host.stat(path)
    return None if found.undecided else found.known


def _port(host: Host, folder: str, number: int, asked: int) -> RdmaPort:
    link_layer = _line(host, f"{folder}/link_layer")
    kinds = _gid_kinds(host, folder, asked) if link_layer == "Ethernet" else {}
    return RdmaPort(
        number=number,
        state=_word(_line(host, f"{folder}/state")),
        physical=_word(_line(host, f"{folder}/phys_state")),
        rate=_line(host, f"{folder}/rate"),
        link_layer=link_layer,
        roce_v1=tuple(index for index, kind in kinds.items() if kind in ("IB/RoCE v1", "RoCE v1")),
        roce_v2=tuple(index for index, kind in kinds.items() if kind == "RoCE v2"),
        interface=_line(host, f"{folder}/gid_attrs/ndevs/{next(iter(kinds))}") if kinds else "",
    )


def _gid_kinds(host: Host, folder: str, asked: int) -> dict[int, str]:
    """The kind of each GID. An empty entry cannot be read, nor can one of another network namespace."""
    kinds: dict[int, str] = {}
    empty = 0
    for index in range(_GIDS):
        kind = _line(host, f"{folder}/gid_attrs/types/{index}")
        empty = 0 if kind else empty + 1
        if kind:
            kinds[index] = kind
        elif empty == _EMPTY_IN_A_ROW:
            break
    if asked >= 0 and asked not in kinds and (kind := _line(host, f"{folder}/gid_attrs/types/{asked}")):
        kinds[asked] = kind
    return kinds


def _word(text: str) -> str:
    """ "4: ACTIVE" is ACTIVE."""
    return text.partition(":")[2].strip() if ":" in text else text


def _line(host: Host, path: str) -> str:
    """The first line of a small file; "" if there is none, or if it holds anything but plain text."""
    line = (host.text(path, 256).value or "").partition("\n")[0].strip()
    return line if line.isascii() and line.isprintable() else ""
