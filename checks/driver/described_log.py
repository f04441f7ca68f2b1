"""Faults in the kernel log of a machine that is only described (GPD132)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, NotJudged, by_hand
from gpudoctor.machine import LogFault
from gpudoctor.matrix.rows.issues import LogPattern, XidMeaning
from gpudoctor.situation import Situation

_SHOWN = 160
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
    they name is the problem, unless the text also shows that the GPU works.

    ## Fix safety
    There is nothing to fix: `gpudoctor check` on the machine itself tells more.
    """
    log = situation.machine.kernel_log.value
    pasted = situation.machine.pasted
    if log is None or not (pasted or any(gpu.source == "description" for gpu in situation.machine.gpus)):
        return
    patterns = {pattern.id: pattern for pattern in situation.matrix.tables.log_patterns}
    xids = {row.xid: row for row in situation.matrix.tables.xids}
    told = set()
    for fault in log.faults:
        row = xids.get(fault.xid) if fault.xid is not None else patterns.get(fault.kind)
        if row is None or row.slug is None or row.slug in told:
            continue
        told.add(row.slug)
        if situation.log_is_the_complaint:
            yield _complaint(fault, row, log.source)
            continue
        yield NotJudged(
            why=f"the kernel log says: {fault.line[:_SHOWN]} ({row.meaning}); whether that lasts is unknown",
            matters=pasted is None,
            fallback=True,
        )


def _complaint(fault: LogFault, row: LogPattern | XidMeaning, source: str) -> Finding:
    line = fault.line[:_SHOWN]
    fix = by_hand("Check the machine itself", _THERE)
    if isinstance(row, LogPattern) and row.workaround:
        fix = by_hand(row.workaround, row.workaround)
    return Finding(
        severity="error",
        message=f"The kernel log says: {line.rstrip('.')}. It means: {row.meaning}.",
        saw=line,
        subject="the kernel log",
        confidence="likely",
        evidence=(Evidence("kernel_log", line, source),),
        fixes=(fix,),
        slug=row.slug or "",
        supersedes=("no-driver",),
        fallback=True,
    )
