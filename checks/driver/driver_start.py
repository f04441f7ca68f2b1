"""GPUs that the driver finds and cannot start (GPD104, GPD105, GPD107)."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, by_hand
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.situation import Situation
from gpudoctor.situation.amdgpu_start import hardware_errors, no_address_space
from gpudoctor.situation.gpu_groups import finding
from gpudoctor.situation.gpu_reset import power_cycle
from gpudoctor.situation.kernel_log import lines_about, log_evidence
from gpudoctor.situation.no_kernel_driver import because
from gpudoctor.situation.nvidia_driver import answers_now, refusal
from gpudoctor.situation.seen_errors import seen_errors
from gpudoctor.situation.virtual_gpu import more_address_space
from gpudoctor.situation.working_gpus import Weight

_NO_IMAGE = "nvidia-gsp-image-missing"
"""The driver itself says so; the kernel's line about a missing file may come from the initial ramdisk."""


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
    fix = more_address_space() if guest else _above_4g()
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
        found = _failed_start(situation, gpu, hardware_errors(situation, gpu), message, power_cycle(gpu.vendor))
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
            power_cycle(gpu.vendor),
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
