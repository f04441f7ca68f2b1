"""GPUs that fell off the bus, are damaged, or do not start (GPD102 to GPD105, GPD107)."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, Fix, Reboot, by_hand, gpu_subject
from gpudoctor.machine import Gpu, LogFault, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.amdgpu_start import bad_pages, hardware_errors, no_address_space
from gpudoctor.situation.gpu_groups import called, finding, group_by
from gpudoctor.situation.gpu_reset import EFFECTS_OF_A_LOST_GPU, reset
from gpudoctor.situation.kernel_log import lines_about, log_evidence
from gpudoctor.situation.no_kernel_driver import Weight, because
from gpudoctor.situation.nvidia_driver import answers_now, refusal
from gpudoctor.situation.seen_errors import seen_errors

_NVML_LOST = 15
_UNCONTAINED = (64, 95, 140)
"""Xids after which the GPU computes nothing until it is reset."""
_RESET = "GPU requires reset"
_NO_IMAGE = "nvidia-gsp-image-missing"
"""The driver itself says so; the kernel's line about a missing file may come from the initial ramdisk."""
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
        fixes = {"asks": (reset(*gpus),), "gone": (_power_cycle(vendor),), "fell": ()}
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
        and not any(gpu.off_bus or (gpu.nvml and gpu.nvml.lost) for gpu in situation.machine.gpus)
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
            fixes=(_power_cycle("nvidia"),),
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
    sure = gpu.off_bus or (gpu.nvml is not None and gpu.nvml.lost) or missing or refused
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


def _power_cycle(vendor: Vendor) -> Fix:
    report = "First save the report of `sudo nvidia-bug-report.sh`. " if vendor == "nvidia" else ""
    text = (
        f"{report}Shut the machine down, disconnect its power for a minute, and start it again. If the GPU is lost "
        "again: reseat it, check its power cables and temperature, and try another slot without a riser. If that "
        "does not help, have it replaced."
    )
    title = "Power-cycle the machine and check the GPU's seat, power and cooling"
    return by_hand(title, text, "reboot")


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


@check("GPD104", "driver-init-failed-bios", "driver")
def driver_init_failed_bios(situation: Situation) -> Verdicts:
    """The driver cannot start a GPU because of firmware settings.

    ## Why it matters
    The firmware did not give the GPU enough address space (Resizable BAR, Above 4G Decoding); in a virtual machine
    with a passed-through GPU, the hypervisor did not. The driver sees the GPU on the bus but cannot start it, and
    nvidia-smi says "No devices were found".

    ## How it is judged
    The check reads the codes that the driver writes into the kernel log, for GPUs that the driver does not list as
    working. At level static the GPU's present state is unknown, so the result is likely, not certain. An AMD GPU
    counts if the kernel had no address space for it and amdgpu then gave it up.

    ## Fix safety
    A person changes the firmware settings; note the old values. No file on disk changes.
    """
    guest = situation.machine.system.virtual_machine.known
    giver = "the hypervisor" if guest else "the firmware"
    fix = _more_address_space() if guest else _above_4g()
    for severity, gpu in _given_up(situation, "driver-init-failed-bios"):
        message = f"amdgpu cannot start {gpu.name}: {giver} gives it too little address space."
        found = _failed_start(situation, gpu, no_address_space(situation, gpu), message, fix)
        yield replace(found, severity=severity)
    for gpu, lines in _failed_starts(situation, "driver-init-failed-bios"):
        if _has_left(situation, gpu):
            continue
        message = f"The NVIDIA driver cannot start {gpu.name}: {giver} gives it too little address space."
        yield _failed_start(situation, gpu, lines, message, fix)


def _above_4g() -> Fix:
    text = (
        'Enter the firmware setup (BIOS/UEFI), switch on "Above 4G Decoding" and "Resizable BAR" '
        "(also called Re-Size BAR, Smart Access Memory), update the firmware if they are missing, and boot again."
    )
    return by_hand("Switch on Above 4G Decoding and Resizable BAR", text, "reboot")


def _more_address_space() -> Fix:
    """For a GPU that is passed through to a virtual machine, whose firmware setup has no such switches."""
    text = (
        "Let the virtual machine start with UEFI (OVMF) and the machine type q35, and give it an address space above "
        "4 GiB that is larger than the GPU's memory. QEMU: `-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=262144`; "
        "VMware: pciPassthru.use64bitMMIO = TRUE and pciPassthru.64bitMMIOSizeGB. If that does not help, switch on "
        '"Above 4G Decoding" in the firmware setup of the host.'
    )
    return by_hand("Give the virtual machine more address space for the GPU", text, "reboot")


@check("GPD105", "driver-init-failed-hw", "driver")
def driver_init_failed_hw(situation: Situation) -> Verdicts:
    """The driver cannot start a GPU: the GPU itself does not come up.

    ## Why it matters
    The GPU's management processor (GSP) or its firmware does not come up, because of power, seat, slot or the GPU.

    ## How it is judged
    The check reads the codes that the driver writes into the kernel log, for GPUs that the driver does not list as
    working. Firmware settings and the wrong module flavour leave similar lines; they are checked first. An AMD GPU
    counts if it reported an uncorrectable hardware error and amdgpu gave it up.

    ## Fix safety
    A power cycle changes nothing on disk. Reseating the GPU means opening the machine.
    """
    for severity, gpu in _given_up(situation, "driver-init-failed-hw"):
        message = f"amdgpu cannot start {gpu.name}: it reports an uncorrectable hardware error."
        found = _failed_start(situation, gpu, hardware_errors(situation, gpu), message, _power_cycle(gpu.vendor))
        yield replace(found, severity=severity)
    for gpu, lines in _failed_starts(situation, "driver-init-failed-hw"):
        if _has_left(situation, gpu) or any(
            lines_about(gpu, situation.log_faults(slug))
            for slug in ("driver-init-failed-bios", "nvidia-firmware-missing")
        ):
            continue
        yield _failed_start(
            situation,
            gpu,
            lines,
            f"The NVIDIA driver cannot start {gpu.name}: the GPU itself does not come up.",
            _power_cycle(gpu.vendor),
        )


@check("GPD107", "nvidia-firmware-missing", "driver")
def nvidia_firmware_missing(situation: Situation) -> Verdicts:
    """The NVIDIA driver cannot find the firmware file that its GPU needs.

    ## Why it matters
    From Turing on, the driver loads a program into the GPU's own processor (GSP), and the open kernel modules cannot
    work without it. The GPU does not start, and nvidia-smi says "No devices were found".

    ## How it is judged
    The check reads the kernel's line about the file, for a GPU that the driver does not list. If the driver was not
    asked, the check looks for the file itself. If it cannot look, the result is a note: the initial ramdisk often
    lacks the file, and the driver finds it later.

    ## Fix safety
    The file is added; nothing is removed.
    """
    for gpu, lines in _failed_starts(situation, "nvidia-firmware-missing"):
        file = re.search(r"nvidia/[\w./]+", lines[-1].line)
        name = f"/lib/firmware/{file[0]}" if file else "/lib/firmware/nvidia/..."
        version = name.split("/")[4] if file else "VERSION"
        text = (
            f"Install the firmware of driver {version}, the loaded version. The package is "
            f"nvidia-firmware-{version.partition('.')[0]}-{version} (Ubuntu), firmware-nvidia-gsp (Debian), "
            "xorg-x11-drv-nvidia (RPM Fusion), nvidia-utils (Arch). If the file is already there, rebuild the "
            "initial ramdisk, which lacks it (`sudo update-initramfs -u`; `sudo dracut --force`). Then reboot."
        )
        present = _firmware_present(situation, name)
        if present and answers_now(situation, gpu) is None:
            continue
        sure = answers_now(situation, gpu) is False or present is False or lines[-1].kind == _NO_IMAGE
        found = _failed_start(
            situation,
            gpu,
            lines,
            f"The NVIDIA driver cannot start {gpu.name}: the firmware file {name} is missing."
            if sure
            else f"The NVIDIA driver did not find {name}, which {gpu.name} needs; it may have since.",
            by_hand("Install the driver's firmware", text, "reboot"),
        )
        yield found if sure else replace(found, severity="note", confidence="possible", fixes=(), supersedes=())


def _firmware_present(situation: Situation, path: str) -> bool | None:
    """Whether a firmware file of the loaded driver is present now, compressed or not; None if nobody looked."""
    folder, _, name = path.rpartition("/")
    files = situation.machine.nvidia.firmware
    module = situation.machine.nvidia.module.value
    if module is None or not folder.endswith(f"/{module.version}") or not (files.known or files.absent):
        return None
    return any(file.startswith(name) for file in files.value or ())


def _has_left(situation: Situation, gpu: Gpu) -> bool:
    """Whether the log or a message says that the GPU left the bus: then it does not start, whatever else is well."""
    told = any(row is not None and row.slug == "gpu-off-bus" for _, row in seen_errors(situation))
    return told or bool(lines_about(gpu, situation.log_faults("gpu-off-bus")))


def _failed_starts(situation: Situation, slug: str) -> list[tuple[Gpu, tuple[LogFault, ...]]]:
    """GPUs with these log lines that the driver neither lists as working nor refuses by rule."""
    found = []
    for gpu in situation.machine.of_vendor("nvidia"):
        lines = lines_about(gpu, situation.log_faults(slug))
        if lines and not answers_now(situation, gpu) and not refusal(situation, gpu) and not situation.in_container:
            found.append((gpu, lines))
    return found


def _given_up(situation: Situation, slug: str) -> list[tuple[Weight, Gpu]]:
    """The AMD GPUs that amdgpu gave up for this reason."""
    return [(weight, gpu) for weight, gpus in because(situation, slug) for gpu in gpus if gpu.vendor == "amd"]


def _failed_start(situation: Situation, gpu: Gpu, lines: tuple[LogFault, ...], message: str, fix: Fix) -> Finding:
    return finding(
        "error",
        (gpu,),
        message=message,
        saw=lines[-1].line,
        want="a GPU that the driver can start",
        confidence="certain" if answers_now(situation, gpu) is False else "likely",
        evidence=(_state(situation, gpu), *log_evidence(situation, lines)),
        fixes=(fix,),
        supersedes=("no-driver",),
    )


def _state(situation: Situation, gpu: Gpu) -> Evidence:
    """What shows that the GPU does not work now."""
    if gpu.vendor == "amd":
        return Evidence.of("gpu.driver", gpu.driver)
    return Evidence.of("nvidia.nvml", situation.machine.nvidia.nvml)
