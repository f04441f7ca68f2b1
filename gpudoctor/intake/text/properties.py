"""Tools that print each GPU as a list of properties: deviceQuery, hipInfo, clinfo, vulkaninfo, lshw and others."""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

from gpudoctor.intake.text.facts import By, Facts, NamedGpu
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.late_regex import late
from gpudoctor.line_search import lines_with
from gpudoctor.probes.pci_address import normal_address

_MOST = 2_000
"""Lines that may begin a device, of one tool."""
_MOST_PROPERTIES = 120
"""Lines about one device: clinfo prints some ninety, most of which say nothing here."""
_UNITS = {"B": 1, "BYTES": 1, "MBYTES": 1 << 20, "MB": 1 << 20, "MIB": 1 << 20, "GB": 1 << 30, "GIB": 1 << 30}
_GRAPHICS = late(r"(?i)vga|3d|display|processing accelerator")
_REMARK = late(r" \((?:RADV|NVK|TU|AD|GA|LLVM|radeonsi|navi|radv)\b.*")
"""What Mesa adds to a name."""


class _Tool(NamedTuple):
    """One tool: what begins a device, and which of its lines tell what."""

    sign: str
    """Stands in the first line about each device."""
    head: re.Pattern[str]
    properties: dict[str, str]
    by: By
    end: re.Pattern[str] | None = None
    """What begins anything else."""

    def property_of(self, text: str) -> tuple[str, str] | None:
        """What a line tells, and its value."""
        key = next((key for key in self.properties if key in text), None)
        before, _, value = text.partition(key) if key else ("", "", "")
        if key is None or before.strip(' "') or value[:1].isalpha():
            return None
        return self.properties[key], value.strip(' \t":=,')


_TOOLS = (
    _Tool(  # deviceQuery
        "Device ", late(r"\s*Device (?P<index>\d{1,2}): \"(?P<name>[^\"]{2,80})\"\s*$"),
        {
            "CUDA Capability Major/Minor version number": "capability", "Total amount of global memory": "memory",
            "CUDA Driver Version / Runtime Version": "driver cuda",
        }, "program",
    ),
    _Tool(  # hipInfo
        "device#", late(r"\s*device#\s+(?P<index>\d{1,2})\s*$"),
        {"gcnArchName": "gfx", "totalGlobalMem": "memory", "pciBusID": "bus", "Name": "name"}, "program",
    ),
    _Tool(  # numba -s
        "id ", late(r"\s*id (?P<index>\d{1,2})\s+b?'(?P<name>[^']{2,80})'"),
        {"Compute Capability": "capability"}, "program",
    ),
    _Tool(  # clinfo
        "Device Name", late(r"\s*Device Name\s+(?P<name>[A-Za-z][^\n]{1,100}?)\s*$"),
        {
            "Device Board Name (AMD)": "board", "Device PCI-e ID (AMD)": "device", "Device Vendor ID": "vendor id",
            "Device Topology (AMD)": "bdf", "Device Topology (NV)": "bdf", "Compute Capability (NV)": "capability",
            "NVIDIA Compute Capability": "capability", "Driver Version": "driver",
        }, "list",
    ),
    _Tool(  # vulkaninfo
        "GPU", late(r"\s*(?:GPU(?P<index>\d{1,2}):|VkPhysicalDeviceProperties:)\s*$"),
        {"vendorID": "vendor id", "deviceID": "device", "deviceName": "name", "driverInfo": "driver"}, "list",
    ),
    _Tool(  # switcherooctl list
        "Device:", late(r"\s*Device: \d{1,2}\s*$"),
        {"Name": "name"}, "shell", late(r"\s*$"),
    ),
    _Tool(  # amdgpu_top
        "Device Name", late(r"\s*Device Name\s+: \[(?P<name>[^\]]{3,80})\]"),
        {"PCI (domain:bus:dev.func)": "bdf", "gfx_target_version": "gfx"}, "shell",
    ),
    _Tool(  # lshw
        "*-", late(r"\s*\*-(?:display|3d|vga)(?::\d)?(?P<unclaimed> UNCLAIMED)?(?: DISABLED)?\s*$"),
        {
            "product": "name", "vendor": "vendor", "manufacturer": "vendor", "bus info": "bdf",
            "BUS information": "bdf", "configuration": "configuration",
        }, "shell", late(r"\s*\*-"),
    ),
    _Tool(  # lshw -json
        '"id"', late(r'\s*"id"\s*:\s*"display(?::\d)?"'),
        {'"product"': "name", '"vendor"': "vendor", '"businfo"': "bdf", '"driver"': "bound"},
        "shell", late(r'\s*"id"\s*:'),
    ),
    _Tool(  # lspci -vmm
        "Slot:", late(r"\s*Slot:\s+(?P<bdf>[0-9a-f:.]{7,12})\s*$"),
        {"Class": "class", "Vendor": "vendor", "Device": "name", "Driver": "bound"}, "shell", late(r"\s*$"),
    ),
)  # fmt: skip
_PLATFORM = "Number of devices"
"""Begins each platform of OpenCL; a second one has the same GPUs."""


def read_properties(lines: tuple[Line, ...], facts: Facts) -> None:
    """The GPUs that these tools list."""
    whole = text_of(lines)
    platforms = list(lines_with((_PLATFORM,), whole))
    for block, tool in enumerate(_TOOLS):
        listed_by: dict[str, int] = {}
        for place in islice(lines_with((tool.sign,), whole), _MOST):
            head = tool.head.match(lines[place].text)
            told = {**_groups(head), **_properties(lines, place, tool)} if head else {}
            vendor = vendor_of(told)
            platform = bisect_left(platforms, place)
            if vendor and listed_by.setdefault(vendor, platform) == platform:
                _read_device(lines[place].number, tool, told, vendor, facts, block)


def _groups(found: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value is not None}


def _properties(lines: tuple[Line, ...], head: int, tool: _Tool) -> dict[str, str]:
    told: dict[str, str] = {}
    for line in lines[head + 1 : head + 1 + _MOST_PROPERTIES]:
        if tool.head.match(line.text) or (tool.end and tool.end.match(line.text)):
            break
        if found := tool.property_of(line.text):
            told.setdefault(*found)
    return told


def _read_device(number: int, tool: _Tool, told: dict[str, str], vendor: str, facts: Facts, block: int) -> None:
    name, bdf = _name(told), _address(told)
    if not name or not _GRAPHICS.search(told.get("class", "VGA")):
        return
    index = told.get("index")
    facts.gpus.append(
        NamedGpu(
            number, tool.by, name=name, index=int(index) if index and tool.by == "program" else None,
            arch=_arch(told), pci_id=_pci_id(told, vendor), bdf=bdf, memory=_memory(told.get("memory", "")),
            block=block if tool.by == "list" else 0,
        )
    )  # fmt: skip
    if bdf and ("unclaimed" in told or _bound(told)):
        facts.say_even_empty(f"bound {bdf}", _bound(told), number, "tool")
    if vendor == "nvidia" and (version := re.match(r"\d{3}\.\d{2,3}(?:\.\d{1,2})?(?![\d.])", told.get("driver", ""))):
        facts.say("driver", version[0], number, "program")
    if version := re.match(r"\d{1,2}\.\d", told.get("driver cuda", "")):
        facts.say("driver cuda", version[0], number, "program")


def _name(told: dict[str, str]) -> str:
    board = told.get("board", "")
    name = told.get("name", "") if not board or re.match(r"Device [0-9a-f]{4}$", board) else board
    if "vendor" in told and not name.startswith(told["vendor"]):  # lshw and lspci keep them apart
        name = f"{told['vendor']} {name}"
    return _REMARK.sub("", re.sub(r"\s*\[[0-9a-f]{4}(?::[0-9a-f]{4})?\]", "", name)).replace("\u2122", "").strip()


def vendor_of(told: dict[str, str]) -> str:
    """ "nvidia", "amd", or nothing of both."""
    number = told.get("vendor id", "").lower()
    words = f"{told.get('vendor', '')} {told.get('name', '')} {told.get('board', '')}"
    if "0x10de" in number or re.search(
        r"(?i)nvidia|geforce|quadro|tesla|\brtx\b|\bgtx\b|titan|^ ?[abhlptv]\d{1,3}\b", words
    ):
        return "nvidia"
    if "0x1002" in number or told.get("gfx") or re.search(r"(?i)\bamd\b|\bati\b|radeon|instinct|\bgfx\d", words):
        return "amd"
    return ""


def _arch(told: dict[str, str]) -> str:
    if found := re.match(r"(\d{1,2})\.(\d)\b", told.get("capability", "")):
        return f"sm_{found[1]}{found[2]}"
    gfx = re.match(r"gfx[0-9a-f]{3,4}\b", told.get("gfx") or told.get("name", ""))
    return gfx[0] if gfx else ""


def _pci_id(told: dict[str, str], vendor: str) -> str:
    if within := re.search(r"\[((?:10de|1002):[0-9a-f]{4})\]", told.get("name", "")):
        return within[1]
    device = re.match(r"0x([0-9a-f]{4})\b", told.get("device", "").lower())
    device = device or re.search(r"\[([0-9a-f]{4})\]$", told.get("name", "") if "class" in told else "")
    return f"{'10de' if vendor == 'nvidia' else '1002'}:{device[1]}" if device else ""


def _address(told: dict[str, str]) -> str:
    if bus := re.fullmatch(r"\d{1,3}", told.get("bus", "")):
        return f"0000:{int(bus[0]):02x}:00.0" if int(bus[0]) < 256 else ""
    found = re.search(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", told.get("bdf", "").lower())
    return (normal_address(found[0]) or "") if found else ""


def _bound(told: dict[str, str]) -> str:
    found = re.search(r"\bdriver=([\w-]{2,30})", told.get("configuration", ""))
    return found[1] if found else told.get("bound", "")


def _memory(text: str) -> int | None:
    found = re.match(r"(\d{1,9}(?:\.\d{1,3})?) ?([A-Za-z]{1,6})\b", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    return round(float(found[1]) * unit) if found and unit else None
