"""The NVIDIA driver that is present: its versions, what it answers, which CUDA it runs, and which GPUs it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpudoctor.finding import Evidence, ModuleFlavour
from gpudoctor.machine import ASSUMED, DESCRIBED, Gpu, Library, Machine
from gpudoctor.matrix.versions import at_least, figures
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.kernel_log import lines_about
from gpudoctor.situation.kernel_modules import for_running_kernel, version_on_disk

if TYPE_CHECKING:
    from gpudoctor.matrix.nvidia import DriverVerdict

NVML_NO_PERMISSION, NVML_MISMATCH, NVML_UNKNOWN = 4, 18, 999
CUDA_NOT_INITIALISED, CUDA_NOT_READY, CUDA_MISMATCH, CUDA_UNKNOWN = 3, 802, 803, 999

Refusal = Literal[
    "driver-too-old", "nvidia-driver-dropped-gpu", "blackwell-open-module", "open-module-unsupported-gpu"
]
"""Why a driver does not run a GPU at all, by the slug of that problem: it is older than the GPU, of a later branch
than the GPU's last, proprietary where the GPU needs the open modules, or open where the GPU is too old for these."""

_EARLY_OPEN = (560,)
"""Open modules of older branches support data-centre GPUs, and GeForce GPUs only with an extra setting."""


# --- versions --------------------------------------------------------------------------------------


def kernel_driver(situation: Situation) -> tuple[str | None, ModuleFlavour | None, str]:
    """Version, flavour and source of the driver that has or would have the GPUs: the loaded module, else the one
    installed for this kernel, else what the driver answers or its libraries say."""
    nvidia = situation.machine.nvidia
    if nvidia.module.value:
        return nvidia.module.value.version, nvidia.module.value.flavour, nvidia.module.source
    if not situation.in_container and (module := for_running_kernel(situation)):
        return version_on_disk(situation) or nvidia.userland.value, module.flavour, module.path
    return nvidia.userland.value or _answered_version(situation.machine), None, nvidia.userland.source


def cuda_driver(machine: Machine) -> str | None:
    """Version of the driver whose libcuda a program loads; cuda-compat counts if the GPUs may use it. None if
    unknown, or if it is not a Linux driver number (WSL2, Jetson)."""
    if has_own_numbers(machine):
        return None
    library = machine.load_path.first("libcuda.so.1")
    gpus = machine.of_vendor("nvidia")
    compat = library if library and library.kind == "compat" and not outdated_compat(machine) else None
    if compat and compat.version and gpus and all(gpu.datacenter for gpu in gpus):
        return compat.version
    module = machine.nvidia.module.value
    return _answered_version(machine) or (module.version if module else machine.nvidia.userland.value)


def outdated_compat(machine: Machine) -> Library | None:
    """A cuda-compat that programs load and that is of an older branch than the kernel module: it serves older
    drivers, not newer ones (error 803)."""
    library, module = machine.load_path.first("libcuda.so.1"), machine.nvidia.module.value
    if library is None or library.kind != "compat" or not library.version or module is None:
        return None
    return library if figures(library.version)[:1] < figures(module.version)[:1] else None


def _answered_version(machine: Machine) -> str | None:
    answers = (api.value for api in machine.nvidia.answered if api.value)
    return next((answer.driver_version for answer in answers if answer.driver_version), None)


def driver_shown(machine: Machine) -> str:
    """The version of the driver for a person: also that of Windows, which decides nothing under WSL2."""
    if version := cuda_driver(machine):
        return version
    answered = _answered_version(machine)
    return f"{answered} of Windows" if answered and machine.system.wsl.value else answered or "unknown"


def no_driver(machine: Machine) -> bool:
    """Whether no NVIDIA driver is present, as far as its version would be known."""
    return machine.nvidia.module.absent and not has_own_numbers(machine) and cuda_driver(machine) is None


def has_own_numbers(machine: Machine) -> bool:
    """Whether driver numbers are not those of Linux: Windows has its own, also in WSL2, and Jetson that of L4T."""
    return machine.text.foreign == "windows" or machine.system.wsl.known or machine.system.jetson.known


def has_server_stack(situation: Situation, sm: str) -> bool:
    """Whether a Jetson has the CUDA of Arm servers, so that wheels for aarch64 start on it."""
    jetson, soc = situation.machine.system.jetson.value, situation.matrix.gpus.soc(sm)
    return bool(jetson and jetson.l4t and soc and soc.sbsa_from and at_least(jetson.l4t, soc.sbsa_from))


# --- what the driver itself says (level driver) ------------------------------------------------------


def cuda_status(situation: Situation) -> int | None:
    """What cuInit answered; None if nobody asked."""
    return situation.machine.nvidia.cuda.value.status if situation.machine.nvidia.cuda.value else None


def nvml_status(situation: Situation) -> int | None:
    """What NVML (else nvidia-smi) answered; None if nobody asked."""
    answers = (situation.machine.nvidia.nvml.value, situation.machine.nvidia.smi.value)
    return next((answer.status for answer in answers if answer), None)


def lists_no_gpu(situation: Situation) -> bool:
    """Whether NVML (else nvidia-smi) started and found no GPU at all ("No devices were found")."""
    answers = [api.value for api in (situation.machine.nvidia.nvml, situation.machine.nvidia.smi) if api.value]
    return any(a.devices == () for a in answers) and all(a.status == 0 and not a.devices for a in answers)


def driver_answers(situation: Situation) -> tuple[Evidence, ...]:
    """The module, the libraries, and the errors of NVML and CUDA."""
    module = situation.machine.nvidia.module
    return (
        Evidence("nvidia.module", module.value.version if module.value else module.state, module.source),
        Evidence.of("nvidia.userland", situation.machine.nvidia.userland),
        *(
            Evidence(f"nvidia.{name}", f"error {api.value.status} {api.value.message}".strip(), api.source)
            for name, api in (
                ("nvml", situation.machine.nvidia.nvml),
                ("cuda", situation.machine.nvidia.cuda),
                ("smi", situation.machine.nvidia.smi),
            )
            if api.value and api.value.status
        ),
    )


# --- which CUDA it runs ------------------------------------------------------------------------------


def stated_cuda(machine: Machine) -> str | None:
    """The newest CUDA that the driver supports, as it says itself: "12.8"."""
    stack = machine.nvidia
    answers = (api.value for api in (stack.cuda, stack.nvml, stack.smi))
    return next((answer.cuda_version for answer in answers if answer and answer.cuda_version), None)


def cudas_too_new(situation: Situation) -> tuple[tuple[str, str], ...]:
    """The majors of CUDA that the driver is too old for, each with the oldest driver that runs it; none where the
    driver is unknown or only assumed."""
    driver = cuda_driver(situation.machine)
    if driver is None or situation.machine.nvidia.module.source == ASSUMED:
        return ()
    floors = sorted((figures(row.major), row) for row in situation.matrix.tables.cuda_floors)
    return tuple((row.major, row.driver) for _, row in floors if not at_least(driver, row.driver))


@answer_once
def driver_verdict(situation: Situation, cuda: str, driver: str | None = None) -> DriverVerdict:
    """Whether the driver of this machine (or `driver`) runs a CUDA such as "12.8"."""
    version = driver or cuda_driver(situation.machine)
    by_number: DriverVerdict = situation.matrix.nvidia.driver_for_cuda(version, cuda) if version else "unknown"
    if by_number != "unknown" or driver:
        return by_number
    newest = stated_cuda(situation.machine)
    if newest is None:
        return "unknown"
    served, wanted = figures(newest), figures(cuda)
    if served >= wanted:
        return "serves"
    return "minor-version" if served[:1] == wanted[:1] else "too-old"


# --- which GPUs it refuses ---------------------------------------------------------------------------


def refusal(situation: Situation, gpu: Gpu) -> Refusal | None:
    """Why the present driver does not support a GPU at all; None if it does, or is not known to refuse it."""
    return next(iter(refusals(situation, gpu)), None)


@answer_once
def refusals(situation: Situation, gpu: Gpu) -> tuple[Refusal, ...]:
    """The first reason of branch and module flavour, and its age. If the branch or the flavour is
    unknown, the driver's own lines in the kernel log count."""
    if gpu.vendor != "nvidia" or gpu.arch.value is None or has_own_numbers(situation.machine):
        return ()
    by_rule = _by_branch_or_flavour(situation, gpu) if gpu.nvml is None else None
    age: tuple[Refusal, ...] = ("driver-too-old",) if _is_older(situation, gpu) else ()
    return (by_rule, *age) if by_rule else age


def _is_older(situation: Situation, gpu: Gpu) -> bool:
    """Whether the driver is older than the first one that knows the GPU's chip, as far as its version is given; or
    does not list the GPU, and did not take it."""
    version, _, _ = kernel_driver(situation)
    if version is None or gpu.asked.capability is not None:
        return False
    first = situation.matrix.nvidia.first_driver(gpu.arch.value, gpu.chip)
    there = figures(version)
    if first is not None and there < figures(first)[: len(there)]:
        return True
    untaken = situation.machine.nvidia.module.known and gpu.driver.absent and not situation.in_container
    return untaken and situation.matrix.nvidia.first_listing(gpu.pci_id, version) is not None


def may_be_too_new(situation: Situation, gpu: Gpu) -> bool:
    """Whether a driver that was only described does not list the GPU, though it knows its chip. It may work all the
    same, and whoever saw the GPU work knows better."""
    version, _, source = kernel_driver(situation)
    if (
        source != DESCRIBED
        or situation.machine.pasted is not None
        or version is None
        or gpu.nvml is not None
        or has_own_numbers(situation.machine)
    ):
        return False
    unlisted = situation.matrix.nvidia.first_listing(gpu.pci_id, version) is not None
    return unlisted and not refusals(situation, gpu)


def _by_branch_or_flavour(situation: Situation, gpu: Gpu) -> Refusal | None:
    version, flavour, _ = kernel_driver(situation)
    sm, branch = gpu.arch.value or "", figures(version or "")[:1]
    last, rule = situation.matrix.nvidia.last_branch(sm), situation.matrix.nvidia.module_flavour(sm, gpu.name)

    def says(reason: Refusal) -> bool:
        return bool(lines_about(gpu, situation.log_faults(reason)))

    if last is not None and (branch > figures(last)[:1] or (not branch and says("nvidia-driver-dropped-gpu"))):
        return "nvidia-driver-dropped-gpu"
    if rule == "required" and (flavour == "proprietary" or (flavour is None and says("blackwell-open-module"))):
        return "blackwell-open-module"
    if rule == "refused" and (flavour == "open" or (flavour is None and says("open-module-unsupported-gpu"))):
        return "open-module-unsupported-gpu"
    # Early open modules log it if they lack the setting for a GeForce GPU; the line names none.
    early = rule == "supported" and flavour == "open" and () < branch < _EARLY_OPEN and not gpu.datacenter
    return "open-module-unsupported-gpu" if early and says("open-module-unsupported-gpu") else None


def answers_now(situation: Situation, gpu: Gpu) -> bool | None:
    """Whether the driver lists the GPU as alive now; None where the driver was not asked."""
    if gpu.nvml is not None:
        return not gpu.nvml.lost
    for api in situation.machine.nvidia.answered:
        if api.value and api.value.devices is not None and api.value.status == 0:
            return None if any(not device.bdf for device in api.value.devices) else False
    return None
