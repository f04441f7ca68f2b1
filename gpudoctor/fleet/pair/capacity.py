"""What a rank could reach by its links, in GB/s: no comparison among nodes shows that all of them are slow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gpudoctor.fleet.pair.nodes import Unit
from gpudoctor.machine import Network

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_BITS = 8


class Capacity(Struct, frozen=True):
    """`gb_per_s` in one direction, and what has it: "NVLink 4", "RDMA ports"."""

    gb_per_s: float
    of: str


def port_rates(network: Network) -> list[float]:
    """Gb/s of each active RDMA port: "400 Gb/sec (4X NDR)"."""
    ports = (port for device in network.rdma.value or () for port in device.ports if port.active)
    found = (re.match(r"(\d+(?:\.\d+)?) Gb/sec", port.rate) for port in ports)
    return [float(rate[1]) for rate in found if rate]


def between_nodes(units: Sequence[Unit], hellos: Mapping[int, Mapping[str, Any]]) -> Capacity | None:
    """The share of each rank in its node's ports, on the node that has least; None if one has none."""
    shares = [sum(hellos[unit.ranks[0]].get("ports") or ()) / _BITS / len(unit.ranks) for unit in units]
    return Capacity(round(min(shares), 1), "RDMA ports") if shares and min(shares) > 0 else None


def between_gpus(hellos: Mapping[int, Mapping[str, Any]], matrix: Matrix) -> Capacity | None:
    """The share of each rank in the links between the GPUs of one machine, if the matrix has their model and all are
    equal."""
    names = {str(hello.get("gpu") or "") for hello in hellos.values()}
    row = matrix.rates.interconnect_of(names.pop()) if len(names) == 1 else None
    one_machine = len({hello["agent"] or hello["name"] for hello in hellos.values()}) == 1
    return Capacity(row.gb_per_s, row.name) if row and one_machine else None
