"""How facts are read for a comparison of nodes: as short texts.

A value is a short text; None is unknown and compared with nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct

from gpudoctor.finding import Layer, Severity
from gpudoctor.machine import Fact, Gpu, Interface, Machine, RdmaPort

Within = Literal["role", "model"]
"""role: all nodes of one role with GPUs of one vendor; model: those with the same GPU model, platform and role."""
Read = Callable[[Machine], str | None]
DRIVER: tuple[Layer, ...] = ("driver",)
RUNTIME: tuple[Layer, ...] = ("runtime",)
_OF_CONTAINERS = r"(lo|veth|cali|docker|br-|virbr|lxc|tap|vnet|cni|flannel|tunl|nodelocaldns|kube-|ifb|dummy)"


class ComparedFact(Struct, frozen=True):
    """One fact: `severity` is that of a difference that breaks no rule; `layers` are those of the problems that it
    brings where it breaks one."""

    name: str
    title: str
    read: Read
    within: Within = "role"
    severity: Severity = "warning"
    layers: tuple[Layer, ...] = ()
    own: bool = False
    """Whether each node may have a value of its own: a path with the number of a job, say."""


def main_model(machine: Machine) -> str:
    """The GPU model of which the node has most; "" for none."""
    models = Counter(gpu.name for gpu in computing(machine))
    return models.most_common(1)[0][0] if models else ""


def gpus(machine: Machine) -> str | None:
    """ "8 x NVIDIA H100 80GB HBM3"; None if the bus could not be read."""
    if own := computing(machine):
        return counted(gpu.name for gpu in own)
    return "no GPU" if machine.buses.known else None


def computing(machine: Machine) -> tuple[Gpu, ...]:
    """The GPUs that compute; a server's display chip is another thing."""
    apart = tuple(gpu for gpu in machine.gpus if not gpu.integrated)
    return apart or machine.gpus


def without_container(interface: str) -> str:
    """The name of a network interface; of one that containers bring and take, only the kind."""
    found = re.match(_OF_CONTAINERS, interface)
    return found[0] if found else interface


def own_interfaces(machine: Machine) -> Iterator[Interface]:
    """The network interfaces of the node, without those that containers bring and take."""
    for one in machine.network.interfaces.value or ():
        if not re.match(_OF_CONTAINERS, one.name):
            yield one


def value_of(fact: Fact[Any]) -> str | None:
    """A fact as a text; "none" for what is known not to exist."""
    if fact.absent:
        return "none"
    if fact.value is None:
        return None
    if isinstance(fact.value, bool):
        return "yes" if fact.value else "no"
    if isinstance(fact.value, tuple):
        return " ".join(map(str, fact.value)) or "none"
    return str(fact.value)


def by_frequency(values: Iterable[object]) -> list[tuple[str, int]]:
    """Each value with its count; the most frequent first."""
    return sorted(Counter(map(str, values)).items(), key=lambda row: (-row[1], row[0]))


def counted(values: Iterable[str]) -> str:
    """ "8 x MT_0000000838, 1 x MT_0000000223"; "none" without values."""
    return ", ".join(f"{count} x {value}" for value, count in by_frequency(values)) or "none"


def in_all(values: Iterable[object], of: str) -> str | None:
    """The value of all of them, else each with its count: "18 up (7 GPUs), 17 up (1 GPU)"; None without values."""
    rows = by_frequency(values)
    if len(rows) <= 1:
        return rows[0][0] if rows else None
    return ", ".join(f"{value} ({count} {of}{'s' * (count != 1)})" for value, count in rows)


def fact_text(path: str, write: Callable[[Any], str] | None = None) -> Read:
    """A fact of the machine ("nvidia.userland"), written so where it has a value; "none" for what does not exist."""
    read: Callable[[Machine], Fact[Any]] = attrgetter(path)

    def value(machine: Machine) -> str | None:
        fact = read(machine)
        return value_of(fact) if write is None or fact.value is None else write(fact.value)

    return value


def value_text(path: str, write: Callable[[Any], str | None]) -> Read:
    """What the value of a fact tells; None where it has none."""
    read: Callable[[Machine], Fact[Any]] = attrgetter(path)
    return lambda machine: None if (value := read(machine).value) is None else write(value)


def limit(name: str, write: Callable[[Any], str] = str) -> Read:
    """A number of the process's limits; None if there is none."""
    read = attrgetter(name)
    return value_text("system.limits", lambda limits: None if (number := read(limits)) is None else write(number))


def on_gpus(read: Callable[[Gpu], object]) -> Read:
    """The values of a node's GPUs: one if all are equal, else each with its count; None if no GPU has one."""

    def value(machine: Machine) -> str | None:
        return in_all((value for gpu in computing(machine) if (value := read(gpu)) is not None), "GPU")

    return value


def of_boards(name: str) -> Read:
    """A field of the GPUs' boards."""
    read = attrgetter(name)
    return on_gpus(lambda gpu: None if (value := read(gpu.board)) == "" else value)


def of_ports(read: Callable[[RdmaPort], str | None]) -> Read:
    """What the RDMA ports have of it; None where no port has any."""

    def value(machine: Machine) -> str | None:
        ports = (port for device in machine.network.rdma.value or () for port in device.ports)
        return in_all((text for port in ports if (text := read(port))), "port")

    return value
