"""What a job requires of this machine (GPD910)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import ABSENCE, Device, Evidence, Finding, Fix, NotJudged, by_hand
from gpudoctor.isa import dotted
from gpudoctor.machine import Gpu
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.no_kernel_driver import loads_at_first_use
from gpudoctor.situation.nvidia_driver import cuda_driver

if TYPE_CHECKING:
    from gpudoctor.requirement import Requirement


class _Unknown(Exception):  # noqa: N818 - no error
    """The value of what is required is unknown; the text says why."""


@check("GPD910", "requirement-not-met", "gpudoctor")
def requirement_not_met(situation: Situation) -> Verdicts:
    """This machine does not meet a requirement.

    ## Why it matters
    Someone stated with `--require` what the job needs. Here it would fail, or run otherwise than intended.

    ## How it is judged
    gpudoctor looks at the usable GPUs. All of them must meet a requirement on GPUs, or at least one with any(...);
    without a usable GPU none is met. Versions are compared number by number, as far as the requirement names them.

    ## Fix safety
    Installs the release of the framework, or the NVIDIA driver, that is required, if one supports the GPUs here. For
    all else nothing is changed: run the job on another machine, or correct the requirement.
    """
    for requirement in situation.required:
        try:
            met, saw, source = _judged(situation, requirement)
        except _Unknown as why:
            yield NotJudged(why=f"{requirement.text} is required, and {why}", matters=True)
            continue
        if not met:
            yield _finding(situation, requirement, saw, source)


def _finding(situation: Situation, requirement: Requirement, saw: str, source: str) -> Finding:
    """The unmet requirement. If a GPU or torch is missing, whatever removed it is the possible cause."""
    out = tuple(standing.gpu for standing in situation.standings if not standing.usable)
    short_of_gpus = (requirement.needs_gpu and not situation.usable_count) or (
        requirement.name == "gpu" and bool(out)
    )
    causes: tuple[str, ...] = (ABSENCE,) if short_of_gpus else ()
    if requirement.needs_torch and situation.torch is None:
        causes = ("torch-missing",)
    return Finding(
        severity="error",
        message=f"{requirement.text} is required, and this machine has {saw}.",
        saw=saw,
        want=requirement.text,
        subject="what is required",
        evidence=(Evidence(requirement.text, saw, source),),
        devices=tuple(map(Device.of, out)) if short_of_gpus else (),
        possible_causes=causes,
        fixes=(
            *_fixes(situation, requirement),
            by_hand(
                "Run the job where the requirement is met",
                f"Start the job on a machine with {requirement.text}, or change the requirement.",
            ),
        ),
    )


def _fixes(situation: Situation, requirement: Requirement) -> tuple[Fix, ...]:
    """What can be installed here so that the requirement is met."""
    if requirement.name in ("driver", "driver.cuda"):
        return tuple(_drivers(situation, requirement))
    if requirement.framework or requirement.name == "rocm":
        from gpudoctor.frameworks.required_release import fixes_for

        return fixes_for(situation, requirement)
    return ()


def _drivers(situation: Situation, requirement: Requirement) -> Iterator[Fix]:
    from gpudoctor.situation.driver_choice import driver_to_install

    matrix, of_cuda, wanted = situation.matrix, requirement.name == "driver.cuda", requirement.values[0]
    oldest = matrix.nvidia.bundled_driver(wanted) if of_cuda else wanted
    driver = driver_to_install(situation, at_least=oldest, why=f"{requirement.text} is required") if oldest else None
    if driver and requirement.admits(matrix.nvidia.cuda_served(driver.minimum) or "" if of_cuda else driver.minimum):
        yield Fix(f"Install NVIDIA driver {driver.branch}", (driver,))


def _judged(situation: Situation, requirement: Requirement) -> tuple[bool, str, str]:
    """Whether it is met, what the machine has, and where that was read. Raises _Unknown."""
    if requirement.field.per_gpu:
        return _gpus(situation, requirement)
    if requirement.name == "gpu":
        return _count(situation, requirement)
    if requirement.name == "p2p":
        return _peers(situation)
    if requirement.name == "same-model":
        return _one_model(situation)
    if requirement.name == "shm":
        return _shared_memory(situation, requirement)
    version, what, source = _version(situation, requirement.name)
    _raise_if_too_rough(requirement, version)
    return requirement.admits(version), what, source


# --- GPUs -----------------------------------------------------------------------------------------


def _count(situation: Situation, requirement: Requirement) -> tuple[bool, str, str]:
    _raise_if_there_may_be_more(situation)
    return requirement.compares(situation.usable_count, int(requirement.values[0])), _usable(situation), ""


def _raise_if_there_may_be_more(situation: Situation) -> None:
    if situation.usable_count:
        return
    if not situation.machine.gpus and situation.machine.buses.undecided:
        raise _Unknown(f"the GPUs of this machine could not be listed ({situation.machine.buses.why})")
    if loads_at_first_use(situation):
        raise _Unknown("the first CUDA program loads the kernel module nvidia, or fails (`--level driver` asks CUDA)")


def _usable(situation: Situation) -> str:
    """ "2 usable GPUs (NVIDIA L4: its device node does not open)"."""
    count = situation.usable_count
    others = "; ".join(
        f"{standing.gpu.name}: {standing.why}" for standing in situation.standings if not standing.usable
    )
    number = f"{count or 'no'} usable GPU{'s' if count > 1 else ''}"
    if count < len(situation.usable):
        number += f" of {len(situation.usable)} possible ones"
    return f"{number} ({others})" if others else number


def _gpus(situation: Situation, requirement: Requirement) -> tuple[bool, str, str]:
    _raise_if_there_may_be_more(situation)
    if not situation.usable_count:
        return False, _usable(situation), ""
    answers = [(gpu, *_gpu(situation, gpu, requirement)) for gpu in situation.usable]
    if len({holds for _, holds, _ in answers}) > 1:
        _raise_if_any_may_be_meant(situation, requirement.name)
    decided = [holds for _, holds, _ in answers if holds is not None]
    met = any(decided) if requirement.any else all(decided)
    undecided = [gpu for gpu, holds, _ in answers if holds is None]
    if undecided and met is not requirement.any:
        raise _Unknown(f"{requirement.name} of {undecided[0].name} is unknown at level {situation.machine.level}")
    wrong = [(gpu, has) for gpu, holds, has in answers if holds is False]
    saw = ", ".join(dict.fromkeys(f"{gpu.name}: {has}" if has != gpu.name else gpu.name for gpu, has in wrong))
    return met, saw, wrong[0][0].source if wrong else ""


def _raise_if_any_may_be_meant(situation: Situation, name: str) -> None:
    if situation.usable_count < len(situation.usable):
        raise _Unknown(
            f"the GPUs differ in {name}, and which {situation.usable_count} of {len(situation.usable)} this process "
            f"gets is unknown at level {situation.machine.level}"
        )


def _gpu(situation: Situation, gpu: Gpu, requirement: Requirement) -> tuple[bool | None, str]:
    """Whether one GPU meets it (None: unknown), and what the GPU has."""
    if requirement.name == "gpu.model":
        return _text_holds(requirement, gpu.name), gpu.name
    if requirement.name == "gpu.memory":
        return _memory(situation, gpu, requirement)
    arch = gpu.arch.value
    if arch is None:
        return None, "unknown"
    if requirement.name == "gfx":
        return _text_holds(requirement, arch), arch
    if not (capability := dotted(arch)):
        return False, f"no compute capability ({arch})"
    return requirement.admits(capability), arch


def _text_holds(requirement: Requirement, have: str) -> bool:
    wanted = [value.casefold() for value in requirement.values]
    if requirement.operator == "~=":
        return wanted[0] in have.casefold()
    return (have.casefold() in wanted) is (requirement.operator != "!=")


def _memory(situation: Situation, gpu: Gpu, requirement: Requirement) -> tuple[bool | None, str]:
    sizes = [piece.memory for piece in gpu.asked.mig_devices] if gpu.asked.mig else []
    if not sizes:
        own = gpu.memory.value
        shared = situation.machine.system.memory.value if gpu.unified_memory and not own else None
        sizes = [own or shared]
    known = [size for size in sizes if size]
    if not known or len(known) < len(sizes):
        return None, "unknown"
    smallest = min(known)
    slice_of = "a MIG slice of " if gpu.asked.mig else ""
    return requirement.compares(smallest, requirement.size), f"{slice_of}{_gib(smallest)}"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f}".rstrip("0").rstrip(".") + " GiB"


def _peers(situation: Situation) -> tuple[bool, str, str]:
    _raise_if_there_may_be_more(situation)
    if situation.usable_count < 2:
        return bool(situation.usable_count), _usable(situation), ""
    devices = situation.machine.nvidia.cuda.value.devices if situation.machine.nvidia.cuda.value else None
    if (
        len(situation.usable_of("nvidia")) < len(situation.usable)
        or not devices
        or any(d.peers is None for d in devices)
    ):
        raise _Unknown("whether the GPUs reach each other's memory is unknown (libcuda knows it: --level driver)")
    alone = [d for d in devices if len(d.peers or ()) < len(devices) - 1]
    saw = ", ".join(f"GPU {device.index} reaches {len(device.peers or ())} others" for device in alone)
    return not alone, saw, "libcuda"


def _one_model(situation: Situation) -> tuple[bool, str, str]:
    models = list(dict.fromkeys(gpu.name for gpu in situation.usable))
    _raise_if_there_may_be_more(situation)
    if situation.usable_count < 2 or len(models) == 1:
        return bool(situation.usable_count), _usable(situation), ""
    _raise_if_any_may_be_meant(situation, "model")
    return False, ", ".join(models), ""


# --- versions and sizes ------------------------------------------------------------------------------


def _raise_if_too_rough(requirement: Requirement, have: str) -> None:
    """Raise _Unknown where only the major of a build's CUDA is known: 12 says nothing of 12.4."""
    wanted, found = requirement.values[0].split(".") if requirement.operator else [], have.split(".")
    if requirement.field.kind == "build" and 0 < len(found) < len(wanted) and wanted[: len(found)] == found:
        raise _Unknown(f"of its release only {have} is known")


def _version(situation: Situation, name: str) -> tuple[str, str, str]:
    """The version, its text for a person, where it was read; "" if there is none. Raises _Unknown."""
    if name.startswith("driver"):
        return _driver(situation, name)
    if name == "rocm":
        return _rocm(situation)
    return _torch(situation, name) if name.startswith("torch") else _other(situation, name)


def _other(situation: Situation, name: str) -> tuple[str, str, str]:
    """A framework beside torch: its version, or the CUDA or ROCm that it was built with."""
    framework, _, runtime = name.partition(".")
    environment = situation.environment
    one = next((one for one in situation.others if one.name == framework), None)
    if one is None:
        if environment.distributions.undecided:
            raise _Unknown(f"what is installed is unknown ({situation.machine.environment.why})")
        from gpudoctor.requirement import OTHER_FRAMEWORKS

        return "", f"no {OTHER_FRAMEWORKS[framework]}", environment.distributions.source
    built_with = {"": one.version, "cuda": one.cuda, "rocm": one.rocm}[runtime]
    if runtime == "rocm" and one.vendor == "amd" and not built_with:
        raise _Unknown("the ROCm that it was built with is unknown")
    return built_with or "", one.text, one.source


def _driver(situation: Situation, name: str) -> tuple[str, str, str]:
    stack = situation.machine.nvidia
    served = next((api.value.cuda_version for api in stack.answered if api.value and api.value.cuda_version), "")
    version = cuda_driver(situation.machine) or next(
        (api.value.driver_version for api in stack.answered if api.value and api.value.driver_version), ""
    )
    if name == "driver.cuda":
        if situation.machine.level != "static" and stack.cuda.absent:
            return "", "no CUDA driver library (libcuda.so.1)", stack.cuda.source
        if not served and version:
            served = situation.matrix.nvidia.cuda_served(version) or ""
            if not served:
                raise _Unknown(
                    f"the CUDA that driver {version} supports is unknown (libcuda knows it: --level driver)"
                )
        if served:
            return served, f"a driver that supports CUDA {served}", stack.module.source
    elif version:
        return version, f"NVIDIA driver {version}", stack.module.source
    if stack.module.undecided and not situation.machine.of_vendor("amd"):
        raise _Unknown(f"the NVIDIA driver is unknown ({stack.module.why})")
    return "", "no NVIDIA driver", stack.module.source


def _torch(situation: Situation, name: str) -> tuple[str, str, str]:
    torch = situation.torch
    if torch is None:
        there = situation.environment.torch if situation.machine.environment.known else situation.machine.environment
        if there.undecided:
            raise _Unknown(f"whether torch is installed is unknown ({there.why})")
        return "", "no torch", there.source
    if name == "torch":
        return torch.version, f"torch {torch.version}", torch.source
    return (
        torch.cuda or "",
        f"torch {torch.version}, built with {f'CUDA {torch.cuda}' if torch.cuda else 'no CUDA'}",
        torch.source,
    )


def _rocm(situation: Situation) -> tuple[str, str, str]:
    torch, installs = situation.torch, situation.machine.amd.rocm
    if torch is not None and torch.hip:
        built = torch.rocm or torch.hip
        return built, f"torch {torch.version}, built with ROCm {built}", torch.source
    if installs.value:
        newest = max(installs.value, key=lambda install: figures(install.version))
        return newest.version, f"ROCm {newest.version} in {newest.path}", installs.source
    if installs.undecided:
        raise _Unknown(f"the installed ROCm is unknown ({installs.why})")
    return "", "no ROCm", installs.source


def _shared_memory(situation: Situation, requirement: Requirement) -> tuple[bool, str, str]:
    size = situation.machine.system.shm
    if size.value is None:
        if size.absent:
            return False, "no /dev/shm", size.source
        raise _Unknown(f"the size of /dev/shm is unknown ({size.why})")
    return (requirement.compares(size.value, requirement.size), f"{_gib(size.value)} of /dev/shm", size.source)
