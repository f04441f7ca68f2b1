"""Compared facts of boards, RDMA, limits and clock: rows of the table of compared facts.

The PCIe generation of the moment is not here: an idle GPU lowers it. Neither is what a GPU throttles for because it
works hard (its power limit).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpudoctor.fleet.readers import (
    DRIVER,
    RUNTIME,
    ComparedFact,
    in_all,
    limit,
    of_boards,
    of_ports,
    on_gpus,
    own_interfaces,
    size,
    stated,
    value_of,
)
from gpudoctor.machine import Gpu, Machine, RdmaPort
from gpudoctor.plain_text import number_of

_HEAT = ("hardware", "hardware-thermal", "power-brake", "thermal")
_SECOND = 1_000_000


def _counted(values: Iterable[str]) -> str:
    """ "8 x MT_0000000838"; the most frequent first."""
    rows = sorted(Counter(values).items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{count} x {value}" for value, count in rows) or "none"


# --- boards ------------------------------------------------------------------------------------------


def _links(gpu: Gpu) -> str | None:
    return None if gpu.board.links_up is None else f"{gpu.board.links_up} up"


def _throttled(gpu: Gpu) -> str | None:
    """Why the GPU is slowed down, as far as heat and power supply are the reason."""
    reasons = gpu.board.throttled
    return None if reasons is None else ", ".join(reason for reason in reasons if reason in _HEAT) or "no"


def _persistence(gpu: Gpu) -> str | None:
    return None if gpu.board.persistence is None else "on" if gpu.board.persistence else "off"


# --- RDMA --------------------------------------------------------------------------------------------


def _devices(machine: Machine) -> str | None:
    """How many of which board: what they lack, a missing device lacks only here."""
    rdma = machine.network.rdma
    if rdma.value is None:
        return value_of(rdma)
    return _counted(one.board or one.driver or "RDMA device" for one in rdma.value)


def _device_firmware(machine: Machine) -> str | None:
    devices = machine.network.rdma.value or ()
    return in_all((f"{one.firmware} ({one.board or one.driver})" for one in devices), "device")


def _gids(port: RdmaPort) -> str | None:
    if not port.active or not (port.roce_v1 or port.roce_v2):
        return None
    return f"RoCE v2 at {' '.join(map(str, port.roce_v2)) or 'none'}"


def _port_mtus(machine: Machine) -> str | None:
    mtus = {one.name: one.mtu for one in machine.network.interfaces.value or ()}
    ports = (port for device in machine.network.rdma.value or () for port in device.ports if port.active)
    return in_all((mtu for port in ports if (mtu := mtus.get(port.interface))), "port")


def _interfaces(machine: Machine) -> str | None:
    return " ".join(sorted(one.name for one in own_interfaces(machine))) or None


def _dma_buf(machine: Machine) -> str | None:
    cuda = machine.nvidia.cuda.value
    told = {device.dma_buf for device in (cuda.devices if cuda else None) or ()} - {None}
    return None if not told else "yes" if told == {True} else "no" if told == {False} else "some GPUs"


def _acs(machine: Machine) -> str | None:
    bridges = machine.system.acs.value
    if not bridges:
        return None if bridges is None else "off"
    return f"redirects in {number_of(len(bridges), 'bridge')}"


# --- limits and clock --------------------------------------------------------------------------------


def _locked_memory(machine: Machine) -> str | None:
    limits = machine.system.limits.value
    if limits is None:
        return None
    return "unlimited" if limits.locked_memory is None or limits.locks_any_memory else size(limits.locked_memory)


def _open_files(machine: Machine) -> str | None:
    limits = machine.system.limits.value
    return None if limits is None else "unlimited" if limits.open_files is None else str(limits.open_files)


def _hugepages(machine: Machine) -> str | None:
    pages = machine.system.hugepages.value
    return None if pages is None else size(pages) if pages else "none"


def _synchronized(machine: Machine) -> str | None:
    clock = machine.system.clock.value
    return None if clock is None or clock.synchronized is None else "yes" if clock.synchronized else "no"


def _clock_error(machine: Machine) -> str | None:
    """The figure itself differs on every node."""
    clock = machine.system.clock.value
    if clock is None or clock.error is None:
        return None
    return "more than 1 s" if clock.error > _SECOND else "less than 1 s"


def _settings(machine: Machine) -> str | None:
    """What NCCL's own files set; None if nobody looked for them."""
    if machine.network.rdma.undecided:
        return None
    files = machine.network.settings
    return "; ".join(f"{name}={value}" for file in files for name, value in sorted(file.values.items())) or "none"


def _nccl(machine: Machine) -> str | None:
    """The NCCL that torch loads, if a variable brings another one than the wheel's; that is compared as a package."""
    environment = machine.environment.value
    if environment is None or environment.libraries.complete.undecided:
        return None
    found = next((one for one in environment.libraries.found if one.name.startswith("libnccl.")), None)
    return f"{found.version or 'another one'} ({found.via})" if found and found.wins is not False else "torch's own"


PLATFORM_FACTS: tuple[ComparedFact, ...] = (
    ComparedFact("board.vbios", "VBIOS", of_boards("vbios"), "model"),
    ComparedFact("board.inforom", "InfoROM", of_boards("inforom"), "model"),
    ComparedFact("board.gsp_firmware", "GSP firmware", of_boards("gsp_firmware"), "model"),
    ComparedFact("board.nvlinks", "NVLink and xGMI links", on_gpus(_links), "model", layers=DRIVER),
    ComparedFact("board.pcie_width", "PCIe lanes", of_boards("pcie_width"), "model"),
    ComparedFact("board.pcie_generation", "PCIe generation at most", of_boards("pcie_generation_max"), "model"),
    ComparedFact("board.power_limit", "power limit in watts", of_boards("power_limit"), "model"),
    ComparedFact("board.throttled", "throttled by heat or power supply", on_gpus(_throttled), "model"),
    ComparedFact("board.persistence", "persistence mode", on_gpus(_persistence), "model", "note"),
    ComparedFact("rdma.devices", "RDMA devices", _devices, "model"),
    ComparedFact("rdma.firmware", "firmware of RDMA devices", _device_firmware, "model"),
    ComparedFact("rdma.ports", "RDMA ports", of_ports(lambda port: port.state), "model", layers=DRIVER),
    ComparedFact(
        "rdma.rates", "rates of active RDMA ports", of_ports(lambda port: port.rate if port.active else None), "model"
    ),
    ComparedFact("rdma.gids", "GIDs of active RoCE ports", of_ports(_gids), "model", layers=RUNTIME),
    ComparedFact("rdma.mtu", "MTU of active RDMA ports", _port_mtus, "model", layers=DRIVER),
    ComparedFact("interfaces", "network interfaces", _interfaces, "model", "note"),
    ComparedFact(
        "gpudirect.modules", "GPUDirect modules", stated("nvidia.gpudirect_modules"), "model", layers=RUNTIME
    ),
    ComparedFact("gpudirect.dma_buf", "dma-buf of GPU memory", _dma_buf, "model", layers=RUNTIME),
    ComparedFact("iommu", "IOMMU", stated("system.iommu"), "model"),
    ComparedFact("acs", "ACS of PCI bridges", _acs, "model", layers=DRIVER),
    ComparedFact("limits.locked_memory", "limit of locked memory", _locked_memory, layers=("access",)),
    ComparedFact("limits.open_files", "limit of open files", _open_files, severity="note"),
    ComparedFact("limits.memory", "memory of the control group", limit("memory", size), "model", "note"),
    ComparedFact("limits.cpus", "processors that a process may use", limit("cpus"), "model", "note"),
    ComparedFact("hugepages", "huge pages", _hugepages, "model"),
    ComparedFact("clock.source", "clock source", stated("system.clock_source"), "model"),
    ComparedFact("clock.synchronized", "clock synchronized", _synchronized),
    ComparedFact("clock.error", "error of the clock", _clock_error),
    ComparedFact(
        "clock.service",
        "time service",
        lambda m: (m.system.clock.value.service if m.system.clock.value else "") or None,
        severity="note",
    ),
    ComparedFact("nccl", "NCCL that torch loads", _nccl, layers=RUNTIME),
    ComparedFact("nccl.files", "NCCL's own files", _settings, layers=RUNTIME),
)
