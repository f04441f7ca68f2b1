"""GPUDirect RDMA: whether RDMA devices can reach the memory of NVIDIA GPUs (GPD363)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, LoadModule, Severity, by_hand
from gpudoctor.situation import Situation
from gpudoctor.situation.network import (
    NcclVariable,
    active_ports,
    port_evidence,
    setting,
    uses_own_transport,
    value_of,
)

_NEVER = ("", "LOC", "0")
_PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")


@check("GPD363", "gpudirect-unavailable", "runtime")
def gpudirect_unavailable(situation: Situation) -> Verdicts:
    """RDMA devices cannot reach the memory of the GPUs.

    ## Why it matters
    NCCL then copies everything that goes to other nodes through the memory of the host: it works, with a part of the
    bandwidth. It says so only with NCCL_DEBUG=INFO.

    ## How it is judged
    There is an active InfiniBand or RoCE port that NCCL would use. nvidia_peermem is not loaded, and dma-buf cannot
    take its place: libcuda says so (level driver), the kernel module is not the open one, or NCCL_DMABUF_ENABLE is 0.
    It is a warning where a variable asks for GPUDirect (NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ), and otherwise a note,
    for data-centre GPUs only.

    ## Fix safety
    Loads a kernel module that comes with the driver. RDMA adapters of NVIDIA need it, and their own driver must know
    peer memory.
    """
    gpus = situation.usable_of("nvidia")
    modules = situation.machine.nvidia.gpudirect_modules
    if not gpus or modules.value is None or any(name in modules.value for name in _PEER_MEMORY):
        return
    if not uses_own_transport(situation) or not active_ports(situation.machine) or situation.in_wsl:
        return
    if _dma_buf(situation) is not False:
        return
    asked = _asked(situation)
    if asked is None and not all(gpu.datacenter for gpu in gpus):
        return
    severity: Severity = "warning" if asked else "note"
    ports = active_ports(situation.machine)
    said = f"{asked.name}={asked.value} asks for GPUDirect RDMA, but" if asked else "GPUDirect RDMA is not available:"
    yield Finding(
        severity=severity,
        message=f"{said} nvidia_peermem is not loaded, and dma-buf cannot take its place. NCCL copies what it sends "
        "to other nodes through the memory of the host.",
        saw="nvidia_peermem not loaded",
        want="nvidia_peermem, or dma-buf with the open kernel module",
        subject="GPUDirect RDMA",
        confidence="likely",
        evidence=(
            Evidence.of("nvidia.gpudirect_modules", modules),
            *port_evidence(situation, ports[0], asked),
        ),
        fixes=(_load(situation),),
        refs=("NVIDIA NCCL user guide, GPU Direct", "NVIDIA GPUDirect RDMA documentation"),
    )


def _load(situation: Situation) -> Fix:
    if situation.in_container:
        text = (
            "Load the module on the host, as root: `modprobe nvidia-peermem`. NVIDIA's GPU operator does it with "
            "`driver.rdma.enabled=true`."
        )
        return by_hand("Load nvidia_peermem on the host", text, "root")
    return Fix("Load nvidia_peermem", (LoadModule("nvidia_peermem", why="it gives RDMA devices the GPUs' memory"),))


def _asked(situation: Situation) -> NcclVariable | None:
    """The variable that asks for GPUDirect."""
    level = setting(situation.machine, "NCCL_NET_GDR_LEVEL")
    if level is not None and level.value not in _NEVER:
        return level
    read = setting(situation.machine, "NCCL_NET_GDR_READ")
    return read if read is not None and read.value == "1" else None


def _dma_buf(situation: Situation) -> bool | None:
    """Whether dma-buf can serve instead; None: unknown."""
    machine = situation.machine
    if value_of(machine, "NCCL_DMABUF_ENABLE") == "0":
        return False
    told = [d.dma_buf for d in (machine.nvidia.cuda.value.devices if machine.nvidia.cuda.value else None) or ()]
    if told and None not in told:
        return all(told)
    module = machine.nvidia.module.value
    return False if module is not None and module.flavour == "proprietary" else None
