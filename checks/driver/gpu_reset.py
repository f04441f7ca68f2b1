"""GPUs that hung: the driver asks for a reset or a reboot, or their firmware does not answer (GPD130, GPD138)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Finding, Fix, Reboot, Severity, by_hand
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import finding
from gpudoctor.situation.gpu_reset import reset
from gpudoctor.situation.kernel_log import lines_of, log_evidence

_XID = "nvidia-xid"
_FAILED, _RESET_OF, _MES = "amdgpu-reset-failed", "amdgpu-reset", "amdgpu-mes-hung"
_HANGS = (_MES, "amdgpu-ring-timeout", "amdgpu-sdma-timeout")
_NEWER = (
    "Install the distribution's newest linux-firmware and kernel (or AMD's amdgpu-dkms with its firmware), and "
    "reboot. If it began with an update of linux-firmware, install the release before it."
)
_NO_GFXOFF = (
    "If the GPU hangs while it has little to do: boot with `amdgpu.ppfeaturemask=0xffff7fff` (GFXOFF is off; the GPU "
    "uses more power when idle)."
)
_ACTION = 154
_GSP = "nvidia-gsp-silent"
_RESET, _REBOOT, _DRAIN_PEERS, _DRAIN_AND_RESET = range(1, 5)


@check("GPD130", "gpu-reset-needed", "driver")
def gpu_reset_needed(situation: Situation) -> Verdicts:
    """The driver asks for a reset of a GPU, or for a reboot.

    ## Why it matters
    After some faults nvidia-smi still lists the GPU, but every new program on it fails. The driver writes the
    recovery that it needs into the kernel log (Xid 154); the GPU stays unusable until that is done. amdgpu resets a
    hanging GPU by itself. If that reset fails, ROCm no longer finds the GPU, or hangs on it, until a reboot.

    ## How it is judged
    For each GPU the last such line of this boot counts: a reset, a reboot, or no action any more. The result is a
    warning, because a reset may not be logged. It is a note if the log only has an Xid after which NVIDIA's catalogue
    asks for a reset (119: the GPU's own processor did not answer), or a missing heartbeat, unless somebody pasted the
    line as a complaint; a GPU that the driver lists now has recovered. For an AMD GPU the last finished reset counts:
    a warning if it failed. Nothing is reported if smoke kernels computed right, or if the GPU is lost (gpu-off-bus).

    ## Fix safety
    A reset or reboot ends every program on the GPU and changes nothing on disk.
    """
    for gpu in situation.machine.of_vendor("nvidia"):
        lines = lines_of(situation, gpu, (_XID, _GSP))
        requests = tuple(fault for fault in lines if fault.kind == _XID and fault.xid == _ACTION)
        hung = () if requests else _hung(situation, gpu, lines)
        action = _requested_action(requests[-1]) if requests else _RESET if hung else 0
        lost = gpu.off_bus or gpu.asked.lost  # gpu-off-bus reports it
        if not action or lost or situation.computed(gpu):
            continue
        recovered = bool(hung) and not situation.log_is_the_complaint
        severity: Severity = "note" if recovered else "warning"
        reason = requests[-1].line.rpartition("(")[2].rstrip(") ") if requests else _meaning(situation, hung[-1])
        yield finding(
            severity,
            (gpu,),
            message=f"The kernel log says that {gpu.name} needs recovery before it computes again: {reason}.",
            saw=(requests or hung)[-1].line,
            want="no recovery action",
            confidence="possible" if recovered else "likely",
            evidence=log_evidence(situation, requests or hung),
            fixes=(_recovery(gpu, action),),
            refs=("NVIDIA Xid errors catalogue",),
        )
    yield from _failed_resets(situation)


@check("GPD138", "amd-gpu-hang", "driver")
def amd_gpu_hang(situation: Situation) -> Verdicts:
    """A queue or the scheduler firmware (MES) of an AMD GPU has hung.

    ## Why it matters
    When a queue hangs, or MES, which gives the programs' queues to the GPU, programs on the GPU hang or end with a
    fault, and amdgpu resets the GPU. Hangs that come back point to the firmware, the kernel driver or power saving.

    ## How it is judged
    The check reads amdgpu's lines about queues ("ring ... timeout") and MES in the log of this boot. The result is a
    warning. It is a note if a later reset succeeded or smoke kernels have computed since; in a pasted text it stays
    a warning, because the hang is what the text tells of. If a reset failed, gpu-reset-needed reports it. Where the
    matrix knows the cause of the hang, that cause is reported as well.

    ## Fix safety
    Newer firmware or a newer kernel needs root and a reboot; the old kernel stays in the boot menu.
    """
    for gpu in situation.machine.of_vendor("amd"):
        lines = lines_of(situation, gpu, (*_HANGS, _RESET_OF, _FAILED))
        hangs = [place for place, line in enumerate(lines) if line.kind in _HANGS]
        later = lines[hangs[-1] :] if hangs else ()
        if not hangs or any(line.kind == _FAILED for line in later):
            continue
        over = situation.computed(gpu) or any(line.kind == _RESET_OF and "succe" in line.line for line in later)
        mes = any(lines[place].kind == _MES for place in hangs)
        what = "The scheduler firmware (MES)" if mes else "A queue"
        yield finding(
            "note" if over and not situation.log_is_the_complaint else "warning",
            (gpu,),
            message=f"{what} of {gpu.name} hung in this boot"
            + (", and the GPU has recovered since." if over else ": programs on it hang or fail."),
            saw=lines[hangs[-1]].line,
            confidence="likely",
            evidence=log_evidence(situation, tuple(lines[place] for place in hangs)),
            fixes=(
                by_hand("Update the GPU's firmware and the kernel", _NEWER, "reboot"),
                by_hand("Switch power saving of the graphics part off", _NO_GFXOFF, "reboot"),
            ),
            refs=("ROCm/legacy-rocm-build#5590", "ROCm/legacy-rocm-build#5724", "1bit-MONSTER/1bit-MONSTER#2013"),
        )


def _hung(situation: Situation, gpu: Gpu, lines: tuple[LogFault, ...]) -> tuple[LogFault, ...]:
    """Lines after which this GPU needs a reset. A line without an address counts for an only GPU. A GPU that the
    driver lists has recovered, or its GSP was only slow."""
    if gpu.nvml is not None and not gpu.nvml.lost:
        return ()
    alone = len(situation.machine.of_vendor("nvidia")) == 1
    resets = {row.xid for row in situation.matrix.tables.xids if row.slug == "gpu-reset-needed"}
    stopped = (fault for fault in lines if fault.kind == _GSP or fault.xid in resets)
    return tuple(fault for fault in stopped if fault.bdf or alone)


def _meaning(situation: Situation, fault: LogFault) -> str:
    meanings = {row.xid: row.meaning for row in situation.matrix.tables.xids}
    return meanings.get(fault.xid or 0, "its own processor (GSP) did not answer")


def _failed_resets(situation: Situation) -> Iterator[Finding]:
    """AMD GPUs that hung and that amdgpu could not reset."""
    for gpu in situation.machine.of_vendor("amd"):
        lines = lines_of(situation, gpu, (_RESET_OF, _FAILED))
        ended = [line for line in lines if line.kind == _FAILED or (line.kind == _RESET_OF and "succe" in line.line)]
        if not ended or ended[-1].kind != _FAILED or situation.computed(gpu):
            continue
        yield finding(
            "warning",
            (gpu,),
            message=f"{gpu.name} hung, and amdgpu could not reset it: programs on it fail or hang until a reboot.",
            saw=ended[-1].line,
            want="a GPU that was reset, or never hung",
            confidence="likely",
            evidence=log_evidence(situation, tuple(ended)),
            fixes=(Fix("Reboot the machine", (Reboot(why="a reset of the GPU has failed"),)),),
            refs=("torvalds/linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c",),
        )


def _requested_action(fault: LogFault) -> int:
    """The number of the action: 2 of "... changed from 0x0 (None) to 0x2 (Node Reboot Required)"; 0 for none."""
    number = fault.line.rpartition(" to 0x")[2][:1]
    return int(number) if number.isdecimal() else 0


def _recovery(gpu: Gpu, action: int) -> Fix:
    if action == _REBOOT:
        return Fix("Reboot the machine", (Reboot(why="the driver asks for it; a reset is not enough"),))
    if action == _DRAIN_PEERS:
        text = "End the programs on this GPU and on the GPUs that NVLink connects to it, then start them again."
        return by_hand("End the programs on the GPUs linked by NVLink", text)
    return reset(gpu, drained=action == _DRAIN_AND_RESET)
