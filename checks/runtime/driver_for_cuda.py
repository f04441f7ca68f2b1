"""Whether the driver runs the CUDA of the installed frameworks (GPD301)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, NotJudged, gpu_subject
from gpudoctor.frameworks.torch import NAME as TORCH
from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.no_kernel_driver import because
from gpudoctor.situation.nvidia_driver import (
    cuda_driver,
    driver_verdict,
    has_own_numbers,
    kernel_driver,
    may_be_too_new,
    refusals,
)
from gpudoctor.situation.working_gpus import Weight, by_weight_and_name, worthwhile

_LIBCUDA = "libcuda.so.1"


@check("GPD301", "driver-too-old", "runtime")
def driver_too_old(situation: Situation) -> Verdicts:
    """The NVIDIA driver is too old for the CUDA of an installed framework.

    ## Why it matters
    CUDA does not start: "The NVIDIA driver on your system is too old", or "CUDA driver version is insufficient for
    CUDA runtime version".

    ## How it is judged
    The check uses the libcuda that a program loads; cuda-compat on the load path counts on GPUs that may use it. A
    driver below the minimum of the CUDA major is an error. Between that and the driver bundled with the toolkit,
    minor-version compatibility applies: a note. Under WSL2 and on Jetson driver numbers mean something else, so the
    CUDA release that the driver reports decides. A driver older than the GPU itself is an error too; a note where
    another GPU does the work. A driver that knows the chip and does not list the GPU in its README is an error if it
    did not take the GPU, and a warning if it was only described. If torch has no code for the GPUs anyway, the build
    is the problem and not the driver.

    ## Fix safety
    A driver update needs root and a reboot, and stays within the last branch that supports all GPUs. The alternative
    replaces the framework by a build for an older CUDA. Minor-version compatibility alone needs no fix.
    """
    gpus = situation.usable_of("nvidia")
    untaken = tuple(gpu for _, group in because(situation, "driver-too-old") for gpu in group)
    outdated = tuple(gpu for gpu in gpus if "driver-too-old" in refusals(situation, gpu)) or untaken
    weighed = by_weight_and_name(situation, [*outdated])
    for severity, group in weighed:
        yield _gpu_needs_newer(situation, severity, group)
    for _, group in by_weight_and_name(situation, [gpu for gpu in gpus if may_be_too_new(situation, gpu)]):
        yield _gpu_may_need_newer(situation, group)
    gpus = tuple(gpu for gpu in gpus if gpu not in outdated)
    if gpus and not any(severity == "error" for severity, _ in weighed):
        yield from _torch_needs(situation, gpus)
        yield from _others_need(situation, gpus)


def _others_need(situation: Situation, gpus: tuple[Gpu, ...]) -> Verdicts:
    """Frameworks beside torch: the driver must run the CUDA major of each. What torch needs as well is said once."""
    torch = situation.torch
    if torch is not None and torch.cuda and driver_verdict(situation, torch.cuda) == "too-old":
        return
    for one in situation.others:
        from gpudoctor.frameworks.gpu_builds import supports

        known = one.build is not None and any(supports(situation, one.build, gpu) for gpu in gpus)
        if one.meant_for_gpu and one.cuda and known and driver_verdict(situation, one.cuda) == "too-old":
            yield _below_floor(situation, one)


def _torch_needs(situation: Situation, gpus: tuple[Gpu, ...]) -> Verdicts:
    torch = situation.torch
    if torch is None or situation.built_for != "nvidia" or torch.cuda is None:
        return
    if not torch.cuda[:1].isdecimal():  # a text may tell that it is a CUDA build, and not of which CUDA
        return
    if not gpus:
        return
    from gpudoctor.frameworks.torch.coverage import carries

    if all(carries(situation, gpu).runs == "no" for gpu in gpus):
        return
    verdict = driver_verdict(situation, torch.cuda)
    if verdict == "unknown" and situation.machine.text.works:
        return  # torch found the GPU: the driver runs its CUDA
    if verdict == "unknown" and not situation.on_jetson:
        yield NotJudged(
            why=f"whether the driver runs CUDA {torch.cuda} is not known: {_why_unknown(situation)}", matters=True
        )
    elif verdict == "too-old":
        yield _below_floor(situation, situation.frameworks[0])
    elif verdict == "minor-version":
        bundled = situation.matrix.nvidia.bundled_driver(torch.cuda)
        yield Finding(
            severity="note",
            message=f"Driver {_driver_text(situation)} is older than the driver bundled with CUDA {torch.cuda}"
            f"{f' ({bundled})' if bundled else ''}. It runs this torch by CUDA minor-version compatibility.",
            saw=_driver_text(situation),
            want=bundled or f"a driver for CUDA {torch.cuda}",
            subject="NVIDIA driver",
            framework=TORCH,
            evidence=_driver_evidence(situation),
        )


def _gpu_needs_newer(situation: Situation, severity: Weight, gpus: tuple[Gpu, ...]) -> Finding:
    from gpudoctor.situation.driver_choice import install_driver

    gpu = gpus[0]
    first = _first_for(situation, gpu)
    return Finding(
        severity=severity,
        message=f"Driver {_driver_text(situation)} is too old for {gpu.name}: {first} is the first after it that "
        "supports it.",
        saw=_driver_text(situation),
        want=f"{first} or newer",
        subject=gpu_subject(gpu),
        devices=tuple(map(Device.of, gpus)),
        evidence=(*_driver_evidence(situation), Evidence.of("gpu.arch", gpu.arch)),
        fixes=worthwhile(situation, gpus, (install_driver(situation, gpus),)),
        supersedes=("no-driver", "no-gpu", "driver-init-failed-hw"),
    )


def _gpu_may_need_newer(situation: Situation, gpus: tuple[Gpu, ...]) -> Finding:
    from gpudoctor.situation.driver_choice import install_driver

    gpu, first = gpus[0], _first_for(situation, gpus[0])
    return Finding(
        severity="warning",
        message=f"Driver {_driver_text(situation)} knows the chip of {gpu.name}, but its README does not list this "
        f"GPU: {first} is the first after it that does. The driver may refuse it.",
        saw=_driver_text(situation),
        want=f"{first} or newer",
        subject=gpu_subject(gpu),
        devices=tuple(map(Device.of, gpus)),
        confidence="likely",
        evidence=(*_driver_evidence(situation), Evidence.of("gpu.arch", gpu.arch)),
        fixes=worthwhile(situation, gpus, (install_driver(situation, gpus),)),
    )


def _first_for(situation: Situation, gpu: Gpu) -> str:
    """The first driver that supports a GPU which the present one does not, in the words of a sentence."""
    version, _, _ = kernel_driver(situation)
    listing = situation.matrix.nvidia.first_listing(gpu.pci_id, version) if version else None
    return listing or situation.matrix.nvidia.first_driver(gpu.arch.value, gpu.chip) or ""


def _below_floor(situation: Situation, framework: InstalledFramework) -> Finding:
    from gpudoctor.frameworks.gpu_builds import installs
    from gpudoctor.frameworks.torch.driver_or_builds import builds_for_this_driver, driver_or_builds

    cuda = framework.cuda or ""
    # Before CUDA 11 there is no minor-version compatibility: the driver bundled with the toolkit is the minimum.
    floor = situation.matrix.nvidia.floor(cuda) or situation.matrix.nvidia.bundled_driver(cuda) or ""
    supported = next((api.value.cuda_version for api in situation.machine.nvidia.answered if api.value), None)
    needs = f"CUDA {cuda} needs driver {floor} or newer" if floor else f"CUDA {cuda} needs a newer driver"
    if has_own_numbers(situation.machine) and supported:
        needs = f"it supports CUDA up to {supported}, but {framework.title} was built with CUDA {cuda}"
    builds = (
        builds_for_this_driver(situation)
        if framework.name == TORCH
        else installs(situation, framework, situation.usable_of("nvidia"))
    )
    return Finding(
        severity="error",
        message=f"Driver {_driver_text(situation)} is too old for {framework.named}: {needs}.",
        saw=_driver_text(situation),
        want=f"a driver for CUDA {cuda}" if has_own_numbers(situation.machine) or not floor else f"{floor} or newer",
        subject="NVIDIA driver",
        framework=framework.name,
        evidence=(*_driver_evidence(situation), Evidence(f"{framework.name}.cuda", cuda, framework.source)),
        fixes=driver_or_builds(situation, floor, builds),
        refs=("CUDA compatibility guide, minor version compatibility",),
    )


def _driver_text(situation: Situation) -> str:
    """The driver's version as a person knows it; that of the compat libraries if those are loaded."""
    stack = situation.machine.nvidia
    loaded = cuda_driver(situation.machine)
    if loaded:
        return loaded
    for api in stack.answered:
        if api.value and api.value.driver_version:
            return api.value.driver_version
    return stack.module.value.version if stack.module.value else stack.userland.value or "of this machine"


def _why_unknown(situation: Situation) -> str:
    if situation.in_wsl:
        return "under WSL2 only the driver itself tells (--level driver)"
    if has_own_numbers(situation.machine):
        return "the drivers of this system have numbers of their own"
    return (
        situation.machine.nvidia.module.why or situation.machine.nvidia.userland.why or "no driver version was found"
    )


def _driver_evidence(situation: Situation) -> tuple[Evidence, ...]:
    stack = situation.machine.nvidia
    library = situation.machine.load_path.first(_LIBCUDA)
    found = [Evidence("nvidia.module", stack.module.value.version, stack.module.source)] if stack.module.value else []
    if library and library.version:
        found.append(Evidence(_LIBCUDA, library.version, library.path))
    for api in stack.answered[:1]:
        if api.value and api.value.cuda_version:
            found.append(Evidence("driver.cuda_version", api.value.cuda_version, api.source))
    return tuple(found)
