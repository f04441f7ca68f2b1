"""What a choice starts from: the GPUs that count, and whether the present driver runs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from gpudoctor.finding import Fix
from gpudoctor.machine import Gpu, archs_of
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import submits_to
from gpudoctor.situation.driver_choice import choice_before_torch
from gpudoctor.situation.kernel_modules import (
    described_together,
    kernel_too_old,
    kernel_with_the_chip,
    newer_than_described_kernel,
)
from gpudoctor.situation.known_issues import of_machine
from gpudoctor.situation.no_kernel_driver import because, without_kfd
from gpudoctor.situation.nvidia_driver import kernel_driver, may_be_too_new, refusal
from gpudoctor.situation.wsl import never_in_wsl


def gpus_that_count(situation: Situation) -> tuple[Gpu, ...]:
    """The usable ones; else those that a fix could make usable."""
    return situation.usable or tuple(
        standing.gpu
        for standing in situation.standings
        if standing.granted != "no" and standing.selected != "no" and not standing.gpu.reserved
    )


def arch_names(gpus: Iterable[Gpu]) -> str:
    """Their known architectures in words: "sm_86 and sm_120"."""
    return " and ".join(archs_of(gpus))


def driver_fault(situation: Situation, gpus: tuple[Gpu, ...]) -> str:
    """Why no present or possible driver runs all of the GPUs; "" if one does."""
    for gpu in gpus:
        if why := driver_refusal(situation, gpu):
            return why
    if choice_before_torch(situation, gpus):
        return "no single driver supports all of these GPUs"
    return ""


def too_new_for_the_kernel(situation: Situation, gpu: Gpu) -> bool:
    """Whether the kernel's driver does not know an AMD GPU, and so does not let it compute."""
    slug = "amd-kernel-or-runtime-too-old"
    groups = (*because(situation, slug), *without_kfd(situation, slug))
    without_access = (*newer_than_described_kernel(situation), *(one for _, gpus in groups for one in gpus))
    return gpu in without_access and kernel_too_old(situation, gpu) is not None


def driver_refusal(situation: Situation, gpu: Gpu) -> str:
    """Why the present driver, or the kernel that brings it, does not run a GPU at all; "" if it does."""
    if too_new_for_the_kernel(situation, gpu):
        kernel, first = situation.machine.system.kernel.value, kernel_too_old(situation, gpu)
        return f"kernel {kernel} is too old for {gpu.name} (from Linux {first} on)"
    if never_in_wsl(situation, gpu):
        return f"no release of ROCm supports {gpu.name} inside WSL"
    why = refusal(situation, gpu)
    if why is None:
        return ""
    matrix = situation.matrix
    sm, name, version = gpu.arch.value or "", gpu.name, kernel_driver(situation)[0]
    first, last = matrix.nvidia.first_driver(sm, gpu.chip, gpu.pci_id), matrix.nvidia.last_branch(sm)
    reason = {
        "driver-too-old": f"does not know {name} (from {first} on)",
        "nvidia-driver-dropped-gpu": f"has dropped {name} (branch {last} is its last)",
        "blackwell-open-module": f"has proprietary kernel modules, and {name} needs the open ones",
        "open-module-unsupported-gpu": f"has open kernel modules, and {name} needs the proprietary ones",
    }[why]
    return f"driver {version or 'of unknown version'} {reason}"


def change_before(situation: Situation, gpus: tuple[Gpu, ...]) -> Fix | None:
    """What must change before any build of anything: the system, the choice of GPUs, or the kernel."""
    if choice := choice_before_torch(situation, gpus):
        return choice
    too_new = next((gpu for gpu in gpus if too_new_for_the_kernel(situation, gpu)), None)
    return kernel_with_the_chip(situation, kernel_too_old(situation, too_new))[0] if too_new else None


def common_notes(situation: Situation, gpus: tuple[Gpu, ...], decides: Collection[str]) -> Iterator[str]:
    """What holds whatever is installed: known issues of these GPUs with this kernel, driver and firmware; for torch,
    the programs that choose their own; requirements of other fields and frameworks than `decides`; assumptions."""
    if submits_to(situation.machine):
        yield "Jobs are submitted from here: run this in a job with a GPU, or name the GPU of the nodes with --gpu."
    version, nvidia = kernel_driver(situation)[0] or "", situation.matrix.nvidia
    for gpu in {gpu.name: gpu for gpu in gpus if may_be_too_new(situation, gpu)}.values():
        first = nvidia.first_listing(gpu.pci_id, version)
        yield f"Driver {version} may refuse {gpu.name}: its README does not list it, and that of {first} does."
    # The kernel of this machine says nothing of a GPU that is only described.
    ours = tuple(gpu for gpu in gpus if described_together(situation, gpu))
    for row in of_machine(situation, ours) if ours else ():
        yield f"Known issue: {row.symptom}. {row.workaround}"
    if "torch" in decides:
        yield from _choosing_torch(situation)
    if asked := [one.text for one in situation.required if not {one.name, one.framework} & set(decides)]:
        verb = "does" if len(asked) == 1 else "do"
        yield f"{' and '.join(asked)} {verb} not decide which build this is; `gpudoctor check --require` judges it."
    if situation.machine.assumed:
        yield f"Assumed: {', '.join(situation.machine.assumed)}."


def _choosing_torch(situation: Situation) -> list[str]:
    rows = situation.matrix.tables.frameworks_on_torch
    programs = ((row, situation.machine.installed(row.packages[0])) for row in rows if row.chooses_torch)
    return [
        f"{row.title} {package.version} is installed, and works with the torch that it pins: "
        f"`gpudoctor recommend --framework {row.framework}` names the release for this machine."
        for row, package in programs
        if package
    ]
