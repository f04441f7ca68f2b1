"""Made-up fleets: many equal nodes, and a few that differ in facts which are known beforehand.

fleet(random, size)      a Fleet with its nodes' machines and what is odd
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from gpudoctor.fleet.documents import Document
from gpudoctor.machine import Clock, Distribution, Fact, Interface, Machine, MigDevice, ProcessLimits, known
from tests.support.fleet_nodes import KINDS, rdma, with_noise

Change = Callable[[Machine], Machine]


@dataclass
class Fleet:
    machines: dict[str, Machine]
    odd: set[tuple[str, str]] = field(default_factory=set)
    """Names of nodes, and the facts in which they differ."""

    def documents(self) -> Iterator[Document]:
        for name, machine in self.machines.items():
            yield Document(name, machine=machine)

    def with_noise(self, source: random.Random) -> Fleet:
        """The same fleet, as nodes really are that are equal."""
        return Fleet({name: with_noise(machine, source) for name, machine in self.machines.items()}, self.odd)


# --- what differs ----------------------------------------------------------------------------------


def _with_fact(machine: Machine, part: str, name: str, value: object) -> Machine:
    record = getattr(machine, part)
    return replace(machine, **{part: replace(record, **{name: known(value, "made up")})})


def _fewer_gpus(machine: Machine) -> Machine:
    return replace(machine, gpus=machine.gpus[:-1])


def _driver(machine: Machine) -> Machine:
    module = machine.nvidia.module
    assert module.value
    return replace(
        machine,
        nvidia=replace(machine.nvidia, module=replace(module, value=replace(module.value, version="575.57.08"))),
    )


def _mig(machine: Machine) -> Machine:
    return _nvml(machine, mig=True, mig_devices=(MigDevice("1g.10gb"),) * 7)


def _nvml(machine: Machine, **changed: object) -> Machine:
    """With another first GPU."""
    first, *rest = machine.gpus
    assert first.nvml
    return replace(machine, gpus=(replace(first, nvml=replace(first.nvml, **changed)), *rest))


def _board(machine: Machine, **changed: object) -> Machine:
    """With another board of the first GPU."""
    first, *rest = machine.gpus
    board = replace(first.board, **changed)
    if first.nvml:
        return _nvml(machine, board=board)
    return replace(machine, gpus=(replace(first, amd_board=board), *rest))


def _interface(machine: Machine, **changed: object) -> Machine:
    """With another eth0."""
    first, *rest = machine.network.interfaces.value or ()
    interfaces: tuple[Interface, ...] = (replace(first, **changed), *rest)
    return _with_fact(machine, "network", "interfaces", interfaces)


def _port(machine: Machine, number: int, **port: str) -> Machine:
    """With another port of one device."""
    devices = list(machine.network.rdma.value or ())
    devices[number] = rdma(number, **port)
    return _with_fact(machine, "network", "rdma", tuple(devices))


def _variable(machine: Machine) -> Machine:
    return replace(machine, variables={**machine.variables, "NCCL_P2P_DISABLE": "1"})


def _nccl(machine: Machine, version: str = "2.21.5") -> Machine:
    return with_package(machine, "nvidia-nccl-cu12", version)


def with_package(machine: Machine, name: str, version: str) -> Machine:
    """The machine with a package of that version in its environment."""
    environment = machine.environment.value
    assert environment
    listed: Fact[tuple[Distribution, ...]] = environment.distributions
    others = tuple(one for one in listed.value or () if one.name != name)
    package = Distribution(name, version, installer="pip")
    changed = replace(environment, distributions=known((*others, package), listed.source or "made up"))
    return replace(machine, environment=replace(machine.environment, value=changed))


ODDITIES: dict[str, Change] = {
    "gpus": _fewer_gpus,
    "kernel": lambda machine: _with_fact(machine, "system", "kernel", "6.8.0-99-generic"),
    "kernel.options": lambda machine: _with_fact(machine, "system", "kernel_options", ("iommu=pt", "pci=realloc")),
    "shm": lambda machine: _with_fact(machine, "system", "shm", 64 << 20),
    "variable.NCCL_P2P_DISABLE": _variable,
    "board.vbios": lambda machine: _board(machine, vbios="96.00.74.00.11"),
    "board.pcie_width": lambda machine: _board(machine, pcie_width=8),
    "board.power_limit": lambda machine: _board(machine, power_limit=300),
    "board.throttled": lambda machine: _board(machine, throttled=("hardware-thermal",)),
    "iommu": lambda machine: _with_fact(machine, "system", "iommu", "DMA-FQ"),
    "acs": lambda machine: _with_fact(machine, "system", "acs", ("0000:00:01.0",)),
    "clock.source": lambda machine: _with_fact(machine, "system", "clock_source", "hpet"),
    "clock.synchronized": lambda machine: _with_fact(machine, "system", "clock", Clock("chronyd", False, 500)),
    "hugepages": lambda machine: _with_fact(machine, "system", "hugepages", 2 << 30),
    "limits.open_files": lambda machine: _with_fact(machine, "system", "limits", ProcessLimits(open_files=9)),
    "mtu.eth0": lambda machine: _interface(machine, mtu=1500),
}
FOR_NVIDIA: dict[str, Change] = {
    "nvidia.driver": _driver,
    "mig": _mig,
    "ecc": lambda machine: _nvml(machine, remap_pending=True),
    "package.nvidia-nccl-cu12": _nccl,
}
FOR_RDMA: dict[str, Change] = {
    "rdma.ports": lambda machine: _port(machine, 0, state="DOWN", physical="Polling"),
    "rdma.rates": lambda machine: _port(machine, 1, rate="200 Gb/sec (2X NDR)"),
}
"""Where there are RDMA devices."""


def fleet(source: random.Random, size: int) -> Fleet:
    """A fleet of one or two kinds of nodes with one to five oddities, each on less than a quarter of a kind."""
    kinds = source.sample(sorted(KINDS), source.choice((1, 1, 2)))
    made = Fleet({})
    shares = [size] if len(kinds) == 1 else [size // 2 + size % 2, size // 2]
    for kind, share in zip(kinds, shares, strict=True):
        machine = _ready(KINDS[kind])
        made.machines.update({f"{kind}-{number:03d}": machine for number in range(share)})
    for _ in range(source.randint(1, 5)):
        kind = source.choice(kinds)
        names = [name for name in made.machines if name.startswith(kind)]
        vendor = KINDS[kind].gpus[0].vendor
        rows = {**ODDITIES, **(FOR_NVIDIA if vendor == "nvidia" else {})}
        rows.update(FOR_RDMA if KINDS[kind].network.rdma.value else {})
        fact = source.choice([name for name in rows if not any(odd == name for _, odd in made.odd)])
        for name in source.sample(names, source.randint(1, max(1, len(names) // 8))):
            made.machines[name] = rows[fact](made.machines[name])
            made.odd.add((name, fact))
    return made


def _ready(machine: Machine) -> Machine:
    """With the package that an oddity changes."""
    return _nccl(machine, "2.27.5") if machine.gpus[0].vendor == "nvidia" else machine
