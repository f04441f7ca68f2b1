"""Variables of NCCL that name interfaces and RDMA devices (GPD360 to GPD362)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Confidence, Evidence, Finding, Fix, Manual, by_hand, unset
from gpudoctor.machine import Interface
from gpudoctor.matrix.versions import figures
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation
from gpudoctor.situation.network import (
    NameFilter,
    NcclVariable,
    SelectedPort,
    active_ports,
    all_ports,
    read_filter,
    selected_ports,
    setting,
    uses_own_transport,
    working,
)

_DOWN = ("down", "notpresent", "lowerlayerdown", "dormant")
_MOST_NAMED = 6
_PICKS_THE_GID = (2, 21)
"""From this NCCL on, it finds the GID index itself."""
_PICKS_WITH_TORCH = {"nvidia": (2, 5), "amd": (2, 7)}
"""From this torch on, wheels bring such an NCCL or RCCL."""


def _removed(found: NcclVariable, why: str) -> Fix:
    """Take a variable away where it is set."""
    if found.in_file:
        text = f"Remove the line {found.name}={found.value} from {found.source}."
        return Fix(f"Remove {found.name} from {found.source}", (Manual(text, why=why, risk="root"),))
    return unset(found.name, why)


def _listed(names: list[str]) -> str:
    return enumeration(names, _MOST_NAMED) or "none"


# --- interfaces --------------------------------------------------------------------------------------


@check("GPD360", "nccl-interface-missing", "runtime")
def nccl_interface_missing(situation: Situation) -> Verdicts:
    """A variable names network interfaces, and none of them is here.

    ## Why it matters
    NCCL and Gloo use only the interfaces that the variable leaves. If none is left, NCCL ends with "no socket
    interface found" as soon as a run starts, on one node, too. The names of interfaces often differ between nodes.

    ## How it is judged
    The check reads NCCL_SOCKET_IFNAME as NCCL does: a list of prefixes, "=" in front for exact names, "^" to
    exclude, blanks included; GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME name interfaces exactly. NCCL's files, such as
    /etc/nccl.conf, count where the environment sets nothing. It is a warning, because an interface may appear later,
    and a run on one GPU needs none. Interfaces that are all down count as missing.

    ## Fix safety
    Without the variable, NCCL chooses an interface itself. Where several networks exist, name the right one.
    """
    interfaces = situation.machine.network.interfaces.value
    if interfaces is None or not situation.usable:
        return
    for found, names in _named_interfaces(situation):
        if any(names.selects(one.name) and one.state not in _DOWN for one in interfaces):
            continue
        yield _no_interface(found, names, interfaces)


def _named_interfaces(situation: Situation) -> Iterator[tuple[NcclVariable, NameFilter]]:
    nccl = setting(situation.machine, "NCCL_SOCKET_IFNAME")
    if nccl is not None and len(nccl.value) > 1:  # NCCL ignores a single character
        yield nccl, read_filter(nccl.value)
    for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        value = situation.variable(name)
        if value:
            entries = tuple((entry, None) for entry in value.split(",") if entry)
            yield NcclVariable(name, value, "environment"), NameFilter(excludes=False, exact=True, entries=entries)


def _no_interface(found: NcclVariable, names: NameFilter, interfaces: tuple[Interface, ...]) -> Finding:
    down = [one.name for one in interfaces if names.selects(one.name)]
    here = [one.name for one in interfaces if one.state not in _DOWN and one.name != "lo"]
    library = {"N": "NCCL", "G": "Gloo", "T": "TensorPipe"}[found.name[0]]
    where = f" (in {found.source})" if found.in_file else ""
    what = f"leaves only interfaces that are down: {_listed(down)}" if down else "matches no network interface here"
    blank = any(entry != entry.strip() for entry, _ in names.entries)
    return Finding(
        severity="warning",
        message=f"{found.name}={found.value}{where} {what}: runs with several processes will not start."
        + (f" {library} takes the blank in it as part of a name." if blank else ""),
        saw=f"{found.name}={found.value}",
        want=f"interfaces that are here: {_listed(here)}",
        subject=found.name,
        evidence=(
            Evidence(found.name, found.value, found.source),
            Evidence("network.interfaces", _listed([one.name for one in interfaces]), "/sys/class/net"),
        ),
        fixes=(_removed(found, f"{library} then chooses an interface itself"),),
        refs=("NVIDIA NCCL user guide, NCCL_SOCKET_IFNAME",) if library == "NCCL" else (),
    )


# --- RDMA devices ------------------------------------------------------------------------------------


@check("GPD361", "nccl-rdma-device-missing", "runtime")
def nccl_rdma_device_missing(situation: Situation) -> Verdicts:
    """NCCL_IB_HCA selects no RDMA port that NCCL could use.

    ## Why it matters
    NCCL then says nothing and sends everything over TCP, which is many times slower; or a run with other nodes fails
    to connect.

    ## How it is judged
    The check reads NCCL_IB_HCA as NCCL does: a list of prefixes with ports ("mlx5_0:1"), "=" in front for exact
    names, "^" to exclude. It is a warning if no active InfiniBand or RoCE port is left. It is a note if only some of
    the listed names are missing, because one list may serve several kinds of nodes, and if a container has no RDMA
    device. A list that only excludes is a choice. Where NCCL leaves the network to a plugin, as with AWS's EFA, the
    variable is not judged.

    ## Fix safety
    Without the variable, NCCL uses every active port, including those of a storage network.
    """
    machine, found = situation.machine, setting(situation.machine, "NCCL_IB_HCA")
    rdma = machine.network.rdma
    if found is None or not found.value or not situation.usable or not uses_own_transport(situation):
        return
    hcas = read_filter(found.value)
    if hcas.excludes or not hcas.entries or rdma.undecided:
        return
    if not working(selected_ports(machine)):
        yield _no_port(situation, found)
        return
    missing = [
        f"{name}:{port}" if port is not None else name
        for name, port in hcas.entries
        if not any(hcas.matches((name, port), one.device.name, one.port.number) for one in all_ports(machine))
    ]
    if missing:
        yield Finding(
            severity="note",
            message=f"{found.name} lists {_listed(missing)}, which this machine does not have; NCCL uses the others.",
            saw=f"{found.name}={found.value}",
            want="RDMA devices that are here",
            subject=found.name,
            evidence=_port_evidence(situation, found),
        )


def _no_port(situation: Situation, found: NcclVariable) -> Finding:
    machine = situation.machine
    chosen = selected_ports(machine)
    usable = [one.name for one in working(all_ports(machine))]
    rdma = machine.network.rdma
    where = f" (in {found.source})" if found.in_file else ""
    closed = [device.name for device in rdma.value or () if device.node is False]
    if chosen:
        what = f"selects only ports that are not active: {_listed([one.name for one in chosen])}"
    elif not rdma.value:
        what = "names RDMA devices, and there are none here"
    elif closed and not all_ports(machine):
        what = "names RDMA devices, and this container was given none of their nodes (/dev/infiniband)"
    else:
        what = f"matches no RDMA device or port here ({_listed([device.name for device in rdma.value])})"
    absent = not all_ports(machine) and situation.in_container
    confidence: Confidence = "likely" if chosen or not rdma.value else "certain"
    fixes = (_removed(found, "NCCL then uses every active port"),) if usable else (_reachable(situation, found),)
    return Finding(
        severity="note" if absent else "warning",
        message=f"{found.name}={found.value}{where} {what}. NCCL falls back to TCP without an error.",
        saw=f"{found.name}={found.value}",
        want=f"an active port: {_listed(usable)}" if usable else "an active RDMA port",
        subject=found.name,
        confidence=confidence,
        evidence=_port_evidence(situation, found),
        fixes=fixes,
        refs=("NVIDIA NCCL user guide, NCCL_IB_HCA",),
    )


def _reachable(situation: Situation, found: NcclVariable) -> Fix:
    if situation.in_container:
        text = "Start the container with the RDMA devices of the host (`--device /dev/infiniband`), or unset " + (
            f"{found.name} if NCCL should use TCP."
        )
        return by_hand("Give the container the RDMA devices", text)
    text = (
        "Look at the ports with `ibstat` (or `rdma link`), and bring them up: load the driver of the adapter "
        f"(`mlx5_ib` for ConnectX), check cable and switch. Unset {found.name} if NCCL should use TCP."
    )
    return by_hand("Bring up the RDMA ports", text, "root")


def _port_evidence(situation: Situation, found: NcclVariable) -> tuple[Evidence, ...]:
    rdma = situation.machine.network.rdma
    states = [f"{one.name} {one.port.state or 'unknown'}" for one in all_ports(situation.machine)]
    seen = Evidence("network.rdma", _listed(states), rdma.source) if states else Evidence.of("network.rdma", rdma)
    return Evidence(found.name, found.value, found.source), seen


# --- GIDs --------------------------------------------------------------------------------------------


@check("GPD362", "nccl-gid-index-wrong", "runtime")
def nccl_gid_index_wrong(situation: Situation) -> Verdicts:
    """NCCL_IB_GID_INDEX names no GID of RoCE v2 on the ports that NCCL uses.

    ## Why it matters
    On RoCE, the index selects address and protocol of every connection. With a wrong one, runs with other nodes fail
    with "Call to ibv_modify_qp failed" or time out. The index of a GID changes with the addresses of an interface, so
    that it differs between nodes and after a reboot.

    ## How it is judged
    The check looks the index up in the GID tables of the active RoCE ports that NCCL_IB_HCA leaves. It is a warning
    if a port has no GID there, or one of RoCE v1 although the port has v2, unless NCCL_IB_ROCE_VERSION_NUM asks for
    v1. Ports whose table cannot be read, and InfiniBand, are not judged.

    ## Fix safety
    From NCCL 2.21 on, NCCL finds the index itself; older ones use index 0 without the variable.
    """
    machine, found = situation.machine, setting(situation.machine, "NCCL_IB_GID_INDEX")
    if found is None or not situation.usable or not uses_own_transport(situation):
        return
    if not re.fullmatch(r"\s*\+?\d{1,3}", found.value):
        return
    index = int(found.value)
    ports = tuple(one for one in active_ports(machine) if one.port.roce_v1 or one.port.roce_v2)
    gone = [one for one in ports if index not in (*one.port.roce_v1, *one.port.roce_v2)]
    old = [one for one in ports if index in one.port.roce_v1 and one.port.roce_v2]
    if setting(machine, "NCCL_IB_ROCE_VERSION_NUM") is not None:
        old = []
    if gone:
        problem = f"is no GID of {_listed([one.name for one in gone])}"
    elif old:
        problem = f"is a GID of RoCE v1 on {_listed([one.name for one in old])}, although there are ones of v2"
    else:
        return
    yield Finding(
        severity="warning",
        message=f"{found.name}={found.value}: index {index} {problem}. NCCL cannot connect to other nodes with it."
        if gone
        else f"{found.name}={found.value}: index {index} {problem}. RoCE v1 does not pass routers, and other nodes "
        "use v2.",
        saw=f"{found.name}={found.value}",
        want="not set" if _finds_the_gid(situation) else f"a GID of RoCE v2: {_indexes(ports)}",
        subject=found.name,
        confidence="likely" if situation.in_container else "certain",
        evidence=(Evidence(found.name, found.value, found.source), *(_gids(one) for one in (gone or old)[:2])),
        fixes=(_right_gid(situation, found),),
        refs=("NVIDIA NCCL user guide, troubleshooting of RoCE",),
    )


def _gids(one: SelectedPort) -> Evidence:
    value = f"RoCE v1: {_numbers(one.port.roce_v1)}; RoCE v2: {_numbers(one.port.roce_v2)}"
    return Evidence(
        f"GIDs of {one.name}",
        value,
        f"/sys/class/infiniband/{one.device.name}/ports/{one.port.number}/gid_attrs/types",
    )


def _numbers(indexes: tuple[int, ...]) -> str:
    return ", ".join(map(str, indexes)) or "none"


def _indexes(ports: tuple[SelectedPort, ...]) -> str:
    """The indexes that are RoCE v2 on every port."""
    shared = set.intersection(*(set(one.port.roce_v2) for one in ports))
    return _numbers(tuple(sorted(shared))) if shared else "they differ between the ports"


def _right_gid(situation: Situation, found: NcclVariable) -> Fix:
    if _finds_the_gid(situation):
        return _removed(found, "NCCL 2.21 and newer find the index for each port")
    text = (
        f"Find the index with `show_gids` (a row with v2 and the address of the RDMA network), and set {found.name} "
        "to it on every node; or use a torch with NCCL 2.21 or newer, which finds it itself."
    )
    return by_hand(f"Set {found.name} to a GID of RoCE v2", text)


def _finds_the_gid(situation: Situation) -> bool:
    """Whether the NCCL or RCCL of the environment finds the index itself; where there is no wheel, torch's version
    decides."""
    torch = situation.torch
    versions = [one.version for one in situation.machine.packages if re.fullmatch(r"nvidia-nccl(-cu\d+)?", one.name)]
    if versions:
        return all(figures(version)[:2] >= _PICKS_THE_GID for version in versions)
    return torch is None or figures(torch.version)[:2] >= _PICKS_WITH_TORCH[situation.built_for or "nvidia"]
