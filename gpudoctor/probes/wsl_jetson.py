"""Two kinds of machine whose driver stack is unlike any other: WSL2 and Jetson."""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import Fact, Jetson, absent, known, unknown

_DEVICE_TREES = ("/proc/device-tree", "/sys/firmware/devicetree/base")
_TEGRA_RELEASE = "/etc/nv_tegra_release"
_SOC_FAMILY = "/sys/devices/soc0/family"


def is_wsl_kernel(release: str) -> bool:
    """Whether Microsoft built a kernel of that release: "5.15.153.1-microsoft-standard-WSL2"."""
    return "microsoft" in release.lower()


def probe_wsl(host: Host, kernel: Fact[str]) -> Fact[str]:
    """The WSL kernel's release. A kernel built by its user may hide its origin; its parts do not."""
    release = kernel.value or ""
    if is_wsl_kernel(release):
        return known(release, kernel.source)
    if host.environ.get("WSL_DISTRO_NAME"):
        return known(release, "variable WSL_DISTRO_NAME")
    if host.exists("/dev/dxg") and host.exists("/usr/lib/wsl/lib"):
        return known(release, "/usr/lib/wsl/lib")
    if kernel.known or (host.stat("/dev/dxg").absent and host.stat("/usr/lib/wsl/lib").absent):
        return absent(kernel.source or "/dev/dxg", "no kernel of WSL")
    return unknown(kernel.why, kernel.source)


def probe_jetson(host: Host, kernel: Fact[str], arch: Fact[str]) -> Fact[Jetson]:
    """Board and L4T release. A container of L4T sees little more than the release file."""
    if arch.known and arch.value != "aarch64":
        return absent(arch.source, f"{arch.value} is no Tegra")
    release = host.text(_TEGRA_RELEASE, 4096)
    l4t = l4t_of(release.value or "")
    compatible, model, tree = "", "", ""
    for folder in _DEVICE_TREES:
        text = host.text(f"{folder}/compatible", 4096).value
        if text:
            compatible, tree = text, folder
            model = host.text(f"{folder}/model", 4096).value or ""
            break
    soc = host.text(_SOC_FAMILY, 4096)
    signs = (
        (re.search(r"nvidia,tegra", compatible), f"{tree}/compatible"),
        (soc.value == "Tegra", _SOC_FAMILY),
        (l4t, _TEGRA_RELEASE),
        (re.search(r"-tegra\b", kernel.value or ""), kernel.source),
    )
    source = next((source for sign, source in signs if sign), None)
    if source is not None:
        names = " ".join(compatible.replace("\0", " ").split())
        return known(Jetson(model=model, l4t=l4t, compatible=names), source)
    if compatible or release.absent:
        return absent(f"{tree}/compatible" if compatible else _TEGRA_RELEASE, "no Tegra")
    return unknown(release.why, _TEGRA_RELEASE)


def l4t_of(text: str) -> str:
    """ "# R36 (release), REVISION: 4.3, ..." is 36.4.3."""
    match = re.search(r"R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)", text)
    return f"{match[1]}.{match[2]}" if match else ""
