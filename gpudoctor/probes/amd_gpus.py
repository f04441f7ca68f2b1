"""AMD's GPUs: KFD's GPU nodes joined with the PCI devices; under WSL2 the agents of the HSA runtime."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.machine import AmdStack, Fact, Gpu, HsaAgent, KfdNode, SmiGpu, System, known, unknown
from gpudoctor.probes.pci import AMD, PciDevice

if TYPE_CHECKING:
    from gpudoctor.matrix.gpu_models import Identity
    from gpudoctor.matrix.questions import Matrix


def amd_gpus(pci: Fact[tuple[PciDevice, ...]], stack: AmdStack, system: System, matrix: Matrix) -> tuple[Gpu, ...]:
    """KFD's GPU nodes in their order, then the GPUs that KFD does not have. HIP counts the nodes in this order; a
    partitioned GPU has several."""
    nodes = [node for node in stack.topology.value or () if node.simd_count > 0]
    devices = {device.bdf: device for device in pci.value or () if device.vendor == AMD and device.is_gpu}
    gpus: list[Gpu] = []
    joined: set[str] = set()
    for place, node in enumerate(nodes):
        device = _device_of(node, devices)
        if device is not None:
            joined.add(device.bdf)
        gpus.append(_gpu(device, node, place, stack, matrix))
    for bdf, device in sorted(devices.items()):
        if bdf not in joined and _counts(device, matrix):
            gpus.append(_gpu(device, None, None, stack, matrix))
    return tuple(gpus) or _agents(stack, system, matrix) or _listed(stack, matrix)


def _device_of(node: KfdNode, devices: dict[str, PciDevice]) -> PciDevice | None:
    """The PCI device of a node; partitions of a GPU have function numbers that are not on the bus."""
    if node.bdf is None:
        return next(iter(devices.values())) if len(devices) == 1 and node.pci_id is None else None
    return devices.get(node.bdf) or devices.get(f"{node.bdf[:-1]}0")


def _counts(device: PciDevice, matrix: Matrix) -> bool:
    """Whether a device is a GPU for computing; old ATI chips, also in servers' management controllers, are not.

    A GPU that the matrix does not know counts if amdgpu has it, or if it is too new for both: ids from 7300 up
    and those of APUs below 2000. All others without a row are older than amdgpu.
    """
    if matrix.gpus.gpu_by_pci(device.pci_id, device.revision) is not None or device.driver.value == "amdgpu":
        return True
    if not device.device:
        return True
    number = int(device.device, 16)
    return device.driver.value != "radeon" and (0x7300 <= number < 0x9000 or 0x1000 <= number < 0x2000)


def _gpu(device: PciDevice | None, node: KfdNode | None, place: int | None, stack: AmdStack, matrix: Matrix) -> Gpu:
    pci_id = (device.pci_id or None) if device else (node.pci_id if node else None)
    revision = device.revision if device else None
    identity = matrix.gpus.gpu_by_pci(pci_id, revision) if pci_id else None
    bdf = (device.bdf or None) if device else (node.bdf if node else None)
    arch = _arch(node, identity, pci_id, stack)
    name = identity.name if identity else f"AMD {arch.value or 'Radeon'}" + (f" ({pci_id})" if pci_id else "")
    integrated = identity.integrated if identity else bool(arch.value and _is_apu(matrix, arch.value))
    return Gpu(
        vendor="amd",
        name=name,
        arch=arch,
        bdf=bdf,
        pci_id=pci_id,
        revision=revision,
        chip=identity.chip if identity else None,
        family=_family(matrix, identity, arch),
        integrated=integrated,
        datacenter=bool(identity and identity.datacenter),
        driver=_driver(device, node, stack),
        index=place,
        nodes=_nodes(device, node),
        memory=_memory(device, node, stack),
        firmware=device.firmware if device else (),
        unified_memory=integrated or "MI300A" in name,
        boot_vga=bool(device and device.boot_vga),
        suspended=bool(device and device.runtime_status == "suspended"),
        off_bus=bool(device and device.dead),
        kfd_node=node.node if node else None,
        uuid=_uuid(node),
        source=device.source if device else stack.topology.source,
    )


def _uuid(node: KfdNode | None) -> str:
    """The GPU's name for ROCR_VISIBLE_DEVICES: KFD's unique id in hex ("GPU-ab54a98ceb1f0ad2")."""
    number = node.unique_id if node else ""
    return f"GPU-{int(number):016x}" if re.fullmatch("[0-9]{1,20}", number) and int(number) else ""


def _arch(node: KfdNode | None, identity: Identity | None, pci_id: str | None, stack: AmdStack) -> Fact[str]:
    if node is not None and node.gfx:
        return known(node.gfx, f"{stack.topology.source}/{node.node}/properties")
    if identity is not None:
        return known(identity.arch, f"{pci_id} in the compatibility matrix")
    if pci_id:
        return unknown(f"the compatibility matrix has no row for {pci_id}", "compat_matrix.yaml")
    return unknown("neither KFD nor the bus tells which GPU this is")


def _family(matrix: Matrix, identity: Identity | None, arch: Fact[str]) -> str | None:
    target = matrix.gpus.target(arch.value)
    return target.family if target else (identity.family if identity else None)


def _is_apu(matrix: Matrix, gfx: str) -> bool:
    target = matrix.gpus.target(gfx)
    return bool(target and target.kind == "apu")


def _driver(device: PciDevice | None, node: KfdNode | None, stack: AmdStack) -> Fact[str]:
    if device is not None and not device.driver.undecided:
        return device.driver
    if node is not None:
        return known("amdgpu", stack.topology.source)
    return device.driver if device is not None else unknown("not on a bus that can be read")


def _nodes(device: PciDevice | None, node: KfdNode | None) -> tuple[str, ...]:
    if node is not None and node.render_minor:
        return (f"/dev/dri/renderD{node.render_minor}",)
    return device.render_nodes if device is not None else ()


def _memory(device: PciDevice | None, node: KfdNode | None, stack: AmdStack) -> Fact[int]:
    if node is not None and node.memory:
        return known(node.memory, stack.topology.source)
    if device is not None and device.memory:
        return known(device.memory, f"{device.source}/mem_info_vram_total")
    return unknown("neither KFD nor amdgpu tells")


def _agents(stack: AmdStack, system: System, matrix: Matrix) -> tuple[Gpu, ...]:
    """GPUs that only the HSA runtime shows: WSL2, and recordings with only rocminfo's text."""
    agents = [agent for agent in (stack.hsa.value.agents if stack.hsa.value else ()) if agent.kind == "gpu"]
    return tuple(_of_agent(agent, place, stack, system, matrix) for place, agent in enumerate(agents))


def _of_agent(agent: HsaAgent, place: int, stack: AmdStack, system: System, matrix: Matrix) -> Gpu:
    identity = matrix.gpus.gpu_by_pci(agent.pci_id) if agent.pci_id else None
    isa = agent.isa[0].partition(":")[0] if agent.isa else agent.name
    # The runtime's answer follows HSA_OVERRIDE_GFX_VERSION; the PCI id does not.
    gfx = identity.arch if identity else (isa if isa.startswith("gfx") else None)
    generic = agent.product in ("", "AMD Radeon Graphics", "Vega 20")
    name = agent.product if not generic else (identity.name if identity else f"AMD {isa}")
    integrated = bool(identity and identity.integrated)
    return Gpu(
        vendor="amd",
        name=name,
        arch=known(gfx, stack.hsa.source) if gfx else unknown("the runtime does not tell", stack.hsa.source),
        bdf=agent.bdf,
        pci_id=agent.pci_id,
        chip=identity.chip if identity else None,
        family=identity.family if identity else None,
        integrated=integrated,
        datacenter=bool(identity and identity.datacenter),
        driver=known("dxgkrnl" if system.wsl.known else "amdgpu", stack.hsa.source),
        index=place,
        memory=known(agent.memory, stack.hsa.source) if agent.memory else unknown("the runtime does not tell"),
        unified_memory=integrated,
        source=stack.hsa.source,
    )


def _listed(stack: AmdStack, matrix: Matrix) -> tuple[Gpu, ...]:
    """GPUs that only rocm-smi or amd-smi shows: recordings with only their output. The tools count in another order
    than HIP, whose order is nearly always that of the bus."""
    listed = sorted(stack.smi.value or (), key=lambda smi: smi.bdf or "")
    gpus = (_of_smi(smi, stack, matrix) for smi in listed)
    return tuple({gpu.bdf or place: gpu for place, gpu in enumerate(gpus)}.values())


def _of_smi(smi: SmiGpu, stack: AmdStack, matrix: Matrix) -> Gpu:
    identity = matrix.gpus.gpu_by_pci(smi.pci_id, smi.revision) if smi.pci_id else None
    if identity is None and smi.product:
        named = matrix.gpus.gpus_by_name(smi.product)
        identity = named[0] if len(named) == 1 else None
    gfx = smi.gfx or (identity.arch if identity else None)
    integrated = identity.integrated if identity else bool(gfx and _is_apu(matrix, gfx))
    return Gpu(
        vendor="amd",
        name=identity.name if identity else smi.product or f"AMD {gfx or smi.pci_id or 'GPU'}",
        arch=known(gfx, stack.smi.source) if gfx else unknown("the tool does not tell", stack.smi.source),
        bdf=smi.bdf,
        pci_id=smi.pci_id,
        revision=smi.revision,
        chip=identity.chip if identity else None,
        family=identity.family if identity else None,
        integrated=integrated,
        datacenter=bool(identity and identity.datacenter),
        driver=known("amdgpu", stack.smi.source),
        memory=known(smi.memory, stack.smi.source) if smi.memory else unknown("the tool does not tell"),
        unified_memory=integrated,
        source=stack.smi.source,
    )
