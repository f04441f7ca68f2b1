"""GPUs that the kernel log names, for where the PCI bus cannot be listed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpudoctor.host import Host
from gpudoctor.machine import Fact, known
from gpudoctor.probes.kernel_log import kernel_messages
from gpudoctor.probes.log_lines import Entry
from gpudoctor.probes.pci import AMD, NVIDIA, PciDevice
from gpudoctor.probes.pci_address import normal_address

_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_ID = r"(?:0x)?(10de|1002):(?:0x)?([0-9a-fA-F]{4})\b"
_CLASS = r"((?:0300|0302|0380|1200)[0-9a-f]{2})"
_ON_THE_BUS = rf"pci ({_ADDRESS}): \[(10de|1002):([0-9a-f]{{4}})\] type \w+ class 0x{_CLASS}"
"""The kernel's own line for each function of the bus, with its class: GPUs and accelerators only."""
_NAMED = {
    NVIDIA: rf"(?:NVRM: (?:.*?\b)?(?:Xid \()?(?:GPU (?:at )?)?(?:PCI:)?|\bnvidia )({_ADDRESS})",
    AMD: rf"\bamdgpu ({_ADDRESS})",
}
"""The drivers' lines about a GPU."""
_IDENTIFIED = (
    rf"\(PCI ID: {_ID}",  # NVRM refuses a GPU
    rf"kfd kfd: (?:amdgpu: )?(?:skipped|added) device {_ID}",
    rf"initializing kernel modesetting \([\w ]+ {_ID}",
)
_NEEDLES = ("NVRM", "nvidia", "amdgpu", "kfd", "modesetting", "[10de:", "[1002:")


def gpus_in_log(host: Host) -> Fact[tuple[PciDevice, ...]]:
    """The GPUs of NVIDIA and AMD that this boot's kernel log names by address or PCI id, sorted by address. A part
    that no line tells is "". Unknown or denied if no log can be read, absent if it names none."""
    entries = kernel_messages(host, _NEEDLES)
    if entries.value is None:
        return entries.unanswered()
    found = tuple(_devices(entries.value, entries.source))
    if not found:
        return Fact(state="absent", source=entries.source, why="the kernel log names no GPU")
    return known(found, entries.source)


def _devices(entries: Sequence[Entry], source: str) -> Iterator[PciDevice]:
    listed: dict[str, PciDevice] = {}
    ids: dict[str, dict[str, str]] = {NVIDIA: {}, AMD: {}}
    """The ids by address, for each maker; "" stands for an unknown address or id."""
    for entry in entries:
        text = entry.joined
        if match := re.search(_ON_THE_BUS, text):
            bdf = normal_address(match[1]) or ""
            listed[bdf] = PciDevice(bdf=bdf, vendor=match[2], device=match[3], class_code=match[4], source=source)
            continue
        identified = next(filter(None, (re.search(expression, text) for expression in _IDENTIFIED)), None)
        for vendor, expression in _NAMED.items():
            named = re.search(expression, text)
            known_id = identified[2].lower() if identified and identified[1] == vendor else ""
            bdf = (normal_address(named[1]) or "") if named else ""
            if bdf or known_id:
                ids[vendor][bdf] = known_id or ids[vendor].get(bdf, "")
    yield from (listed[bdf] for bdf in sorted(listed))
    for vendor, found in ids.items():
        if not any(device.vendor == vendor for device in listed.values()):
            yield from _of_driver(vendor, found, source)


def _of_driver(vendor: str, ids: dict[str, str], source: str) -> Iterator[PciDevice]:
    """The GPUs that a driver's lines name. An id without an address belongs to an only address."""
    addresses = sorted(filter(None, ids))
    loose = ids.get("", "")
    if not addresses and loose:
        yield PciDevice(bdf="", vendor=vendor, device=loose, class_code="030000", source=source)
    for bdf in addresses:
        device = ids[bdf] or (loose if len(addresses) == 1 else "")
        yield PciDevice(bdf=bdf, vendor=vendor, device=device, class_code="030000", source=source)
