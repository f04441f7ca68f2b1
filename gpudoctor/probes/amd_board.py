"""The board of an AMD GPU, as amdgpu states it in sysfs."""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import Board, Gpu
from gpudoctor.probes.pci import DEVICES

_GENERATIONS = {
    "2.5": 1,
    "5.0": 2,
    "5": 2,
    "8.0": 3,
    "8": 3,
    "16.0": 4,
    "16": 4,
    "32.0": 5,
    "32": 5,
    "64.0": 6,
    "64": 6,
}
"""PCIe generation by transfers per second (GT/s) of a lane."""
_MICROWATTS = 1_000_000


def amd_board(host: Host, gpu: Gpu, xgmi_links: int = 0) -> Board:
    """VBIOS, links and power limit. A suspended GPU is not asked: that would wake it. KFD lists the xgmi links that
    work, not the others."""
    if not gpu.bdf or gpu.suspended:
        return Board()
    folder = f"{DEVICES}/{gpu.bdf}"
    power = _power(host, folder)
    return Board(
        vbios=_plain(host.text(f"{folder}/vbios_version", 256).value),
        pcie_generation=_generation(host, f"{folder}/current_link_speed"),
        pcie_generation_max=_generation(host, f"{folder}/max_link_speed"),
        pcie_width=_number(host, f"{folder}/current_link_width"),
        pcie_width_max=_number(host, f"{folder}/max_link_width"),
        power_limit=_watts(host, f"{power}/power1_cap"),
        power_limit_default=_watts(host, f"{power}/power1_cap_default"),
        links_up=xgmi_links or None,
    )


def _power(host: Host, folder: str) -> str:
    """The folder of the GPU's sensors; its number differs from one boot to the next."""
    names = host.names(f"{folder}/hwmon").value or ()
    return f"{folder}/hwmon/{names[0]}" if names else f"{folder}/hwmon/hwmon0"


def _generation(host: Host, path: str) -> int | None:
    text = host.text(path, 64).value or ""
    match = re.match(r"(\d+(?:\.\d)?) GT/s", text)
    return _GENERATIONS.get(match[1]) if match else None


def _number(host: Host, path: str) -> int | None:
    text = host.text(path, 64).value or ""
    return int(text) if re.fullmatch("[0-9]{1,3}", text) and int(text) else None


def _watts(host: Host, path: str) -> int | None:
    text = host.text(path, 64).value or ""
    return round(int(text) / _MICROWATTS) if re.fullmatch("[0-9]{1,12}", text) else None


def _plain(text: str | None) -> str:
    return text if text and re.fullmatch(r"[\w.-]{1,64}", text) else ""
