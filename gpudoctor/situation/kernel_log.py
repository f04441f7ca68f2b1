"""Lines of the kernel log about a GPU."""

from __future__ import annotations

import re

from gpudoctor.finding import Evidence
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.situation import Situation

GIVEN_UP = {
    "amd": ("amdgpu-init-failed", "amdgpu-probe-failed", "amdgpu-unknown-chip"),
    "nvidia": ("nvidia-unsupported",),
}
"""By vendor: the lines in which its driver gives up a GPU."""


def lines_about(gpu: Gpu, faults: tuple[LogFault, ...]) -> tuple[LogFault, ...]:
    """The log lines that name this GPU's slot. One that names none ("NVRM: GPU6 RmInitAdapter: ...") is about a GPU
    that the others name, or about every GPU if none does."""
    slot = (gpu.bdf or "").rpartition(".")[0].lower()
    named = {fault.bdf.lower().partition(".")[0] for fault in faults if fault.bdf}
    here = not slot or not named or slot in named
    return tuple(
        fault
        for fault in faults
        if (here if fault.bdf is None else not slot or fault.bdf.lower().partition(".")[0] == slot)
    )


def lines_of(situation: Situation, gpu: Gpu, kinds: tuple[str, ...]) -> tuple[LogFault, ...]:
    """The lines of these kinds that are about this GPU, whatever the matrix says that they mean."""
    return lines_about(gpu, tuple(fault for fault in situation.machine.log_faults if fault.kind in kinds))


def refusing_driver(line: str) -> str | None:
    """The release of NVIDIA's driver that says in this line of the log that it does not support a GPU."""
    named = re.search(r"not supported by the (?:NVRM: )?(?:NVIDIA )?(\d+\.\d+(?:\.\d+)?)", line)
    return named[1] if named else None


def names_slot(fault: LogFault, gpu: Gpu) -> bool:
    """Whether the line names this GPU's slot."""
    return fault.bdf is not None and bool(lines_about(gpu, (fault,))) and gpu.bdf is not None


def log_evidence(situation: Situation, faults: tuple[LogFault, ...]) -> tuple[Evidence, ...]:
    """The last of these lines, and where they were read."""
    log = situation.machine.kernel_log
    source = log.value.source if log.value and log.value.source else log.source
    return tuple(Evidence("kernel_log", fault.line, source) for fault in faults[-2:])
