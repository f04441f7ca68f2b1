"""GPUs that the driver itself wants reset, or the machine rebooted (GPD130)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Finding, Fix, Manual, Reboot, Severity, gpu_subject
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_reset import reset
from gpudoctor.situation.kernel_log import lines_about, log_evidence

_XID = "nvidia-xid"
_FAILED, _RESET_OF = "amdgpu-reset-failed", "amdgpu-reset"
_ACTION = 154
_PROCESSOR_IS_GONE = (119, 120)
_RESET, _REBOOT, _DRAIN_PEERS, _DRAIN_AND_RESET = range(1, 5)


@check("GPD130", "gpu-reset-needed", "driver")
def gpu_reset_needed(situation: Situation) -> Verdicts:
    """The driver asks for a reset of a GPU, or for a reboot.

    ## Why it matters
    After some faults the GPU still stands in nvidia-smi, and every new program on it fails. The driver writes what
    it takes to recover into the kernel log (Xid 154); it stays so until that is done. amdgpu resets a GPU that hangs
    by itself; where that fails, ROCm finds the GPU no more, or hangs on it, until a reboot.

    ## How it is judged
    By the last such line of this boot for the GPU: a reset, a reboot, or none any more. A warning, as a reset may
    not be logged. Where only the GPU's own processor (GSP) is said not to answer (Xid 119, 120), a note. Of
    an AMD GPU the last reset that ended counts: a warning where it failed. Nothing where smoke kernels computed
    right, and for a GPU that is lost (gpu-off-bus).

    ## Fix safety
    A reset or reboot ends every program on the GPU, and changes nothing on disk.
    """
    log = situation.machine.kernel_log.value
    for gpu in situation.machine.of_vendor("nvidia") if log and log.faults else ():
        lines = lines_about(gpu, tuple(fault for fault in log.faults if fault.kind == _XID)) if log else ()
        told = tuple(fault for fault in lines if fault.xid == _ACTION)
        silent = () if told or gpu.nvml else tuple(fault for fault in lines if fault.xid in _PROCESSOR_IS_GONE)
        action = _asked(told[-1]) if told else _RESET if silent else 0
        lost = gpu.off_bus or bool(gpu.nvml and gpu.nvml.lost)  # that has its own finding
        if not action or lost or situation.computed(gpu):
            continue
        severity: Severity = "note" if silent else "warning"
        said = told[-1].line.rpartition("(")[2].rstrip(") ") if told else "its own processor (GSP) did not answer"
        yield Finding(
            severity=severity,
            message=f"The driver's log says that {gpu.name} has to recover before it computes again: {said}.",
            saw=(told or silent)[-1].line,
            want="no recovery action",
            subject=gpu_subject(gpu),
            device=Device.of(gpu),
            confidence="possible" if silent else "likely",
            evidence=log_evidence(situation, told or silent),
            fixes=(_recovery(gpu, action),),
            refs=("NVIDIA Xid errors catalogue",),
        )
    yield from _resets_that_failed(situation)


def _resets_that_failed(situation: Situation) -> Iterator[Finding]:
    """AMD GPUs that hung, and that amdgpu could not bring back."""
    log = situation.machine.kernel_log.value
    for gpu in situation.machine.of_vendor("amd") if log and log.faults else ():
        lines = lines_about(gpu, log.faults) if log else ()
        ended = [line for line in lines if line.kind == _FAILED or (line.kind == _RESET_OF and "succe" in line.line)]
        if not ended or ended[-1].kind != _FAILED or situation.computed(gpu):
            continue
        yield Finding(
            severity="warning",
            message=f"{gpu.name} hung, and amdgpu could not reset it: until a reboot programs on it fail or hang.",
            saw=ended[-1].line,
            want="a GPU that was reset, or never hung",
            subject=gpu_subject(gpu),
            device=Device.of(gpu),
            confidence="likely",
            evidence=log_evidence(situation, tuple(ended)),
            fixes=(Fix("Reboot the machine", (Reboot(why="a reset of the GPU has failed"),)),),
            refs=("torvalds/linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c",),
        )


def _asked(fault: LogFault) -> int:
    """The action's number: 2 of "... changed from 0x0 (None) to 0x2 (Node Reboot Required)"; 0 for none."""
    number = fault.line.rpartition(" to 0x")[2][:1]
    return int(number) if number.isdecimal() else 0


def _recovery(gpu: Gpu, action: int) -> Fix:
    if action == _REBOOT:
        return Fix("Reboot the machine", (Reboot(why="the driver asks for it; a reset is not enough"),))
    if action == _DRAIN_PEERS:
        text = "End the programs on this GPU and on those that it is linked to by NVLink, then start them again."
        return Fix("End the programs that use the GPU's links", (Manual(text),))
    return reset(gpu, drained=action == _DRAIN_AND_RESET)
