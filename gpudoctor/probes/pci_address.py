"""PCI addresses as logs and drivers print them."""

from __future__ import annotations

import re

_ADDRESS = r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?"
_WHOLE = rf"(?:PCI:)?{_ADDRESS}$"
_INSIDE = r"(?:(?<=PCI:)|(?<![0-9a-f:.]))([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)(?![0-9a-f:])"


def normal_address(text: str) -> str | None:
    """ "PCI:0000:01:00", "00000000:01:00.0" and "01:00.0" are all 0000:01:00.0; None for anything else."""
    match = re.match(_WHOLE, text.strip(), re.IGNORECASE)
    if match is None:
        return None
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{match[2]}:{match[3]}.{match[4] or 0}".lower()


def address_of(domain: int, location: int) -> str:
    """The address of a function by AMD's number for it: bus, device and function in 8, 5 and 3 bits."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def find_address(line: str) -> str | None:
    """The first full address in a line."""
    match = re.search(_INSIDE, line, re.IGNORECASE)
    return normal_address(match[1]) if match else None
