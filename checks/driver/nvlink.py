"""Faults of NVLink and NVSwitch in the kernel log (GPD137)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Severity, by_hand
from gpudoctor.machine import LogFault
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.kernel_log import log_evidence, names_slot

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
