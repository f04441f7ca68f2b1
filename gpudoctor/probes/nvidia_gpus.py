"""NVIDIA's GPUs: from PCI, /proc/driver/nvidia, NVML or nvidia-smi; WSL2 and Jetson have no PCI id."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.machine import Fact, Gpu, NvidiaStack, NvmlDevice, ProcGpu, System, known, unknown
from gpudoctor.probes.pci import NVIDIA, PciDevice

if TYPE_CHECKING:
    from gpudoctor.matrix.gpu_models import Identity
    from gpudoctor.matrix.questions import Matrix

_BOUND = ("nvidia", "nvidia-current", "nvgpu")


def nvidia_gpus(
    pci: Fact[tuple[PciDevice, ...]], stack: NvidiaStack, system: System, matrix: Matrix
) -> tuple[Gpu, ...]:
    """One Gpu per GPU, by PCI address, with its place in NVML's order."""
    from_driver, on_board = _from_driver(stack), None
    devices = {device.bdf: device for device in pci.value or () if device.vendor == NVIDIA and device.is_gpu}
    proc = {gpu.bdf: gpu for gpu in stack.proc_details if not gpu.excluded}
    if system.jetson.known:
        # A Tegra's own GPU has no address, or one that is on no bus.
        on_board = next((gpu for gpu in from_driver if gpu.bdf not in devices and gpu.bdf not in proc), None)
        from_driver = tuple(gpu for gpu in from_driver if gpu != on_board)
    from_driver = _with_addresses(from_driver, devices, proc)
    listed = {device.bdf: device for device in from_driver if device.bdf}
    addresses = sorted({*devices, *proc, *listed})
    gpus = [
        _gpu(address, devices.get(address), proc.get(address), listed.get(address), stack, matrix)
        for address in addresses
    ]
    gpus += [_gpu(None, None, None, device, stack, matrix) for device in _without_address(from_driver, gpus)]
    soc = _soc(system, stack, matrix, on_board)
    if soc is not None and not any(gpu.arch.value == soc.arch.value for gpu in gpus):
        gpus.append(soc)
    if not gpus:
        gpus = _nameless_gpus(stack, system)
    return _in_order(_with_single_node(gpus, stack))


def _from_driver(stack: NvidiaStack) -> tuple[NvmlDevice, ...]:
    """The GPUs that NVML lists, else those of libcuda, else those of nvidia-smi, with capabilities from the others.
    libcuda leaves out what CUDA_VISIBLE_DEVICES hides, so it never removes a GPU."""
    lists = [api.value.devices for api in (stack.nvml, stack.smi, stack.cuda) if api.value and api.value.devices]
    if not lists:
        return ()
    capabilities = {device.bdf: device.capability for devices in lists for device in devices if device.capability}
    return tuple(
        replace(device, capability=device.capability or capabilities.get(device.bdf)) if device.bdf else device
        for device in lists[0]
    )


def _with_addresses(
    from_driver: tuple[NvmlDevice, ...], devices: dict[str, PciDevice], proc: dict[str, ProcGpu]
) -> tuple[NvmlDevice, ...]:
    """`nvidia-smi -L` names no addresses: if it lists all GPUs of the driver, they are in bus order."""
    taken = [bdf for bdf in sorted({*devices, *proc}) if bdf in proc or devices[bdf].driver.value in (None, *_BOUND)]
    if len(taken) != len(from_driver) or any(device.bdf for device in from_driver):
        return from_driver
    return tuple(replace(device, bdf=bdf) for device, bdf in zip(from_driver, taken, strict=True))


def _without_address(from_driver: tuple[NvmlDevice, ...], gpus: list[Gpu]) -> tuple[NvmlDevice, ...]:
    """GPUs that were listed without an address (nvidia-smi -L): new ones only if nothing else showed any."""
    nameless = tuple(device for device in from_driver if not device.bdf and (device.name or device.lost))
    return () if gpus else nameless


def _gpu(
    address: str | None,
    device: PciDevice | None,
    proc: ProcGpu | None,
    nvml: NvmlDevice | None,
    stack: NvidiaStack,
    matrix: Matrix,
) -> Gpu:
    pci_id = (device.pci_id or None) if device else (nvml.pci_id if nvml else None)
    name = (nvml.name if nvml else "") or (proc.model if proc else "")
    identity = _identity(matrix, pci_id, device.revision if device else None, name)
    arch = _arch(nvml, identity, pci_id, stack)
    return Gpu(
        vendor="nvidia",
        name=_name(name, identity, pci_id, address),
        arch=arch,
        bdf=address or None,
        pci_id=pci_id,
        revision=device.revision if device else None,
        chip=identity.chip if identity else None,
        family=_family(matrix, identity, arch),
        integrated=bool(identity and identity.integrated),
        datacenter=bool(identity and identity.datacenter),
        driver=_driver(device, proc, nvml, stack),
        nodes=(f"/dev/nvidia{proc.minor}",) if proc and proc.minor is not None else (),
        memory=_memory(nvml),
        unified_memory=bool(identity and identity.integrated),
        boot_vga=bool(device and device.boot_vga),
        suspended=bool(device and device.runtime_status == "suspended"),
        off_bus=bool(device and device.dead),
        uuid=(nvml.uuid if nvml else "") or (proc.uuid if proc else ""),
        nvml=nvml,
        source=device.source if device else _source(stack, nvml),
    )


def _identity(matrix: Matrix, pci_id: str | None, revision: str | None, name: str) -> Identity | None:
    found = matrix.gpus.gpu_by_pci(pci_id, revision) if pci_id else None
    return found or identity_by_name(matrix, name)


def identity_by_name(matrix: Matrix, name: str) -> Identity | None:
    """The one GPU that a driver's name stands for. Tables cut long names off with "...". Without the word that was
    cut, the rest must name one architecture."""
    found = matrix.gpus.gpus_by_name(re.sub(r"\s*\S*\.\.\.$", "", name))
    return found[0] if len(found) == 1 else None


def _arch(nvml: NvmlDevice | None, identity: Identity | None, pci_id: str | None, stack: NvidiaStack) -> Fact[str]:
    if nvml is not None and nvml.capability:
        return known("sm_" + nvml.capability.replace(".", ""), _source(stack, nvml))
    if identity is not None:
        return known(identity.arch, f"{identity.pci_id if pci_id else identity.name} in the compatibility matrix")
    if pci_id:
        return unknown(f"the compatibility matrix has no row for {pci_id}", "compat_matrix.yaml")
    return unknown("neither a PCI id nor the driver tells which GPU this is")


def _family(matrix: Matrix, identity: Identity | None, arch: Fact[str]) -> str | None:
    if identity is not None:
        return identity.family
    row = matrix.gpus.capability(arch.value)
    return row.architecture if row else None


def _name(name: str, identity: Identity | None, pci_id: str | None, address: str | None) -> str:
    if name and not name.endswith("...") and name != "Graphics Device":
        return name if name.startswith(("NVIDIA", "Tesla", "Quadro", "GRID", "GeForce")) else f"NVIDIA {name}"
    if identity is not None:
        return identity.name
    return name or f"NVIDIA {pci_id or 'GPU at ' + (address or 'an unknown address')}"


def _driver(device: PciDevice | None, proc: ProcGpu | None, nvml: NvmlDevice | None, stack: NvidiaStack) -> Fact[str]:
    if device is not None and device.driver.known:
        return device.driver
    if proc is not None:
        return known("nvidia", stack.proc_gpus.source)
    if nvml is not None and not nvml.lost:
        return known("nvidia", _source(stack, nvml))
    return device.driver if device is not None else unknown("not on a bus that can be read")


def _memory(nvml: NvmlDevice | None) -> Fact[int]:
    if nvml is None:
        return unknown("the driver was not asked")
    return known(nvml.memory, "the driver") if nvml.memory else unknown("the driver does not tell", "the driver")


def _source(stack: NvidiaStack, nvml: NvmlDevice | None) -> str:
    for api in (stack.nvml, stack.smi, stack.cuda):
        if nvml is not None and api.value and api.value.devices:
            return api.source
    return stack.proc_gpus.source


# --- no PCI ------------------------------------------------------------------------------------------


def _soc(system: System, stack: NvidiaStack, matrix: Matrix, nvml: NvmlDevice | None) -> Gpu | None:
    """The graphics part of a Tegra board, from its device tree, else from the release of Jetson Linux."""
    jetson = system.jetson.value
    if jetson is None:
        return None
    identity = matrix.gpus.gpu_by_device_tree(jetson.compatible) if jetson.compatible else None
    identity = identity or identity_by_name(matrix, jetson.model)
    if not jetson.compatible and not jetson.model:
        identity = matrix.gpus.gpu_by_l4t(jetson.l4t)  # a container sees little more than the release
    source = system.jetson.source
    arch = _arch(nvml, identity, None, stack)
    if identity is None and arch.undecided:
        arch = unknown(f"{jetson.model or 'this board'} is not in the compatibility matrix", source)
    loaded = stack.modules_loaded
    taken = next((name for name in ("nvgpu", "nvidia") if name in (loaded.value or ())), None)
    return Gpu(
        vendor="nvidia",
        name=identity.name if identity else jetson.model or "NVIDIA Jetson",
        arch=arch,
        chip=identity.chip if identity else None,
        family=_family(matrix, identity, arch),
        integrated=True,
        driver=known(taken, loaded.source) if taken else unknown("the loaded modules do not tell", loaded.source),
        memory=_memory(nvml),
        unified_memory=True,
        nvml=nvml,
        source=source,
    )


def _nameless_gpus(stack: NvidiaStack, system: System) -> list[Gpu]:
    """GPUs that only a node or a library reveals: WSL2 before the driver is asked, sandboxes without sysfs."""
    nodes = [node.path for node in stack.nodes.value or () if node.opened != "ENOENT"]
    why = "no PCI id can be seen here; only the driver can tell (level driver)"
    if system.wsl.known:
        if "/dev/dxg" not in nodes or not stack.userland.known:
            return []
        named: list[tuple[str, str, Fact[str]]] = [
            ("NVIDIA GPU of the Windows host", "/dev/dxg", known("dxgkrnl", "/dev/dxg"))
        ]
    else:
        gpus = [path for path in nodes if re.fullmatch(r"/dev/nvidia\d+", path)]
        named = [(f"NVIDIA GPU ({path})", path, known("nvidia", path)) for path in gpus]
    return [
        Gpu(vendor="nvidia", name=name, arch=unknown(why), driver=driver, nodes=(path,), source=path)
        for name, path, driver in named
    ]


def _with_single_node(gpus: list[Gpu], stack: NvidiaStack) -> list[Gpu]:
    """If there is one GPU and one GPU node, the node is that GPU's."""
    nodes = [
        n.path for n in stack.nodes.value or () if re.fullmatch(r"/dev/nvidia\d+", n.path) and n.opened != "ENOENT"
    ]
    if len(gpus) != 1 or len(nodes) != 1 or gpus[0].nodes:
        return gpus
    return [replace(gpus[0], nodes=(nodes[0],))]


def _in_order(gpus: list[Gpu]) -> tuple[Gpu, ...]:
    """Number the GPUs as NVML does: in its own order, else its kernel module's GPUs by address."""
    if any(gpu.nvml is not None for gpu in gpus):
        return tuple(replace(gpu, index=gpu.nvml.index) if gpu.nvml is not None else gpu for gpu in gpus)
    bound = [gpu.driver.value in (*_BOUND, "dxgkrnl") for gpu in gpus]
    counted = bound if any(bound) else [not gpu.reserved for gpu in gpus]
    places = count()
    return tuple(
        replace(gpu, index=next(places) if counts else None) for gpu, counts in zip(gpus, counted, strict=True)
    )
