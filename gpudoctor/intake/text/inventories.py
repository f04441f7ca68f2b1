"""The graphics devices that inxi and hwinfo list, and the kernel drivers for NVIDIA's GPUs that lsmod lists."""

from __future__ import annotations

import re

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late
from gpudoctor.probes.pci_address import normal_address

_INXI = late(
    r"(?P<section>[A-Z]\w+:)?\s{1,40}Device-\d{1,2}: (?P<rest>(?:NVIDIA|Nvidia|AMD|ATI|Advanced Micro) .{2,300})"
)
_INXI_SECTION = late(r"(?P<name>[A-Z]\w{2,20}):(?:\s|$)")
_INXI_NEXT = late(r"\s{1,40}(?:Device-\d|Display:|Monitor-|API:|Screen-|Info:)")
"""What follows the lines about one device."""
_FIELD = late(r"\b(?P<key>driver|v|bus[- ]ID|chip[- ]ID): (?P<value>\S{1,60})")
_IN_BRACKETS = late(r"\[(?P<name>[^\[\]\n]{3,80})\]")
_FIRST_FIELD = late(r" (?:vendor|driver|bus[- ]ID): ")
_MOST_CONTINUED = 24
"""Lines; with `-y1` each property has one of its own."""

_VENDOR = late(r"\s{0,12}Vendor: pci 0x(?P<vendor>10de|1002)\b")
_DEVICE = late(r"\s{0,12}Device: pci 0x(?P<device>[0-9a-f]{4}) \"(?P<name>[^\"\n]{2,100})\"")
_NOT_GRAPHICS = late(r"(?i)audio|usb|ucsi|bridge|root|ethernet|nvme")
_BUS = late(r"\s{0,12}SysFS BusID: (?P<bdf>[0-9a-f:.]{7,12})")
_BOUND = late(r"\s{0,12}Driver: \"(?P<driver>[\w-]{2,30})\"")
_LOADED = late(r"(?P<module>nouveau|nova_core|nvidia) {1,40}\d{4,9} {1,12}(?P<users>\d{1,4})\b(?! *[A-Z])")
_NEAR_DRIVER = 12
_NEAR = 3
"""Lines between the vendor and the device of one entry of hwinfo."""


def read_inventories(lines: tuple[Line, ...], facts: Facts) -> None:
    """GPUs with their addresses and kernel drivers, as far as these tools print them."""
    section, vendor, bdf = "", ("", 0), ("", 0)
    graphics = ("", 0)
    for place, (number, text) in enumerate(lines):
        if text.startswith("n") and (loaded := _LOADED.match(text)):
            facts.say(f"loaded {loaded['module']}", loaded["users"], number, "tool")
        if heading := _INXI_SECTION.match(text):
            section = heading["name"]
        if section == "Graphics" and "Device-" in text and (found := _INXI.match(text)):
            _inxi(number, f"{found['rest']} {_continued(lines, place)}", facts)
        elif "SysFS BusID" in text and (address := _BUS.match(text)):
            bdf = (normal_address(address["bdf"]) or "", place)
        elif (
            "Driver: " in text
            and graphics[0]
            and place - graphics[1] <= _NEAR_DRIVER
            and (bound := _BOUND.match(text))
        ):
            facts.say(f"bound {graphics[0]}", bound["driver"], number, "tool")
        elif "pci 0x" not in text:
            continue
        elif named := _VENDOR.match(text):
            vendor = (named["vendor"], place)
        elif (device := _DEVICE.match(text)) and vendor[0] and place - vendor[1] <= _NEAR:
            if not _NOT_GRAPHICS.search(device["name"]):
                own = bdf[0] if place - bdf[1] <= _NEAR_DRIVER else ""
                facts.gpus.append(NamedGpu(number, "shell", pci_id=f"{vendor[0]}:{device['device']}", bdf=own))
                graphics = (own, place)
            vendor = ("", 0)


def _continued(lines: tuple[Line, ...], place: int) -> str:
    """The rest of what inxi says of a device, which it wraps at the width of the terminal."""
    rest = []
    for line in lines[place + 1 : place + 1 + _MOST_CONTINUED]:
        if not line.text.startswith(" ") or _INXI_NEXT.match(line.text):
            break
        rest.append(line.text.strip())
    return " ".join(rest)


def _inxi(number: int, text: str, facts: Facts) -> None:
    fields = {found["key"].replace(" ", "-"): found["value"] for found in _FIELD.finditer(text)}
    bdf = normal_address(fields.get("bus-ID", "")) or ""
    chip, *names = _FIRST_FIELD.split(text, maxsplit=1)[0], *_IN_BRACKETS.findall(text)
    name = f"{'NVIDIA' if text.upper().startswith('NVIDIA') else 'AMD'} {names[-1]}" if names else chip
    pci_id = fields.get("chip-ID", "")
    pci_id = pci_id if re.fullmatch(r"(?:10de|1002):[0-9a-f]{4}", pci_id) else ""
    facts.gpus.append(NamedGpu(number, "shell", name=name, pci_id=pci_id, bdf=bdf))
    driver = fields.get("driver", "")
    if bdf and driver and driver != "N/A":
        facts.say(f"bound {bdf}", driver, number, "tool")
    if driver == "nvidia":
        facts.say("driver", fields.get("v", ""), number, "tool")
