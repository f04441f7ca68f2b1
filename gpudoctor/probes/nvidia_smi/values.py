"""Values as nvidia-smi prints them."""

from __future__ import annotations

import re
from typing import Literal

from gpudoctor.machine import FabricState, Virtualization

MIB = 1 << 20
LOST = ("GPU is lost", "GPU requires reset")
FABRIC: dict[str, FabricState] = {
    "Completed": "completed", "In Progress": "in-progress", "Not Started": "not-started", "N/A": "not-supported",
}  # fmt: skip
"""Whether the GPU has joined the NVLink fabric."""
VIRTUALIZATION: dict[str, Virtualization] = {
    "none": "none", "pass-through": "pass-through",
    "vgpu": "vgpu", "host vgpu": "host-vgpu", "host vsga": "host-vsga",
}  # fmt: skip
"""How the GPU is shared with guests, by the tool's words in small letters."""


def some(value: str | None) -> str | None:
    """A value that is there and says something."""
    return None if value is None or value.strip("[]") in ("", "N/A", "Not Supported") else value


def mib(value: str | None) -> int | None:
    """ "23028 MiB" in bytes."""
    found = re.fullmatch(r"(\d{1,9})(?: MiB)?", value or "")
    return int(found[1]) * MIB if found else None


def switch(value: str | None) -> bool | None:
    """Whether something is switched on, or happened."""
    return {"Enabled": True, "Yes": True, "Disabled": False, "No": False}.get(value or "")


def compute_mode(value: str | None) -> Literal["default", "exclusive", "prohibited"] | None:
    """How many processes may compute at once."""
    if not value:
        return None
    if value == "Default":
        return "default"
    if value == "Prohibited":
        return "prohibited"
    return "exclusive" if value.startswith(("E.", "Exclusive")) else None


def licensed(first: dict[str, str]) -> bool | None:
    """ "Licensed (Expiry: ...)", "Unlicensed (Restricted)", "N/A"; older drivers name the product GRID."""
    products = ("vgpu_software_licensed_product", "grid_licensed_product")
    status = next((value for name in products if (value := first.get(f"{name}.license_status"))), "")
    return {"licensed": True, "unlicensed": False}.get(status.partition(" ")[0].lower())


def pci_id(value: str | None) -> str | None:
    """ "0x232110DE" is device 2321 of vendor 10de."""
    found = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})(10[Dd][Ee])", value or "")
    return f"10de:{found[1].lower()}" if found else None
