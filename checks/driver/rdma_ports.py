"""RDMA ports that are down, or unlike the others of their kind (GPD150, GPD151)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Severity, by_hand
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import group_by
from gpudoctor.situation.network import (
    SelectedPort,
    active_ports,
    all_ports,
    read_filter,
    selected_ports,
    uses_own_transport,
    value_of,
)

_ENOUGH = 4
"""The fewest ports of one kind among which the odd one can be told."""


def _names(ports: Sequence[SelectedPort]) -> str:
    return ", ".join(one.name for one in ports)


def _evidence(situation: Situation, ports: Sequence[SelectedPort]) -> tuple[Evidence, ...]:
    source = situation.machine.network.rdma.source
    return tuple(
        Evidence(one.name, f"{one.port.state} {one.port.physical} {one.port.rate}".strip(), source)
        for one in ports[:4]
    )


@check("GPD150", "rdma-port-down", "driver")
def rdma_port_down(situation: Situation) -> Verdicts:
    """An RDMA port is not active, although it is meant to be used.

    ## Why it matters
    NCCL leaves out ports that are not active, without a message: a run is slower, or does not reach the other nodes.

    ## How it is judged
    A port that NCCL_IB_HCA names in full is not active: a warning. An InfiniBand port has a link and waits for a
    subnet manager (state INIT): a warning if no InfiniBand port is active, else a note. One port is down while three
    or more of the same board are all active: a note. Other ports that are down are taken to be spare, as many
    machines have them.

    ## Fix safety
    Looking at ports changes nothing. A cable or transceiver may have to be replaced.
    """
    if not situation.usable or not uses_own_transport(situation):
        return
    ports = [one for one in all_ports(situation.machine) if one.port.state]
    waiting = [one for one in ports if _waits(one)]
    named = [one for one in _named(situation) if not one.port.active and one not in waiting]
    if waiting:
        yield _without_manager(situation, waiting, ports)
    if named and any(one.port.active for one in ports):  # where none is, GPD361 says it
        hcas = value_of(situation.machine, "NCCL_IB_HCA")
        yield _down(situation, "warning", named, f"NCCL_IB_HCA={hcas} names it", hcas)
    for odd, siblings in _odd_ones(ports):
        if odd not in named and odd not in waiting:
            yield _down(situation, "note", [odd], f"the other {siblings} of its kind are active", "active")


def _waits(one: SelectedPort) -> bool:
    port = one.port
    return port.link_layer == "InfiniBand" and port.state in ("INIT", "ARMED") and port.physical in ("LinkUp", "")


def _named(situation: Situation) -> tuple[SelectedPort, ...]:
    """The ports whose names stand in NCCL_IB_HCA in full."""
    hcas = read_filter(value_of(situation.machine, "NCCL_IB_HCA"))
    if hcas.excludes:
        return ()
    names = {name for name, _ in hcas.entries}
    return tuple(one for one in selected_ports(situation.machine) if one.device.name in names)


def _odd_ones(ports: list[SelectedPort]) -> Iterator[tuple[SelectedPort, int]]:
    """Each port that alone is down among the ports of its board, with the number of the others."""
    kinds = group_by(ports, lambda one: (one.device.driver, one.device.board, one.port.link_layer))
    for (_, board, _), group in kinds.items():
        down = [one for one in group if not one.port.active]
        if board and len(group) >= _ENOUGH and len(down) == 1 and down[0].port.physical != "Disabled":
            yield down[0], len(group) - 1


def _without_manager(situation: Situation, waiting: list[SelectedPort], ports: list[SelectedPort]) -> Finding:
    alone = not any(one.port.active and one.port.link_layer == "InfiniBand" for one in ports)
    severity: Severity = "warning" if alone else "note"
    text = (
        "Check with `sudo sminfo` that a subnet manager runs in the fabric, on a switch or as the service opensm on "
        "one node, and start it if there is none."
    )
    return Finding(
        severity=severity,
        message=f"InfiniBand port {_names(waiting)} has a link, but no subnet manager has configured it. It cannot "
        "be used.",
        saw=f"state {waiting[0].port.state}",
        want="state ACTIVE",
        subject=f"RDMA port {_names(waiting)}",
        confidence="likely",
        evidence=_evidence(situation, waiting),
        fixes=(by_hand("Start a subnet manager", text, "root"),),
        refs=("NVIDIA NCCL user guide, Subnet Manager",),
    )


def _down(situation: Situation, severity: Severity, ports: list[SelectedPort], why: str, wanted: str) -> Finding:
    text = (
        "Look at the port with `ibstat` or `rdma link`, and for RoCE at its interface (`ip link`, `ethtool`). Check "
        "the cable, the transceiver and the switch's port; compare with a node on which it is active."
    )
    states = sorted(
        {f"{one.port.state} ({one.port.physical})" if one.port.physical else one.port.state for one in ports}
    )
    return Finding(
        severity=severity,
        message=f"RDMA port {_names(ports)} is not active, although {why}: NCCL leaves it out without a message.",
        saw=", ".join(states),
        want=wanted if wanted == "active" else f"active: {wanted}",
        subject=f"RDMA port {_names(ports)}",
        confidence="likely" if severity == "warning" else "possible",
        evidence=_evidence(situation, ports),
        fixes=(by_hand("Bring up the port", text, "root"),),
        refs=("NVIDIA NCCL user guide, NIC-level diagnostics",),
    )


@check("GPD151", "rdma-mtu-differs", "driver")
def rdma_mtu_differs(situation: Situation) -> Verdicts:
    """RoCE ports of one kind have interfaces with different MTUs.

    ## Why it matters
    The MTU of the interface limits the size of RDMA packets. A port with a smaller one is slower than the others, and
    every collective waits for it; where the other end has a larger one, connections may fail.

    ## How it is judged
    The check compares active RoCE ports of the same speed. It is a warning if they all are ports that NCCL_IB_HCA
    lists, and a note if one of four or more of the same board differs. InfiniBand is not judged, nor are ports whose
    interface cannot be seen, as in most containers.

    ## Fix safety
    Setting an MTU interrupts the interface for a moment; the switches must allow the larger one.
    """
    machine = situation.machine
    mtus = {one.name: one.mtu for one in machine.network.interfaces.value or () if one.mtu}
    if not situation.usable or not mtus or not uses_own_transport(situation):
        return
    hcas = read_filter(value_of(machine, "NCCL_IB_HCA"))
    listed = bool(hcas.entries) and not hcas.excludes
    ports = [one for one in active_ports(machine) if one.port.link_layer == "Ethernet" and one.port.interface in mtus]
    kinds = group_by(ports, lambda one: (one.port.rate, *(() if listed else (one.device.driver, one.device.board))))
    for group in kinds.values():
        counts = Counter(mtus[one.port.interface] for one in group)
        (usual, most), *others = counts.most_common()
        single = len(group) >= _ENOUGH and most == len(group) - 1
        if others and (listed or single):
            yield _other_mtu(situation, "warning" if listed else "note", group, mtus, usual)


def _other_mtu(
    situation: Situation, severity: Severity, group: tuple[SelectedPort, ...], mtus: dict[str, int], usual: int
) -> Finding:
    shown = {one.port.interface: mtus[one.port.interface] for one in group}
    odd = [one for one in group if mtus[one.port.interface] != usual]
    listed = enumeration([f"{name} {mtu}" for name, mtu in shown.items()], 8)
    text = (
        "Set one MTU for all of them, in the configuration of the network (netplan, NetworkManager), and with "
        f"`ip link set dev {odd[0].port.interface} mtu {usual}` for now; the switches must allow it."
    )
    return Finding(
        severity=severity,
        message=f"The interface of RDMA port {_names(odd)} has another MTU than the other RoCE ports: {listed}.",
        saw=listed,
        want="one MTU on all of them",
        subject=f"RDMA port {_names(odd)}",
        confidence="likely" if severity == "warning" else "possible",
        evidence=(Evidence("network.interfaces", listed, situation.machine.network.interfaces.source),),
        fixes=(by_hand("Set one MTU", text, "root"),),
        refs=("NVIDIA MLNX_OFED documentation, RoCE",),
    )
