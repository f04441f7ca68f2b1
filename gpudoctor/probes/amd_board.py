"""The board of an AMD GPU, as amdgpu states it in sysfs."""

from __future__ import annotations

import re
import struct

from gpudoctor.host import Host
from gpudoctor.machine import Board, Gpu
from gpudoctor.probes.pci import DEVICES

_GENERATIONS = {
    "2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6, "64": 6,
}  # fmt: skip
"""PCIe generation by transfers per second (GT/s) of a lane."""
_MICROWATTS = 1_000_000
_METRICS_1_3 = struct.Struct("<HBB108xQ")
"""gpu_metrics 1.3 of the kernel's kgd_pp_interface.h: its size and revision, then indep_throttle_status. APUs (2.x,
3.x) and MI300 (1.4 and newer) have other forms, without these bits or at other places."""
_THROTTLERS = (("power-cap", range(0, 32)), ("thermal", range(32, 46)), ("hardware-thermal", range(46, 48)))
"""Bits of indep_throttle_status in amdgpu_smu.h: limits of power and current, temperatures, PROCHOT."""
_UNFILLED = 2**64 - 1
"""What the kernel leaves in a field that the GPU's firmware does not know."""


def amd_board(host: Host, gpu: Gpu, xgmi_links: int = 0) -> Board:
    """VBIOS, links, power limit and throttling. A suspended GPU is not asked: that would wake it. KFD lists the xgmi
    links that work, not the others."""
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
        throttled=_throttled(host, f"{folder}/gpu_metrics"),
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


def _throttled(host: Host, path: str) -> tuple[str, ...] | None:
    data = host.data(path, _METRICS_1_3.size).value or b""
    if len(data) < _METRICS_1_3.size:
        return None
    size, *revision, status = _METRICS_1_3.unpack(data)
    if (size, revision) != (_METRICS_1_3.size, [1, 3]) or status == _UNFILLED:
        return None
    return tuple(reason for reason, bits in _THROTTLERS if any(status >> bit & 1 for bit in bits))


def _plain(text: str | None) -> str:
    return text if text and re.fullmatch(r"[\w.-]{1,64}", text) else ""
