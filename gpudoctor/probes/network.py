"""Network interfaces, and the files in which NCCL looks for its variables."""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import Fact, Interface, Network, RdmaDevice, SettingsFile, absent, known, unknown
from gpudoctor.probes.variables import is_relevant

INFINIBAND = "/sys/class/infiniband"
INTERFACES = "/sys/class/net"
ASKING = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""Variables that name interfaces."""
_MOST_INTERFACES = 512
_MOST_READ = 64
_OF_CONTAINERS = r"(veth|cali|lxc|tap|vnet|nodelocaldns|kube-)"
"""Interfaces that containers have on the host; their MTU says nothing about the machine."""
_SYSTEM_FILES = ("/etc/nccl.conf", "/etc/rccl.conf")
_FILE_LIMIT = 64 << 10


def probe_network(host: Host) -> Network:
    """RDMA devices and NCCL's files; the interfaces only where one of them, or a variable, makes them matter."""
    settings = _settings(host)
    asked = {**{name: value for file in reversed(settings) for name, value in file.values.items()}, **host.environ}
    rdma = _rdma(host, asked.get("NCCL_IB_GID_INDEX", ""))
    wanted = bool(rdma.value) or any(asked.get(name) for name in ASKING)
    return Network(
        rdma=rdma,
        interfaces=read_interfaces(host) if wanted else unknown("not read: nothing asks for them", INTERFACES),
        settings=settings,
    )


def _rdma(host: Host, gid_index: str) -> Fact[tuple[RdmaDevice, ...]]:
    names = host.names(INFINIBAND)
    if names.value is None:
        return names.unanswered()
    if not names.value:
        return absent(INFINIBAND, "there is no RDMA device")
    from gpudoctor.probes.rdma import read_devices  # few machines have any

    return known(read_devices(host, INFINIBAND, names.value, gid_index), INFINIBAND)


def read_interfaces(host: Host) -> Fact[tuple[Interface, ...]]:
    """The interfaces of this network namespace, with MTU and state."""
    names = host.names(INTERFACES)
    if names.value is None:
        return names.unanswered()
    found: list[Interface] = []
    read = 0
    for name in names.value[:_MOST_INTERFACES]:
        own = not re.match(_OF_CONTAINERS, name) and read < _MOST_READ and name != "bonding_masters"
        read += own
        if name != "bonding_masters":
            found.append(_interface(host, name) if own else Interface(name=name))
    return known(tuple(found), INTERFACES) if found else unknown("no interface is listed", INTERFACES)


def _interface(host: Host, name: str) -> Interface:
    mtu = host.text(f"{INTERFACES}/{name}/mtu", 64).value or ""
    state = host.text(f"{INTERFACES}/{name}/operstate", 64).value or ""
    return Interface(
        name=name,
        mtu=int(mtu) if re.fullmatch("[0-9]{1,7}", mtu) else None,
        state=state if re.fullmatch("[a-z]{1,20}", state) else "",
    )


# --- NCCL's files ------------------------------------------------------------------------------------


def _settings(host: Host) -> tuple[SettingsFile, ...]:
    """NCCL_CONF_FILE, else the user's own file, then the system's; RCCL has files of its own."""
    home = host.environ.get("HOME", "")
    own = [f"{home}/.nccl.conf", f"{home}/.rccl.conf"] if home.startswith("/") else []
    named = host.environ.get("NCCL_CONF_FILE", "")
    texts = (host.text(path, _FILE_LIMIT) for path in ([named] if named else own) + list(_SYSTEM_FILES))
    return tuple(SettingsFile(text.source, _values(text.value)) for text in texts if text.value)


def _values(text: str) -> dict[str, str]:
    """NAME=value on each line. As NCCL reads it, a line that begins with # is a comment, and blanks count."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#") and is_relevant(name):
            values.setdefault(name, value[:1023])
    return values
