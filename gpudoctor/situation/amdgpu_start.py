"""Why amdgpu did not start a GPU, by its own lines in the kernel log."""

from __future__ import annotations

import re

from gpudoctor.finding import Fix, InstallSystemPackage, Manual, Reboot, by_hand
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.situation import Situation
from gpudoctor.situation.kernel_log import GIVEN_UP, lines_of

_NO_VBIOS = ("amdgpu-no-vbios",)
_FIRMWARE_REFUSED = ("amdgpu-firmware-refused", "amdgpu-firmware-not-loaded")
_FIRMWARE_MISSING = ("amdgpu-firmware-missing",)
_SILENT = ("amdgpu-psp-failed", "amdgpu-block-failed")
"""A part of the GPU does not answer. A missing or refused file has this effect, too."""
_BAD_PAGES = ("amdgpu-bad-pages",)
_KINDS = (*_NO_VBIOS, *_FIRMWARE_REFUSED, *_FIRMWARE_MISSING, *_SILENT, "amdgpu-init-failed", "amdgpu-probe-failed")

_GIVE_VBIOS = (
    "In a virtual machine: give the GPU its video BIOS as a file (QEMU: `romfile=` of the device; Proxmox: "
    "`romfile=` of hostpciN; libvirt: <rom file='...'/>), and use UEFI (OVMF). On bare metal: power-cycle the "
    "machine, reseat the GPU, and update the BIOS."
)
_OTHER_RELEASE = (
    "If that is the newest release, or the trouble began with an update of it: install the release of "
    "linux-firmware before it, rebuild the initial ramdisk (`sudo update-initramfs -u`; `sudo dracut --force`), and "
    "reboot. The BIOS is not the reason."
)
_POWER_CYCLE = (
    "Shut the machine down, disconnect its power for a minute, and start it again: a reset does not always reach "
    "this part. In a virtual machine, reboot the host. If it comes back: update linux-firmware and the kernel, then "
    "check the GPU's power and seat. `sudo dmesg | grep -i amdgpu` says which part failed."
)
_READ = (
    "Read the lines before that in the kernel log (`sudo dmesg | grep -i -e amdgpu -e 'BAR '`). If a firmware file "
    "is missing, update linux-firmware; if a BAR finds no space, switch Above 4G Decoding on in the BIOS. Else shut "
    "the machine down, reseat the GPU or try another slot, check its power, and update the BIOS."
)
_NO_MEMORY = re.compile(r"failed with error -12\b")
"""ENOMEM: when it starts, amdgpu asks for little but the address ranges of the GPU."""


def start_failures(situation: Situation, gpu: Gpu) -> tuple[LogFault, ...]:
    """Log lines in which amdgpu says why it did not start the GPU."""
    return lines_of(situation, gpu, _KINDS)


def bad_pages(situation: Situation, gpu: Gpu) -> tuple[LogFault, ...]:
    """Log lines in which amdgpu does not start a GPU because too much of its memory is bad."""
    return lines_of(situation, gpu, _BAD_PAGES) if gpu.driver.absent else ()


def no_address_space(situation: Situation, gpu: Gpu) -> tuple[LogFault, ...]:
    """Log lines in which the kernel has no address space for a GPU that amdgpu then gives up. Of a log that somebody
    quotes, the line in which it does so is enough."""
    told = _before_giving_up(situation, gpu, "pci-no-space")
    if told or not situation.log_is_the_complaint or hardware_errors(situation, gpu) or not gpu.driver.absent:
        return told
    return tuple(line for line in lines_of(situation, gpu, GIVEN_UP["amd"]) if _NO_MEMORY.search(line.line))


def hardware_errors(situation: Situation, gpu: Gpu) -> tuple[LogFault, ...]:
    """Log lines in which a GPU that amdgpu gives up tells an uncorrectable error of its hardware."""
    return _before_giving_up(situation, gpu, "amdgpu-ras-uncorrectable")


def _before_giving_up(situation: Situation, gpu: Gpu, kind: str) -> tuple[LogFault, ...]:
    given_up = gpu.driver.absent and lines_of(situation, gpu, GIVEN_UP["amd"])
    return lines_of(situation, gpu, (kind,)) if given_up else ()


def start_reason(lines: tuple[LogFault, ...]) -> str:
    """The reason in these lines, for a sentence; "" if they give none."""
    if _of(lines, _NO_VBIOS):
        return "amdgpu finds no video BIOS of it"
    if missing := _of(lines, _FIRMWARE_MISSING):
        file = re.search(r"amdgpu/[\w.-]+", missing[0].line)
        return f"its firmware lacks {file[0] if file else 'amdgpu/...'}"
    if _of(lines, _FIRMWARE_REFUSED):
        return "it refuses the firmware that linux-firmware has for it"
    return "a part of it did not start" if _of(lines, _SILENT) else ""


def start_fix(lines: tuple[LogFault, ...]) -> Fix:
    """What helps if amdgpu is loaded without the GPU."""
    if _of(lines, _NO_VBIOS):
        return by_hand("Give the GPU its video BIOS", _GIVE_VBIOS, "reboot")
    if _of(lines, _FIRMWARE_MISSING):
        update = InstallSystemPackage("linux-firmware", why="the installed release lacks files for this GPU")
        return Fix("Update linux-firmware", (update, Reboot(why="amdgpu loads the firmware when it starts")))
    if _of(lines, _FIRMWARE_REFUSED):
        newer = InstallSystemPackage("linux-firmware", why="the GPU refuses files of the installed release")
        return Fix("Install another release of linux-firmware", (newer, Manual(_OTHER_RELEASE, risk="reboot")))
    if _of(lines, _SILENT):
        return by_hand("Power-cycle the machine", _POWER_CYCLE, "reboot")
    return by_hand("Find out why amdgpu does not take the GPU", _READ, "reboot")


def _of(lines: tuple[LogFault, ...], kinds: tuple[str, ...]) -> tuple[LogFault, ...]:
    return tuple(line for line in lines if line.kind in kinds)
