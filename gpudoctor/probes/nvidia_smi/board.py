"""The board of a GPU, from what `nvidia-smi -q` prints of it, as text or XML."""

from __future__ import annotations

import re

from gpudoctor.machine import Board

_REASONS = {
    "sw_power_cap": "power-cap",
    "hw_slowdown": "hardware",
    "sync_boost": "sync-boost",
    "sw_thermal_slowdown": "thermal",
    "hw_thermal_slowdown": "hardware-thermal",
    "hw_power_brake_slowdown": "power-brake",
}
_PCIE = ("pci.gpu_link_info", "pci.pci_gpu_link_info")
_POWER = ("gpu_power_readings", "power_readings")


def smi_board(stated: dict[str, str]) -> Board:
    """What is stated of one GPU, by path: "pci.gpu_link_info.pcie_generation.max" in the text."""

    def first(*paths: str) -> str:
        return next((value for path in paths if (value := stated.get(path, "")) and value != "N/A"), "")

    def link(text: str, xml: str) -> int | None:
        return _number(first(f"{_PCIE[0]}.{text}", f"{_PCIE[1]}.{xml}"))

    def power(*names: str) -> int | None:
        return _number(first(*(f"{group}.{name}" for group in _POWER for name in names)))

    return Board(
        vbios=first("vbios_version"),
        inforom=first("inforom_version.image_version", "inforom_version.img_version"),
        gsp_firmware=first("gsp_firmware_version"),
        pcie_generation=link("pcie_generation.current", "pcie_gen.current_link_gen"),
        pcie_generation_max=link("pcie_generation.max", "pcie_gen.max_link_gen"),
        pcie_width=link("link_width.current", "link_widths.current_link_width"),
        pcie_width_max=link("link_width.max", "link_widths.max_link_width"),
        power_limit=power("enforced_power_limit", "current_power_limit", "power_limit"),
        power_limit_default=power("default_power_limit"),
        throttled=_throttled(stated),
        persistence={"Enabled": True, "Disabled": False}.get(first("persistence_mode")),
    )


def _number(text: str) -> int | None:
    """ "16x", "700.00 W", "5"."""
    match = re.fullmatch(r"(\d{1,6})(?:\.(\d+))?(?:x| W)?", text)
    return round(float(f"{match[1]}.{match[2] or 0}")) if match else None


def _throttled(stated: dict[str, str]) -> tuple[str, ...]:
    active = [path for path, value in stated.items() if value == "Active" and path.startswith("clocks_")]
    names = (re.sub(r"^clocks_\w+?_reasons\.(clocks_\w+?_reason_)?", "", path) for path in active)
    return tuple(dict.fromkeys(_REASONS[name] for name in names if name in _REASONS))
