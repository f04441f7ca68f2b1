"""Faults that the kernel log alone tells: of a described machine (GPD132), of NVLink and NVSwitch (GPD137), of the
memory of the system (GPD140).
"""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, NotJudged, Severity, by_hand
from gpudoctor.machine import LogFault
from gpudoctor.matrix.rows.issues import LogPattern, XidMeaning
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.kernel_log import log_evidence, names_slot

_SHOWN = 160
_CHECK_IT = "Check the machine itself"
_THERE = "Run `gpudoctor check` on the machine: it tells whether the fault is still there, and names the fix."


@check("GPD132", "log-fault-described", "driver")
def log_fault_described(situation: Situation) -> Verdicts:
    """The kernel log of a described machine has a fault that may last.

    ## Why it matters
    On a live machine the driver tells whether a GPU works again. A description says nothing of that, and what it
    leaves open is taken as healthy: a line of the log may say otherwise.

    ## How it is judged
    Only where GPUs are described. Each cause that the log names leaves the verdict open, unless a problem of the
    driver explains it. Lines that somebody pasted into a report are what they complain about: then the cause that
    they name is the problem, unless the text also shows that the GPU works. An Xid that names no cause is a warning
    if it is one of the hardware, else a note with its meaning.

    ## Fix safety
    There is nothing to fix: `gpudoctor check` on the machine itself tells more.
    """
    log = situation.machine.kernel_log.value
    pasted = situation.machine.pasted
    if log is None or not (pasted or any(gpu.source == "description" for gpu in situation.machine.gpus)):
        return
    patterns = {pattern.id: pattern for pattern in situation.matrix.tables.log_patterns}
    xids = {row.xid: row for row in situation.matrix.tables.xids}
    told: set[str | int] = set()
    for fault in log.faults:
        row = xids.get(fault.xid) if fault.xid is not None else patterns.get(fault.kind)
        if row is None or (row.slug or fault.xid) in (None, *told):
            continue
        told.add(row.slug or fault.xid or 0)
        if row.slug is None:
            if isinstance(row, XidMeaning) and situation.log_is_the_complaint:
                yield _without_cause(fault, row, log.source)
            continue
        if situation.log_is_the_complaint:
            yield _complaint(fault, row, log.source, situation.matrix.errors.workaround_of(row.slug))
            continue
        yield NotJudged(
            why=f"the kernel log says: {fault.line[:_SHOWN]} ({row.meaning}); whether that lasts is unknown",
            matters=pasted is None,
            fallback=True,
        )


def _without_cause(fault: LogFault, row: XidMeaning, source: str) -> Finding:
    """An Xid that names no cause: of the hardware it is a fault all the same."""
    of_hardware = row.kind == "hardware"
    return Finding(
        severity="warning" if of_hardware else "note",
        message=f"Xid {row.xid} in the kernel log means: {row.meaning}."
        + (" That alone is no fault of the machine." if row.kind == "application" else ""),
        saw=fault.line[:_SHOWN],
        subject="the kernel log",
        confidence="likely" if of_hardware else "possible",
        evidence=(Evidence("kernel_log", fault.line[:_SHOWN], source),),
        fixes=(by_hand(_CHECK_IT, _THERE),) if of_hardware else (),
        refs=("NVIDIA Xid errors catalogue",),
        fallback=True,
    )


def _complaint(fault: LogFault, row: LogPattern | XidMeaning, source: str, workaround: str) -> Finding:
    """`workaround` is what the matrix knows for the cause."""
    line = fault.line[:_SHOWN]
    own = row.workaround if isinstance(row, LogPattern) else ""
    fix = by_hand(own or workaround, own or workaround) if own or workaround else by_hand(_CHECK_IT, _THERE)
    return Finding(
        severity="error",
        message=f"{row.meaning[0].upper()}{row.meaning[1:]}, says the kernel log.",
        saw=line,
        subject="the kernel log",
        confidence="likely",
        evidence=(Evidence("kernel_log", line, source),),
        fixes=(fix,),
        slug=row.slug or "",
        supersedes=("no-driver",),
        fallback=True,
    )


_HARMLESS = r"(?i)\bnon-?fatal\b"


@check("GPD137", "nvlink-error", "driver")
def nvlink_error(situation: Situation) -> Verdicts:
    """The kernel log has errors of NVLink or of an NVSwitch.

    ## Why it matters
    After a fatal error on a link, programs that use several GPUs fail or hang, and NCCL cannot connect the GPUs. One
    GPU alone may still compute.

    ## How it is judged
    The check reads Xid 74, 136, 137, 144 to 150 and 155, and the SXids of NVSwitches, in the log of this boot. The
    result is a warning, because the links may have been reset since. It is a note if all lines call themselves
    non-fatal, or if smoke kernels have computed on the GPUs since.

    ## Fix safety
    A reset ends every program on the GPUs. Checking seats and cables means opening the machine.
    """
    faults = situation.log_faults("nvlink-error")
    gpus = tuple(
        gpu for gpu in situation.machine.of_vendor("nvidia") if any(names_slot(fault, gpu) for fault in faults)
    )
    switches = tuple(fault for fault in faults if not any(names_slot(fault, gpu) for gpu in gpus))
    if not faults:
        return
    fatal = tuple(fault for fault in faults if not re.search(_HARMLESS, fault.line))
    works = bool(gpus) and all(situation.computed(gpu) for gpu in gpus)
    severity: Severity = "warning" if fatal and not works else "note"
    where = called(gpus) if gpus else "an NVSwitch"
    what = _meanings(situation, fatal or faults) if len(switches) < len(faults) else "an NVSwitch reports an error"
    text = (
        "End all programs on the GPUs, then reset all of them together as root (`nvidia-smi --gpu-reset`), or "
        "reboot. Read the links with `nvidia-smi nvlink --status` and `nvidia-smi nvlink --errorcounters`. If the "
        "errors come back on one link, have its cable, bridge, seat or GPU checked."
    )
    affected = gpus or situation.machine.of_vendor("nvidia")
    if not affected:
        return
    yield finding(
        severity,
        affected,
        message=f"The kernel log has fatal NVLink errors of {where}: {what}. Programs that use "
        "several GPUs may fail until the links are reset."
        if fatal
        else f"The kernel log has NVLink errors of {where} that the driver calls non-fatal.",
        saw=(fatal or faults)[-1].line,
        want="links without errors",
        confidence="likely" if fatal else "possible",
        evidence=log_evidence(situation, fatal or faults),
        fixes=(by_hand("Reset the GPUs and check the links", text, "root"),) if fatal else (),
        refs=("NVIDIA Xid errors catalogue", "NVIDIA Fabric Manager user guide (SXid errors)"),
    )


def _meanings(situation: Situation, faults: tuple[LogFault, ...]) -> str:
    """What the Xids mean, each once: "NVLink 5: the link itself failed (Xid 149)"."""
    meanings = {row.xid: row.meaning for row in situation.matrix.tables.xids}
    seen = dict.fromkeys(fault.xid for fault in faults if fault.xid in meanings)
    return "; ".join(f"{meanings[xid]} (Xid {xid})" for xid in seen if xid is not None)


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
