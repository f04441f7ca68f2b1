"""Made-up fleets: many equal nodes, and a few that differ in facts which are known beforehand.

fleet(random, size)      a Fleet with its nodes' machines and what is odd
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from gpudoctor.fleet.documents import Document
from gpudoctor.machine import Distribution, Fact, Machine, NvmlDevice, known
from gpudoctor.testing import amd_gpu, amd_machine, nvidia_gpu, nvidia_machine

Change = Callable[[Machine], Machine]


@dataclass
class Fleet:
    machines: dict[str, Machine]
    odd: set[tuple[str, str]] = field(default_factory=set)
    """Names of nodes, and the facts in which they differ."""

    def documents(self) -> Iterator[Document]:
        for name, machine in self.machines.items():
            yield Document(name, machine=machine)


def _nvidia(name: str, arch: str, count: int) -> Machine:
    gpus = tuple(
        replace(
            nvidia_gpu(name, arch, index=index),
            bdf=f"0000:{16 + index:02x}:00.0",
            nvml=NvmlDevice(index=index, name=name, mig=False, ecc_uncorrectable=0, remap_pending=False),
        )
        for index in range(count)
    )
    return nvidia_machine(*gpus)


def _amd(name: str, arch: str, count: int) -> Machine:
    gpus = (amd_gpu(name, arch, index=index) for index in range(count))
    return amd_machine(
        *(replace(gpu, bdf=f"0000:{16 + at:02x}:00.0", kfd_node=at + 1) for at, gpu in enumerate(gpus))
    )


KINDS: dict[str, Machine] = {
    "h100": _nvidia("NVIDIA H100 80GB HBM3", "sm_90", 8),
    "a100": _nvidia("NVIDIA A100-SXM4-80GB", "sm_80", 8),
    "l40": _nvidia("NVIDIA L40S", "sm_89", 4),
    "mi300": _amd("AMD Instinct MI300X", "gfx942", 8),
}


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
    first, *rest = machine.gpus
    assert first.nvml
    return replace(machine, gpus=(replace(first, nvml=replace(first.nvml, mig=True)), *rest))


def _ecc(machine: Machine) -> Machine:
    first, *rest = machine.gpus
    assert first.nvml
    return replace(machine, gpus=(replace(first, nvml=replace(first.nvml, remap_pending=True)), *rest))


def _variable(machine: Machine) -> Machine:
    return replace(machine, variables={**machine.variables, "NCCL_P2P_DISABLE": "1"})


def _nccl(machine: Machine, version: str = "2.21.5") -> Machine:
    environment = machine.environment.value
    assert environment
    listed: Fact[tuple[Distribution, ...]] = environment.distributions
    others = tuple(one for one in listed.value or () if one.name != "nvidia-nccl-cu12")
    package = Distribution("nvidia-nccl-cu12", version, installer="pip")
    changed = replace(environment, distributions=known((*others, package), listed.source or "made up"))
    return replace(machine, environment=replace(machine.environment, value=changed))


ODDITIES: dict[str, Change] = {
    "gpus": _fewer_gpus,
    "kernel": lambda machine: _with_fact(machine, "system", "kernel", "6.8.0-99-generic"),
    "kernel.options": lambda machine: _with_fact(machine, "system", "kernel_options", ("iommu=pt", "pci=realloc")),
    "shm": lambda machine: _with_fact(machine, "system", "shm", 64 << 20),
    "variable.NCCL_P2P_DISABLE": _variable,
}
FOR_NVIDIA: dict[str, Change] = {
    "nvidia.driver": _driver,
    "mig": _mig,
    "ecc": _ecc,
    "package.nvidia-nccl-cu12": _nccl,
}


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
        fact = source.choice([name for name in rows if not any(odd == name for _, odd in made.odd)])
        for name in source.sample(names, source.randint(1, max(1, len(names) // 8))):
            made.machines[name] = rows[fact](made.machines[name])
            made.odd.add((name, fact))
    return made


def _ready(machine: Machine) -> Machine:
    """With the facts that an oddity changes."""
    machine = _with_fact(machine, "system", "kernel_options", ("iommu=pt",))
    machine = _with_fact(machine, "system", "shm", 64 << 30)
    return _nccl(machine, "2.27.5") if machine.gpus[0].vendor == "nvidia" else machine
