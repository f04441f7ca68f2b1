"""Lines of the kernel log about a GPU."""

from __future__ import annotations

from gpudoctor.finding import Evidence
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.situation import Situation


def lines_about(gpu: Gpu, faults: tuple[LogFault, ...]) -> tuple[LogFault, ...]:
    """The log lines that name this GPU's slot, or no slot at all."""
    slot = (gpu.bdf or "").rpartition(".")[0].lower()
    return tuple(
        fault for fault in faults if fault.bdf is None or not slot or fault.bdf.lower().partition(".")[0] == slot
    )


def lines_of(situation: Situation, gpu: Gpu, kinds: tuple[str, ...] = ()) -> tuple[LogFault, ...]:
    """All lines of the log about this GPU, or those of some kinds, whatever the matrix says that they mean."""
    log = situation.machine.kernel_log.value
    lines = lines_about(gpu, log.faults) if log else ()
    return tuple(line for line in lines if line.kind in kinds) if kinds else lines


def names_slot(fault: LogFault, gpu: Gpu) -> bool:
    """Whether the line names this GPU's slot."""
    return fault.bdf is not None and bool(lines_about(gpu, (fault,))) and gpu.bdf is not None


def log_evidence(situation: Situation, faults: tuple[LogFault, ...]) -> tuple[Evidence, ...]:
    """The last of these lines, and where they were read."""
    log = situation.machine.kernel_log
    source = log.value.source if log.value and log.value.source else log.source
    return tuple(Evidence("kernel_log", fault.line, source) for fault in faults[-2:])
