"""What makes the kernel refuse modules without a trusted signature: Secure Boot and lockdown.

Secure Boot is read from the firmware's variables (UEFI specification, shim's MokSBState).
"""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import Fact, absent, denied, known, unknown

_FIRMWARE = "/sys/firmware"
_EFI = "/sys/firmware/efi"
_VARIABLES = "/sys/firmware/efi/efivars"
_LOCKDOWN = "/sys/kernel/security/lockdown"


def probe_secure_boot(host: Host) -> Fact[bool]:
    """True if the kernel was started under it. A machine with a BIOS has none: absent."""
    listed = host.names(_VARIABLES)
    if not listed.value:
        return _without_variables(host, listed)
    enforced = _flag(host, listed.value, "SecureBoot")
    if enforced.value is not True:
        return enforced
    # In setup mode nothing is verified; `mokutil --disable-validation` tells the kernel not to verify.
    for name in ("SetupMode", "MokSBStateRT"):
        if _flag(host, listed.value, name).value:
            return known(False, f"{_VARIABLES}: {name}")
    return enforced


def probe_lockdown(host: Host) -> Fact[str]:
    """The mode in brackets of "none [integrity] confidentiality" (kernel_lockdown.7)."""
    content = host.text(_LOCKDOWN, 256)
    if content.value is None:
        return content.unanswered()
    mode = re.search(r"\[(none|integrity|confidentiality)\]", content.value)
    return known(mode[1], _LOCKDOWN) if mode else unknown("it names no mode", _LOCKDOWN)


def _without_variables(host: Host, listed: Fact[tuple[str, ...]]) -> Fact[bool]:
    firmware = host.names(_FIRMWARE)
    if listed.state == "denied":
        return denied(_VARIABLES)
    if host.exists(_EFI):
        return unknown("the firmware's variables are not mounted", _VARIABLES)
    if firmware.value:
        return absent(_FIRMWARE, "not started by UEFI firmware")
    # Containers hide this tree behind an empty folder.
    return unknown("the firmware's tree is hidden" if firmware.known else firmware.why, _FIRMWARE)


def _flag(host: Host, names: tuple[str, ...], variable: str) -> Fact[bool]:
    """A variable of one byte, which follows four bytes of attributes."""
    name = next((name for name in names if name.startswith(variable + "-")), None)
    if name is None:
        return absent(_VARIABLES, f"no variable {variable}")
    path = f"{_VARIABLES}/{name}"
    content = host.data(path, 64)
    if content.value is None:
        return content.unanswered(path)
    if len(content.value) != 5 or content.value[4] > 1:
        return unknown("not a flag of one byte", path)
    return known(content.value[4] == 1, path)
