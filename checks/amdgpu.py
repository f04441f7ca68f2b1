"""Cards that AMD's kernel driver does not have, or could not start (AMD's half of GPD119). Holds no checks itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Case
from gpudoctor.finding import (
    Evidence,
    Finding,
    InstallRocmDriver,
    InstallSystemPackage,
    LoadModule,
    Manual,
    Reboot,
    WayOut,
)
from gpudoctor.machine import Gpu, LogFault

from .cards import called, finding, together
from .installed import about, kernel_too_old

_FIRMWARE_MISSING = "amdgpu-firmware-missing"


def without_amdgpu(case: Case, severity: str, cards: tuple[Gpu, ...]) -> Finding:
    """The finding `no-driver` about AMD cards of one name: why amdgpu does not have them, as far as that is told."""
    machine = case.machine
    kernel, modules = machine.system.kernel.value, machine.amd.modules_installed.value or ()
    there = any(module.name == "amdgpu" and module.kernel == kernel for module in modules)
    old, lines = cards[0].driver.value == "radeon", _start_of_amdgpu(case, cards[0])
    where = " on the host of this container" if case.in_container else ""
    missing = [line for line in lines if line.kind == _FIRMWARE_MISSING]
    state = f"its firmware lacks {_file_of(missing[0])}" if missing else "amdgpu does not have the card"
    if old:
        text = "Use the CPU build of torch, or another card: ROCm never served this one."
        ways_out: tuple[WayOut, ...] = (WayOut("Use the CPU or another card", (Manual(text),)),)
    elif case.in_container:
        text = "On the host, outside this container: load amdgpu (`sudo modprobe amdgpu`), or install AMD's driver."
        ways_out = (WayOut("Load amdgpu on the host", (Manual(text, risk="root"),)),)
    else:
        install = WayOut("Install the AMD kernel driver", (InstallRocmDriver(), Reboot()))
        if "amdgpu" in (machine.amd.modules_loaded.value or ()):
            ways_out = (*_not_taken(lines), install)
        else:
            load = WayOut("Load the kernel module", (LoadModule("amdgpu"),))
            ways_out = (load, install) if there or not modules else (install, load)
    return finding(
        "note" if severity == "note" else "error",
        cards,
        message=f"{called(cards)} is driven by radeon: ROCm works with amdgpu alone, and this card is too old for it."
        if old
        else f"No AMD driver serves {called(cards)}{where}: {state}.",
        saw=cards[0].driver.value or "no driver",
        want="amdgpu",
        evidence=(
            Evidence.of("gpu.driver", cards[0].driver),
            Evidence.of("amd.modules_loaded", machine.amd.modules_loaded),
            *(Evidence("kernel_log", line.line, machine.kernel_log.source) for line in lines[-2:]),
        ),
        ways_out=ways_out,
        supersedes=("amd-kfd-missing",),
    )


def needs_driver_package(case: Case) -> Iterator[Finding]:
    """Described cards that a described kernel's own amdgpu does not know, where nothing is said of their driver."""
    kernel = case.machine.system.kernel
    cards = [gpu for gpu in case.usable_of("amd") if gpu.source == kernel.source and kernel_too_old(case, gpu)]
    if "amdgpu driver" not in case.machine.assumed or ".el" in (kernel.value or ""):
        return
    for group in together(cards, lambda gpu: gpu.name).values():
        first = kernel_too_old(case, group[0])
        yield finding(
            "warning",
            group,
            message=f"The amdgpu of kernel {kernel.value} does not know {called(group)}, that of Linux {first} does: "
            "here the card takes AMD's own kernel driver, amdgpu-dkms.",
            saw=kernel.value or "",
            want=f"Linux {first} or newer, or amdgpu-dkms",
            evidence=(Evidence.of("system.kernel", kernel), Evidence.of("gpu.arch", group[0].arch)),
            ways_out=(
                WayOut("Install AMD's kernel driver", (InstallRocmDriver(), Reboot())),
                WayOut(
                    f"Boot Linux {first} or newer",
                    (Manual("Install the distribution's newer kernel (HWE, backports) and boot it.", risk="reboot"),),
                ),
            ),
        )


def _start_of_amdgpu(case: Case, gpu: Gpu) -> tuple[LogFault, ...]:
    """Lines in which amdgpu says why it did not start the card."""
    log = case.machine.kernel_log.value
    of_the_start = (_FIRMWARE_MISSING, "amdgpu-init-failed")
    return about(gpu, tuple(fault for fault in log.faults if fault.kind in of_the_start)) if log else ()


def _file_of(fault: LogFault) -> str:
    found = re.search(r"amdgpu/[\w.-]+", fault.line)
    return found[0] if found else "amdgpu/..."


def _not_taken(lines: tuple[LogFault, ...]) -> tuple[WayOut, ...]:
    """Ways out where amdgpu is loaded and has left the card alone: for firmware older than the card, or unknown."""
    update = InstallSystemPackage("linux-firmware", why="the release that is here lacks files of this card")
    if any(line.kind == _FIRMWARE_MISSING for line in lines):
        return (WayOut("Update linux-firmware", (update, Reboot(why="amdgpu loads it at its start"))),)
    read = "Read why in the kernel log (`sudo dmesg | grep -i amdgpu`), update the machine's BIOS, and reboot."
    return (WayOut("Find out why amdgpu leaves the card alone", (Manual(read, risk="reboot"),)),)
