"""GPUs and NVSwitches on the PCI bus, from sysfs: it shows them without a driver and without lspci.

In a container sysfs shows the whole host, including what was not granted.
"""

from __future__ import annotations

import posixpath
import re

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Fact, Firmware, absent, known, unknown
from gpudoctor.probes.pci_address import normal_address

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "10de"
AMD = "1002"

_DISPLAY = ("0300", "0302", "0380")
_ACCELERATOR = "1200"
_BRIDGE = "0680"
_FIRMWARE = ("mes", "mec", "sdma", "smc")
_LAST_NFORCE = 0x0DFF
"""nForce chipsets also have 0680 bridges; their ids lie below, those of NVSwitches above."""


class PciDevice(Struct, frozen=True):
    """One function on the bus; ids are lower-case hex without 0x."""

    bdf: str
    """ "0000:01:00.0"; "" for a GPU that only a log names, by its id."""
    vendor: str
    device: str
    """ "" for a GPU that only a log names, by its address."""
    class_code: str
    """Six digits: "030000" VGA, "030200" 3D, "038000" other display, "120000" accelerator, "068000" bridge;
    "" if a recording has none: then only the matrix can tell what it is."""
    revision: str | None = None
    driver: Fact[str] = unknown("not recorded")
    """Kernel driver bound to it; absent: none."""
    boot_vga: bool = False
    runtime_status: str | None = None
    """ "active", "suspended" ..., if the kernel says so."""
    dead: bool = False
    """Its configuration space reads all ones: it is listed and no longer answers."""
    render_nodes: tuple[str, ...] = ()
    """Its /dev/dri/renderDN nodes."""
    memory: int | None = None
    """Video memory in bytes, if amdgpu states it."""
    firmware: tuple[Firmware, ...] = ()
    """What it runs, if amdgpu states it."""
    source: str = ""

    @property
    def pci_id(self) -> str:
        return f"{self.vendor}:{self.device}" if self.device else ""

    @property
    def is_gpu(self) -> bool:
        return self.class_code[:4] in ("", *_DISPLAY) or (self.vendor == AMD and self.class_code[:4] == _ACCELERATOR)

    @property
    def is_nvswitch(self) -> bool:
        return self.vendor == NVIDIA and self.class_code[:4] == _BRIDGE and int(self.device, 16) > _LAST_NFORCE


def probe_pci(host: Host) -> Fact[tuple[PciDevice, ...]]:
    """The GPUs and NVSwitches of NVIDIA and AMD, sorted by address."""
    listing = host.names(DEVICES)
    if listing.value is None:
        return listing.unanswered()
    found = (_read_device(host, bdf) for bdf in listing.value)
    return known(tuple(device for device in found if device is not None), DEVICES)


def _read_device(host: Host, bdf: str) -> PciDevice | None:
    folder = f"{DEVICES}/{bdf}"
    # One small read tells nearly everything; a bus may hold hundreds of functions.
    event = read_uevent(host.text(f"{folder}/uevent", 4096).value)
    vendor, _, device = event.get("PCI_ID", ":").lower().partition(":")
    vendor = vendor or _hex(host, f"{folder}/vendor") or ""
    if vendor not in (NVIDIA, AMD):
        return None
    class_code = event.get("PCI_CLASS", "").lower() or _hex(host, f"{folder}/class") or ""
    class_code = class_code and class_code.zfill(6)
    device = device or _hex(host, f"{folder}/device") or ""
    if not re.fullmatch("[0-9a-f]{4}", device) or not re.fullmatch("([0-9a-f]{6})?", class_code):
        return None
    plain = PciDevice(bdf=normal_address(bdf) or bdf, vendor=vendor, device=device, class_code=class_code)
    if not (plain.is_gpu or plain.is_nvswitch) or host.exists(f"{folder}/physfn"):
        return None  # a virtual function of a GPU that the host shares out is no GPU of its own here
    status = host.text(f"{folder}/power/runtime_status", 64).value
    return replace(
        plain,
        revision=_hex(host, f"{folder}/revision"),
        driver=_driver(host, folder, event),
        boot_vga=host.text(f"{folder}/boot_vga", 16).value == "1",
        runtime_status=status,
        dead=_dead(host, folder, status),
        render_nodes=_render_nodes(host, folder),
        memory=_number(host.text(f"{folder}/mem_info_vram_total", 64).value) if vendor == AMD else None,
        firmware=_firmware(host, folder) if vendor == AMD else (),
        source=folder,
    )


def read_uevent(text: str | None) -> dict[str, str]:
    """NAME=value on each line, as the kernel tells it of a device."""
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _hex(host: Host, path: str) -> str | None:
    text = host.text(path, 64).value
    return text.lower().removeprefix("0x") if text and re.fullmatch("(0x)?[0-9a-fA-F]{2,6}", text) else None


def _firmware(host: Host, folder: str) -> tuple[Firmware, ...]:
    """What amdgpu states in fw_version; 0 stands for firmware that the GPU does not have."""
    texts = ((name, host.text(f"{folder}/fw_version/{name}_fw_version", 64).value) for name in _FIRMWARE)
    found = (Firmware(name, int(text, 16)) for name, text in texts if text and re.fullmatch("0x[0-9a-f]{1,8}", text))
    return tuple(one for one in found if one.version)


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch("[0-9]{1,19}", text) else None


def _driver(host: Host, folder: str, event: dict[str, str]) -> Fact[str]:
    if event.get("DRIVER"):
        return known(event["DRIVER"], f"{folder}/uevent")
    link = host.link(f"{folder}/driver")
    if link is None and not host.live:
        link = host.text(f"{folder}/driver", 256).value  # archives and checkouts turn links into files
    if link:
        return known(posixpath.basename(link), f"{folder}/driver")
    if host.exists(f"{folder}/driver"):
        return unknown("it is bound; its driver's name is not recorded", f"{folder}/driver")
    if event:
        return absent(f"{folder}/uevent", "no driver is bound")
    # Without a uevent, only a complete sysfs distinguishes "no driver" from "not recorded".
    return absent(f"{folder}/driver", "no driver is bound") if host.live else unknown("not recorded", folder)


def _dead(host: Host, folder: str, runtime_status: str | None) -> bool:
    """Whether the configuration space reads all ones. Does not wake a sleeping GPU."""
    if runtime_status in ("suspended", "suspending"):
        return False
    head = host.data(f"{folder}/config", 4).value
    return head == b"\xff\xff\xff\xff"


def _render_nodes(host: Host, folder: str) -> tuple[str, ...]:
    names = host.names(f"{folder}/drm").value or ()
    return tuple(f"/dev/dri/{name}" for name in names if re.fullmatch(r"renderD[0-9]{1,5}", name))
