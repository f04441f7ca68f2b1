"""GPUs that fell off the bus or have damaged memory (GPD102, GPD103)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, Fix, Reboot, by_hand, gpu_subject
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.situation import Situation
from gpudoctor.situation.amdgpu_start import bad_pages
from gpudoctor.situation.gpu_groups import called, finding, group_by
from gpudoctor.situation.gpu_reset import EFFECTS_OF_A_LOST_GPU, power_cycle, reset
from gpudoctor.situation.kernel_log import lines_about, log_evidence
from gpudoctor.situation.no_kernel_driver import because
from gpudoctor.situation.nvidia_driver import answers_now
from gpudoctor.situation.working_gpus import Weight

_NVML_LOST = 15
_UNCONTAINED = (64, 95, 140)
"""Xids after which the GPU computes nothing until it is reset."""
_RESET = "GPU requires reset"
_INIT_FAILED = ("nvidia-init-mapping", "nvidia-init-gsp", "nvidia-init-failed")


@check("GPD102", "gpu-off-bus", "driver")
def gpu_off_bus(situation: Situation) -> Verdicts:
    """A GPU has fallen off the PCI bus.

    ## Why it matters
    The GPU was there at boot and no longer answers. Every program on it fails until the machine is power-cycled, and
    the problem often returns soon. Usual causes are the power supply, riser, slot, heat, or a dying GPU.

    ## How it is judged
    Certain if the driver calls the GPU lost, if its PCI registers read as all ones, or if the loaded driver has not
    taken the GPU for this reason; also if the kernel log says that the GPU fell off the bus (NVIDIA Xid 79) and that
    the driver could not start it since. Xid 79 alone is a note: a reset may have helped. In a text that somebody
    pasted it is the complaint, and an error, unless the text also shows that the GPU answers.

    ## Fix safety
    A power cycle changes nothing on disk. Reseating the GPU means opening the machine.
    """
    refused = {gpu.key for _, gpus in because(situation, "gpu-off-bus") for gpu in gpus}
    falls = [fall for gpu in situation.machine.gpus if (fall := _fall(situation, gpu, gpu.key in refused))]
    equal = group_by(falls, lambda fall: (fall.gpu.vendor, fall.state, fall.sure, fall.saw))
    for (vendor, state, sure, saw), alike in equal.items():
        gpus, lines = tuple(fall.gpu for fall in alike), tuple(line for fall in alike for line in fall.lines)
        messages = {
            "asks": f"{called(gpus)} no longer works: its driver says that it must be reset.",
            "gone": f"{called(gpus)} has fallen off the PCI bus: the driver can no longer reach it.",
            "fell": f"The kernel log says that {called(gpus)} fell off the PCI bus earlier in this boot.",
        }
        fixes = {"asks": (reset(*gpus),), "gone": (power_cycle(vendor),), "fell": ()}
        yield finding(
            "note" if state == "fell" else "error",
            gpus,
            message=messages[state],
            saw=(saw or (lines[-1].line if lines else "lost")) + _slots(gpus),
            confidence="possible" if state == "fell" else "certain" if sure else "likely",
            evidence=(
                *(Evidence("gpu.off_bus", str(gpu.off_bus).lower(), gpu.source) for gpu in gpus[:4]),
                *log_evidence(situation, lines),
            ),
            fixes=fixes[state],
            supersedes=EFFECTS_OF_A_LOST_GPU,
        )
    lost = next((api for api in (situation.machine.nvidia.nvml, situation.machine.nvidia.smi) if api.value), None)
    if (
        lost
        and lost.value
        and lost.value.status == _NVML_LOST
        and not any(gpu.off_bus or gpu.asked.lost for gpu in situation.machine.gpus)
    ):
        yield Finding(
            severity="error",
            message="The NVIDIA driver says that a GPU is lost: it has fallen off the PCI bus.",
            saw=lost.value.message or f"NVML error {_NVML_LOST}",
            subject="NVIDIA driver",
            evidence=(
                Evidence.of("nvidia.nvml", lost),
                *log_evidence(situation, situation.log_faults("gpu-off-bus")),
            ),
            fixes=(power_cycle("nvidia"),),
            supersedes=EFFECTS_OF_A_LOST_GPU,
        )


def _slots(gpus: tuple[Gpu, ...]) -> str:
    """Where several of them are: one alone is named by its number."""
    return f" ({', '.join(gpu.bdf or gpu_subject(gpu) for gpu in gpus)})" if len(gpus) > 1 else ""


class _Fall(Struct, frozen=True):
    """How a GPU fell off the bus: it is gone, asks for a reset, or only the log says that it once fell."""

    gpu: Gpu
    state: Literal["gone", "asks", "fell"]
    sure: bool
    saw: str
    lines: tuple[LogFault, ...]


def _fall(situation: Situation, gpu: Gpu, refused: bool) -> _Fall | None:
    """`refused`: the loaded driver has not taken the GPU for this reason."""
    lines = _told_of(situation, gpu, "gpu-off-bus")
    alive = answers_now(situation, gpu)
    missing = bool(lines) and (alive is False or (alive is None and _failed_after(situation, gpu, lines[-1])))
    sure = gpu.off_bus or gpu.asked.lost or missing or refused
    gone = sure or (bool(lines) and alive is None and situation.log_is_the_complaint)
    if not gone:
        return _Fall(gpu, "fell", False, "", lines) if lines else None
    if gpu.off_bus:
        return _Fall(gpu, "gone", sure, "PCI registers read ff", lines)
    why = gpu.nvml.why or "lost" if gpu.nvml else ""
    return _Fall(gpu, "asks" if why == _RESET else "gone", sure, why, lines)


def _told_of(situation: Situation, gpu: Gpu, slug: str) -> tuple[LogFault, ...]:
    """The lines about this GPU; one that names no slot counts where there is no other GPU."""
    alone = len(situation.machine.gpus) == 1
    return lines_about(gpu, tuple(fault for fault in situation.log_faults(slug) if fault.bdf or alone))


def _failed_after(situation: Situation, gpu: Gpu, fall: LogFault) -> bool:
    """Whether the driver could not start the GPU after that line."""
    log = situation.machine.kernel_log.value
    later = log.faults[log.faults.index(fall) + 1 :] if log and fall in log.faults else ()
    return bool(lines_about(gpu, tuple(line for line in later if line.kind in _INIT_FAILED)))


@check("GPD103", "gpu-ecc", "driver")
def gpu_ecc(situation: Situation) -> Verdicts:
    """A GPU has uncorrectable memory errors.

    ## Why it matters
    Uncorrectable errors end the programs that hit them. If a row remapping failed, the memory cannot repair itself.

    ## How it is judged
    The check reads the driver's own counters. Errors since the driver was loaded, and a remapping that is pending or
    has failed, are errors. Counts over the GPU's life are history: a note. Log lines without counters are a note; but
    if amdgpu wrote that the GPU retired more pages than it may, and did not take the GPU, that is the cause.

    ## Fix safety
    A reset or reboot ends every program on the GPU and changes nothing on disk. Past errors need no fix.
    """
    worn_out = {gpu.key: severity for severity, gpus in because(situation, "gpu-ecc") for gpu in gpus}
    for gpu in situation.machine.gpus:
        worn = worn_out.get(gpu.key)
        lines = bad_pages(situation, gpu) if worn else _told_of(situation, gpu, "gpu-ecc")
        if found := _worn_out(gpu, lines, worn) if worn else _memory_errors(gpu, lines):
            yield replace(
                found,
                subject=gpu_subject(gpu),
                device=Device.of(gpu),
                evidence=(*found.evidence, *log_evidence(situation, lines)),
            )


def _worn_out(gpu: Gpu, lines: tuple[LogFault, ...], severity: Weight) -> Finding:
    text = "Take the GPU out of service and have it replaced: more of its memory is bad than it may have."
    return Finding(
        severity=severity,
        message=f"{gpu.name} has retired more memory pages than it may, so amdgpu does not start it.",
        saw=lines[-1].line,
        want="fewer bad pages than the threshold",
        evidence=(Evidence.of("gpu.driver", gpu.driver),),
        fixes=(by_hand("Replace the GPU", text),),
        supersedes=("no-driver",),
    )


def _memory_errors(gpu: Gpu, lines: tuple[LogFault, ...]) -> Finding | None:
    state = gpu.nvml
    if state is not None and state.remap_failed:
        text = "Take the GPU out of service and have it replaced: its memory can no longer remap bad rows."
        return Finding(
            severity="error",
            message=f"{gpu.name}: a memory row could not be remapped. The GPU needs service.",
            saw="row remapping failed",
            want="no failed remapping",
            evidence=(Evidence("nvml.remap_failed", "true", "NVML"),),
            fixes=(by_hand("Replace the GPU", text),),
        )
    uncontained = next((line.line for line in reversed(lines) if line.xid in _UNCONTAINED), "")
    if state is not None and (state.ecc_uncorrectable or (state.remap_pending and uncontained)):
        title = "Reboot, so that the bad rows are remapped; replace the GPU if errors come back"
        return Finding(
            severity="error",
            message=f"{gpu.name} has uncorrectable memory errors. It must be reset before it is used again.",
            saw=f"{state.ecc_uncorrectable} uncorrectable errors since the driver was loaded"
            if state.ecc_uncorrectable
            else uncontained,
            want="no uncorrectable errors",
            evidence=(
                Evidence("nvml.ecc_uncorrectable", str(state.ecc_uncorrectable), "NVML"),
                Evidence("nvml.remap_pending", str(state.remap_pending), "NVML"),
            ),
            fixes=(Fix(title, (Reboot(why="row remapping takes effect at a reset of the GPU"),)),),
        )
    if state is not None and state.remap_pending:
        return Finding(
            severity="error",
            message=f"{gpu.name} has a bad row of memory that is remapped only when the GPU is reset.",
            saw="a row remapping is pending",
            want="no pending remapping",
            evidence=(Evidence("nvml.remap_pending", "true", "NVML"),),
            fixes=(reset(gpu, drained=True),),
        )
    ever = state.ecc_uncorrectable_ever if state else None
    if not (ever or lines):
        return None
    return Finding(
        severity="note",
        message=f"{gpu.name} had uncorrectable memory errors in the past; it has none now."
        if state
        else f"The kernel log shows memory errors of {gpu.name}; its error counters were not read.",
        saw=f"{ever} over the GPU's life" if ever else lines[-1].line,
        confidence="certain" if state else "possible",
        evidence=(Evidence("nvml.ecc_uncorrectable_ever", str(ever), "NVML"),),
        fixes=(reset(gpu),) if uncontained and state is None else (),
    )
