"""Faults in the kernel log of a machine that is only described (GPD132)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import NotJudged
from gpudoctor.situation import Situation

_SHOWN = 160


@check("GPD132", "log-fault-described", "driver")
def log_fault_described(situation: Situation) -> Verdicts:
    """The kernel log of a described machine has a fault that may last.

    ## Why it matters
    On a live machine the driver tells whether a GPU works again. A description says nothing of that, and what it
    leaves open is taken as healthy: a line of the log may say otherwise.

    ## How it is judged
    Only where GPUs are described. Each cause that the log names leaves the verdict open, unless a problem of the
    driver explains it.

    ## Fix safety
    There is nothing to fix: `gpudoctor check` on the machine itself tells more.
    """
    log = situation.machine.kernel_log.value
    if log is None or not any(gpu.source == "description" for gpu in situation.machine.gpus):
        return
    patterns = {pattern.id: pattern for pattern in situation.matrix.tables.log_patterns}
    xids = {row.xid: row for row in situation.matrix.tables.xids}
    told = set()
    for fault in log.faults:
        row = xids.get(fault.xid) if fault.xid is not None else patterns.get(fault.kind)
        if row is None or row.slug is None or row.slug in told:
            continue
        told.add(row.slug)
        yield NotJudged(
            why=f"the kernel log says: {fault.line[:_SHOWN]} ({row.meaning}); whether that lasts is unknown",
            matters=True,
            fallback=True,
        )
