"""Limits that keep RDMA from working (GPD260)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, Severity, by_hand
from gpudoctor.plain_text import enumeration, size
from gpudoctor.situation import Situation
from gpudoctor.situation.network import (
    SelectedPort,
    active_ports,
    all_ports,
    port_evidence,
    setting,
    uses_own_transport,
)

_LARGEST_DEFAULT = 64 << 20
"""The kernel's default is 64 KiB or 8 MiB; systemd gives 64 MiB to what it starts. Larger ones were chosen."""
_ASKING = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_NET_GDR_LEVEL", "NCCL_IB_TC")


@check("GPD260", "rdma-memlock-small", "access")
def rdma_memlock_small(situation: Situation) -> Verdicts:
    """The limit of locked memory is too small for RDMA.

    ## Why it matters
    RDMA devices use memory that the kernel may not move. NCCL locks some for every connection: with a small limit,
    runs on several nodes fail with "Call to ibv_create_qp failed" or "ibv_reg_mr failed: Cannot allocate memory".

    ## How it is judged
    An RDMA port that programs can open here is active, and the limit (`ulimit -l`) is 64 MiB or less: the defaults of
    kernel and systemd. It is a warning for InfiniBand, for AWS's EFA, and where a variable of NCCL asks for RDMA. It
    is a note for RoCE alone, which many network adapters offer unasked. A process with CAP_IPC_LOCK has no limit.

    ## Fix safety
    Removes a limit; what a program locks cannot be swapped out.
    """
    limits = situation.machine.system.limits
    if not situation.usable or limits.value is None or limits.value.locked_memory is None:
        return
    if limits.value.locks_any_memory or limits.value.locked_memory > _LARGEST_DEFAULT:
        return
    ports = _usable_ports(situation)
    if not ports:
        return
    asked = next((found for name in _ASKING if (found := setting(situation.machine, name))), None)
    meant = asked is not None or any(one.port.link_layer == "InfiniBand" or one.device.is_efa for one in ports)
    severity: Severity = "warning" if meant else "note"
    locked = size(limits.value.locked_memory)
    names = enumeration([one.name for one in ports], 4)
    yield Finding(
        severity=severity,
        message=f"Programs may lock {locked} of memory here (`ulimit -l`), which is too little for RDMA ({names}). "
        'Runs on several nodes fail with "Cannot allocate memory".',
        saw=locked,
        want="unlimited",
        subject="limit of locked memory",
        confidence="likely",
        evidence=(
            Evidence("system.limits.locked_memory", locked, limits.source),
            *port_evidence(situation, ports[0], asked),
        ),
        fixes=(_without_limit(situation),),
        refs=("NVIDIA NCCL user guide, troubleshooting of InfiniBand", "NVIDIA/nccl-tests#206"),
    )


def _usable_ports(situation: Situation) -> tuple[SelectedPort, ...]:
    """Active ports that a run on several nodes would use."""
    machine = situation.machine
    ports = tuple(one for one in all_ports(machine) if one.device.is_efa and one.port.active)
    if not ports and uses_own_transport(situation):
        ports = active_ports(machine)
    return tuple(one for one in ports if one.device.node)


def _without_limit(situation: Situation) -> Fix:
    if situation.in_container:
        text = (
            "Start the container with `--ulimit memlock=-1`. In Kubernetes, give it the capability IPC_LOCK "
            "(securityContext.capabilities.add), or set LimitMEMLOCK=infinity for the container engine's service."
        )
        return by_hand("Start the container without that limit", text)
    text = (
        "Put `* soft memlock unlimited` and `* hard memlock unlimited` into /etc/security/limits.d/rdma.conf, and "
        "log in again. What a service starts needs LimitMEMLOCK=infinity in its unit: slurmd, for example."
    )
    return by_hand("Remove the limit of locked memory", text, "root")
