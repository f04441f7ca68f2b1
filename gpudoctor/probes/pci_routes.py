"""How transfers between GPUs travel: the IOMMU's mode, and bridges that send them up to the processor (ACS)."""

from __future__ import annotations

import posixpath
import re
import struct

from gpudoctor.host import Host
from gpudoctor.machine import Fact, Gpu, absent, denied, known, unknown
from gpudoctor.probes.pci import DEVICES

_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_WHOLE = 4096
_BASIC = 256
_ACCESS_CONTROL = 0x000D
_REDIRECTS = 0x0C
"""Bits of the control register: requests, and completions, between peers go up."""
_MOST_CAPABILITIES = 64


def probe_iommu(host: Host, gpus: tuple[Gpu, ...]) -> Fact[str]:
    """The kind of the GPUs' IOMMU groups; several kinds are separated by commas."""
    addresses = [gpu.bdf for gpu in gpus if gpu.bdf]
    texts = [host.text(f"{DEVICES}/{address}/iommu_group/type", 64) for address in addresses]
    kinds = {text.value for text in texts if text.value and re.fullmatch(r"[\w-]{1,20}", text.value)}
    if kinds:
        return known(",".join(sorted(kinds)), texts[0].source)
    if not texts:
        return unknown("no GPU has a PCI address")
    alone = all(text.absent for text in texts) and not any(
        host.exists(f"{DEVICES}/{address}/iommu_group") for address in addresses
    )
    return absent(texts[0].source, "the GPUs are in no IOMMU group") if alone else unknown("not stated", DEVICES)


def probe_acs(host: Host, gpus: tuple[Gpu, ...]) -> Fact[tuple[str, ...]]:
    """The bridges above GPUs that redirect transfers between peers. Only root may read their settings."""
    bridges = sorted({bridge for gpu in gpus if gpu.bdf for bridge in _bridges(host, gpu.bdf)})
    if not bridges:
        return unknown("the bridges above the GPUs are not seen", DEVICES)
    redirecting: list[str] = []
    for bridge in bridges:
        path = f"{DEVICES}/{bridge}/config"
        space = host.data(path, _WHOLE)
        if space.value is None:
            return space.unanswered(path)
        if len(space.value) <= _BASIC:
            return denied(path, "only root may read it")
        control = _access_control(space.value)
        if control is not None and control & _REDIRECTS:
            redirecting.append(bridge)
    return known(tuple(redirecting), DEVICES)


def _bridges(host: Host, address: str) -> tuple[str, ...]:
    """The bridges between a device and the processor, from its place in the tree of devices."""
    place = host.resolve(f"{DEVICES}/{address}") or ""
    *above, own = place.split("/")
    return tuple(part for part in above if re.fullmatch(_ADDRESS, part)) if own == posixpath.basename(address) else ()


def _access_control(space: bytes) -> int | None:
    """The ACS control register, from the list of extended capabilities (PCI Express base specification)."""
    place = _BASIC
    for _ in range(_MOST_CAPABILITIES):
        if not _BASIC <= place <= len(space) - 8:
            return None
        (head,) = struct.unpack_from("<I", space, place)
        if head & 0xFFFF == _ACCESS_CONTROL:
            return int(struct.unpack_from("<H", space, place + 6)[0])
        place = head >> 20 & 0xFFC
    return None
