"""Uncorrectable errors in the memory of the system (GPD140)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Finding, by_hand
from gpudoctor.situation import Situation
from gpudoctor.situation.kernel_log import log_evidence


@check("GPD140", "system-memory-error", "driver")
def system_memory_error(situation: Situation) -> Verdicts:
    """The system's memory has uncorrectable errors, and a program got SIGBUS.

    ## Why it matters
    A program that used such a page ends with "Bus error", as if it were at fault. On Grace Hopper and Grace
    Blackwell this memory may be the GPU's own, which the kernel manages as a memory node.

    ## How it is judged
    The check reads the kernel's lines about memory failures in the log of this boot. The result is a warning: the
    page is out of use, and the next one may follow.

    ## Fix safety
    A reboot ends all programs. Replacing memory means opening the machine.
    """
    lines = situation.log_faults("system-memory-error")
    if not lines or not situation.machine.gpus:
        return
    text = (
        "Read the memory's error counters (`sudo ras-mc-ctl --errors`, `sudo ipmitool sel list`; on Grace machines "
        "also `nvidia-smi -q -d ECC,ROW_REMAPPER`). Reboot, so that the page is repaired or left out, and have the "
        "module or board replaced if errors come back."
    )
    yield Finding(
        severity="warning",
        message="The kernel found uncorrectable errors in the system's memory in this boot, and ended a program with "
        "SIGBUS (bus error). The program is not the reason.",
        saw=lines[-1].line,
        want="memory without uncorrectable errors",
        subject="system memory",
        confidence="likely",
        evidence=log_evidence(situation, lines),
        fixes=(by_hand("Check the memory and reboot", text, "reboot"),),
        refs=("torvalds/linux mm/memory-failure.c",),
    )
