"""Compared facts of boards, RDMA, limits and clock: rows of the table of compared facts.

The PCIe generation of the moment is not here: an idle GPU lowers it. Neither is what a GPU throttles for because it
works hard (its power limit).
"""

from __future__ import annotations

from gpudoctor.fleet.readers import (
    DRIVER,
    RUNTIME,
    ComparedFact,
    counted,
    fact_text,
    in_all,
    limit,
    of_boards,
    of_ports,
    on_gpus,
    own_interfaces,
    value_text,
)
from gpudoctor.machine import Clock, Gpu, Machine, ProcessLimits, RdmaPort
from gpudoctor.plain_text import number_of, size

_HEAT = ("hardware", "hardware-thermal", "power-brake", "thermal")
_SECOND = 1_000_000


# --- boards ------------------------------------------------------------------------------------------

_links = on_gpus(lambda gpu: None if gpu.board.links_up is None else f"{gpu.board.links_up} up")
_persistence = on_gpus(
    lambda gpu: None if gpu.board.persistence is None else "on" if gpu.board.persistence else "off"
)


def _slowdown(gpu: Gpu) -> str | None:
    """Why the GPU is slowed down, as far as heat and power supply are the reason."""
    reasons = gpu.board.throttled
    return None if reasons is None else ", ".join(reason for reason in reasons if reason in _HEAT) or "no"


# --- RDMA --------------------------------------------------------------------------------------------

_devices = fact_text("network.rdma", lambda found: counted(one.board or one.driver or "RDMA device" for one in found))
"""How many of which board: what they lack, a missing device lacks only here."""


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
    able = {device.dma_buf for device in (cuda.devices if cuda else None) or ()} - {None}
    return None if not able else "yes" if able == {True} else "no" if able == {False} else "some GPUs"


_acs = value_text(
    "system.acs", lambda bridges: f"redirects in {number_of(len(bridges), 'bridge')}" if bridges else "off"
)

# --- limits and clock --------------------------------------------------------------------------------

_open_files = value_text("system.limits", lambda it: "unlimited" if it.open_files is None else str(it.open_files))
_hugepages = value_text("system.hugepages", lambda pages: size(pages) if pages else "none")
_synchronized = value_text("system.clock", lambda it: {None: None, True: "yes", False: "no"}[it.synchronized])
_time_service = value_text("system.clock", lambda it: it.service or None)


def _locked_memory(limits: ProcessLimits) -> str:
    return "unlimited" if limits.locked_memory is None or limits.locks_any_memory else size(limits.locked_memory)


def _clock_error(clock: Clock) -> str | None:
    """The figure itself differs on every node."""
    return None if clock.error is None else f"{'more' if clock.error > _SECOND else 'less'} than 1 s"


def _settings(machine: Machine) -> str | None:
    """What NCCL's own files set; None if nobody looked for them."""
    if machine.network.rdma.undecided:
        return None
    files = machine.network.settings
    return "; ".join(f"{name}={value}" for file in files for name, value in sorted(file.values.items())) or "none"


def _nccl(machine: Machine) -> str | None:
    """The NCCL that torch loads, if a variable brings another one than the wheel's; that is compared as a package."""
    libraries = machine.examined.libraries
    if libraries.complete.undecided:
        return None
    found = next((one for one in libraries.found if one.name.startswith("libnccl.")), None)
    return f"{found.version or 'another one'} ({found.via})" if found and found.wins is not False else "torch's own"


PLATFORM_FACTS: tuple[ComparedFact, ...] = (
    ComparedFact("board.vbios", "VBIOS", of_boards("vbios"), "model"),
    ComparedFact("board.inforom", "InfoROM", of_boards("inforom"), "model"),
    ComparedFact("board.gsp_firmware", "GSP firmware", of_boards("gsp_firmware"), "model"),
    ComparedFact("board.nvlinks", "NVLink and xGMI links", _links, "model", layers=DRIVER),
    ComparedFact("board.pcie_width", "PCIe lanes", of_boards("pcie_width"), "model"),
    ComparedFact("board.pcie_generation", "PCIe generation at most", of_boards("pcie_generation_max"), "model"),
    ComparedFact("board.power_limit", "power limit in watts", of_boards("power_limit"), "model"),
    ComparedFact("board.throttled", "throttled by heat or power supply", on_gpus(_slowdown), "model"),
    ComparedFact("board.persistence", "persistence mode", _persistence, "model", "note"),
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
        "gpudirect.modules", "GPUDirect modules", fact_text("nvidia.gpudirect_modules"), "model", layers=RUNTIME
    ),
    ComparedFact("gpudirect.dma_buf", "dma-buf of GPU memory", _dma_buf, "model", layers=RUNTIME),
    ComparedFact("iommu", "IOMMU", fact_text("system.iommu"), "model"),
    ComparedFact("acs", "ACS of PCI bridges", _acs, "model", layers=DRIVER),
    ComparedFact(
        "limits.locked_memory",
        "limit of locked memory",
        value_text("system.limits", _locked_memory),
        layers=("access",),
    ),
    ComparedFact("limits.open_files", "limit of open files", _open_files, severity="note"),
    ComparedFact("limits.memory", "memory of the control group", limit("memory", size), "model", "note"),
    ComparedFact("limits.cpus", "processors that a process may use", limit("cpus"), "model", "note"),
    ComparedFact("hugepages", "huge pages", _hugepages, "model"),
    ComparedFact("clock.source", "clock source", fact_text("system.clock_source"), "model"),
    ComparedFact("clock.synchronized", "clock synchronized", _synchronized),
    ComparedFact("clock.error", "error of the clock", value_text("system.clock", _clock_error)),
    ComparedFact("clock.service", "time service", _time_service, severity="note"),
    ComparedFact("nccl", "NCCL that torch loads", _nccl, layers=RUNTIME),
    ComparedFact("nccl.files", "NCCL's own files", _settings, layers=RUNTIME),
)
