"""Whether the driver runs the CUDA that torch contains, and which libcuda is loaded (GPD301 to GPD303, GPD309)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, Fix, NotJudged, ReplaceTorch, by_hand, gpu_subject
from gpudoctor.frameworks.torch import NAME as TORCH
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.frameworks.torch.shadowed_libraries import library_evidence, out_of_the_cache, without_folder
from gpudoctor.machine import Gpu, Library, LibraryKind, NvidiaApi
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.no_kernel_driver import Weight, because, equal_gpus, worthwhile
from gpudoctor.situation.nvidia_driver import (
    cuda_driver,
    driver_verdict,
    has_own_numbers,
    kernel_driver,
    may_be_too_new,
    outdated_compat,
    refusals,
)
from gpudoctor.situation.virtual_gpu import is_vgpu

_LIBCUDA = "libcuda.so.1"


# --- driver and CUDA -------------------------------------------------------------------------------


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
    weighed = equal_gpus(situation, [*outdated])
    for severity, group in weighed:
        yield _gpu_needs_newer(situation, severity, group)
    for _, group in equal_gpus(situation, [gpu for gpu in gpus if may_be_too_new(situation, gpu)]):
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
    pasted = situation.machine.pasted
    if verdict == "unknown" and pasted is not None and pasted.works:
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

    cuda = framework.cuda or ""
    # Before CUDA 11 there is no minor-version compatibility: the driver bundled with the toolkit is the minimum.
    floor = situation.matrix.nvidia.floor(cuda) or situation.matrix.nvidia.bundled_driver(cuda) or ""
    supported = next((api.value.cuda_version for api in situation.machine.nvidia.answered if api.value), None)
    needs = f"CUDA {cuda} needs driver {floor} or newer" if floor else f"CUDA {cuda} needs a newer driver"
    if has_own_numbers(situation.machine) and supported:
        needs = f"it supports CUDA up to {supported}, but {framework.title} was built with CUDA {cuda}"
    builds = (
        _torch_builds(situation)
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
        fixes=_fixes(situation, floor, builds),
        refs=("CUDA compatibility guide, minor version compatibility",),
    )


def _torch_builds(situation: Situation) -> tuple[Fix, ...]:
    """Builds of torch that run on the present driver."""
    return tuple(
        fix for fix in better_torch(situation) if any(isinstance(remedy, ReplaceTorch) for remedy in fix.remedies[:1])
    )


def _fixes(situation: Situation, floor: str, builds: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """A newer driver, and builds that run on the present one; first comes what can be done from here."""
    driver = _driver_fix(situation, floor)
    if driver is None:
        return builds or better_torch(situation)
    # A container, or a guest with a vGPU, cannot choose its driver.
    drivers_are_the_hosts = situation.in_container or any(map(is_vgpu, situation.usable_of("nvidia")))
    return (*builds, driver) if drivers_are_the_hosts else (driver, *builds)


def _driver_fix(situation: Situation, floor: str) -> Fix | None:
    if situation.on_jetson:
        return None
    from gpudoctor.situation.driver_choice import driver_to_install, install_driver

    remedy = driver_to_install(situation)
    older = remedy is None or figures(remedy.branch)[:1] < figures(floor)[:1]
    if older and not situation.in_wsl:
        return None
    return install_driver(situation)


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


# --- the libcuda that is loaded --------------------------------------------------------------------


@check("GPD302", "cuda-compat-on-geforce", "runtime")
def cuda_compat_on_geforce(situation: Situation) -> Verdicts:
    """The cuda-compat libraries are loaded on a GPU that may not use them.

    ## Why it matters
    Forward compatibility (a newer libcuda on an older kernel driver) works on data-centre GPUs, some workstation GPUs
    and Jetson. On others CUDA fails with 804, "forward compatibility was attempted on non supported HW", or 803.

    ## How it is judged
    The first libcuda.so.1 on the load path is cuda-compat's, and a usable GPU is a GeForce or TITAN. Certain if the
    driver itself answered 803 or 804 (804 has no other cause, wherever the library lies). NVIDIA does not publish
    which workstation GPUs may use it, so the files decide nothing about those. Libraries that are older than the
    kernel module serve no GPU: that is driver-lib-mismatch.

    ## Fix safety
    Removes one folder from LD_LIBRARY_PATH for this process; nothing is deleted. If the driver itself is too old for
    this torch, the fix also includes a newer driver or another build.
    """
    library, answer = situation.machine.load_path.first(_LIBCUDA), situation.machine.nvidia.cuda.value
    if library is None or library.kind != "compat":
        library = _named_by_error("compat", answer, 804)
    if library is None or situation.on_jetson:
        return
    if outdated_compat(situation.machine) and answer is None:
        if situation.usable_of("nvidia"):
            yield _outdated(situation, library)
        return
    refused = answer is not None and answer.status in (803, 804)
    gpus = tuple(gpu for gpu in situation.usable_of("nvidia") if not gpu.datacenter)
    if not gpus or (answer is not None and not refused):
        return
    consumer = tuple(gpu for gpu in gpus if re.search(r"GeForce|TITAN", gpu.name, re.IGNORECASE))
    if not consumer and not refused:
        yield NotJudged(why=f"whether {gpus[0].name} may use cuda-compat is not known", matters=True)
        return
    gpu = (consumer or gpus)[0]
    yield Finding(
        severity="error",
        message=f"cuda-compat's libcuda{f' {library.version}' if library.version else ''} is loaded instead of the "
        f"driver's, and {gpu.name} does not support that: CUDA fails with error 804.",
        saw=library.path,
        want="the driver's own libcuda.so.1",
        subject=gpu_subject(gpu),
        devices=tuple(map(Device.of, consumer or gpus)),
        evidence=(*library_evidence(situation, library), Evidence("gpu.name", gpu.name, gpu.source)),
        fixes=_without_compat(situation, library),
        refs=("CUDA compatibility guide, forward compatibility", "gpustack/gpustack#1254"),
        supersedes=("driver-too-old", "driver-lib-mismatch", "no-driver"),
    )


def _outdated(situation: Situation, library: Library) -> Finding:
    module = situation.machine.nvidia.module
    driver = module.value.version if module.value else ""
    return Finding(
        severity="error",
        message=f"cuda-compat's libcuda {library.version} is loaded, and the driver {driver} is newer: CUDA fails "
        "with error 803. cuda-compat is for drivers that are older than itself.",
        saw=library.path,
        want="the driver's own libcuda.so.1",
        subject="libcuda.so.1",
        slug="driver-lib-mismatch",
        confidence="likely",
        evidence=(*library_evidence(situation, library), Evidence("nvidia.module", driver, module.source)),
        fixes=(_off_the_path(situation, library),),
        refs=("CUDA compatibility guide, forward compatibility", "llm-d/llm-d#706"),
        supersedes=("driver-too-old", "no-driver"),
    )


def _without_compat(situation: Situation, library: Library) -> tuple[Fix, ...]:
    """Without cuda-compat the driver itself must run this torch; if it cannot, the fix includes that too."""
    removal = _off_the_path(situation, library)
    cuda = situation.torch.cuda if situation.torch and situation.built_for == "nvidia" else None
    if cuda is None or driver_verdict(situation, cuda) != "too-old":
        return (removal,)
    others = _fixes(situation, situation.matrix.nvidia.floor(cuda) or "", _torch_builds(situation))
    return tuple(
        Fix(f"{removal.title}, and {fix.title[0].lower()}{fix.title[1:]}", (*removal.remedies, *fix.remedies))
        for fix in others
    ) or (removal,)


@check("GPD303", "libcuda-stub", "runtime")
def libcuda_stub(situation: Situation) -> Verdicts:
    """The toolkit's stub libcuda is loaded instead of the driver's.

    ## Why it matters
    The stub exists for linking on machines without a driver. Loaded at run time it fails with "CUDA driver is a stub
    library" (error 34), and torch finds no GPU.

    ## How it is judged
    The first libcuda.so.1 on the load path lies in a folder of stubs, and an NVIDIA GPU could be used. At level
    driver the check also reports CUDA's own answer (34).

    ## Fix safety
    Removes one folder from LD_LIBRARY_PATH for this process; nothing is deleted.
    """
    library = situation.machine.load_path.first(_LIBCUDA)
    if library is None or library.kind != "stub":
        library = _named_by_error("stub", situation.machine.nvidia.cuda.value, 34)
    if library is None or not situation.usable_of("nvidia"):
        return
    yield Finding(
        severity="error",
        message=f"{library.path} is the CUDA toolkit's stub: it is loaded instead of the driver's libcuda and cannot "
        "run anything.",
        saw=library.path,
        want="the driver's own libcuda.so.1",
        subject="libcuda.so.1",
        evidence=library_evidence(situation, library),
        fixes=(_off_the_path(situation, library),),
        supersedes=("driver-too-old", "no-driver"),
    )


def _named_by_error(kind: LibraryKind, answer: NvidiaApi | None, status: int) -> Library | None:
    """The libcuda that CUDA's own error points to, although the load path did not show it as such."""
    if answer is None or answer.status != status:
        return None
    return Library(name=_LIBCUDA, path=answer.library or _LIBCUDA, kind=kind, via="the loader")


def _off_the_path(situation: Situation, library: Library) -> Fix:
    if library.via == "the loader":
        what = "cuda-compat" if library.kind == "compat" else "the stubs folder of the CUDA toolkit"
        text = f"Remove {what} from the load path (LD_LIBRARY_PATH, /etc/ld.so.conf.d, an RPATH of the program)."
        return by_hand("Use the driver's own libcuda", text)
    return without_folder(situation, library, otherwise=out_of_the_cache(library))


@check("GPD309", "wsl-libcuda-symlink", "runtime")
def wsl_libcuda_symlink(situation: Situation) -> Verdicts:
    """Under WSL libcuda.so.1 is a file where ldconfig expects a link.

    ## Why it matters
    ldconfig prints "/usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link". The message is harmless.

    ## How it is judged
    The libcuda.so.1 of /usr/lib/wsl/lib is a regular file beside other copies of itself.

    ## Fix safety
    There is nothing to fix.
    """
    library = situation.machine.load_path.first(_LIBCUDA)
    copies = [
        found for found in situation.machine.load_path.found if found.kind == "wsl" and found.name == "libcuda.so"
    ]
    plain = library is not None and library.kind == "wsl" and library.path.endswith("/libcuda.so.1")
    if not situation.in_wsl or library is None or not plain or not copies:
        return
    if copies[0].path == library.path:
        return
    yield Finding(
        severity="note",
        message=f"{library.path} is a file, not a link. ldconfig warns about it, which is harmless.",
        saw="a regular file",
        subject="libcuda.so.1",
        confidence="possible",
        evidence=(Evidence(library.name, "regular file", library.path),),
        refs=("microsoft/WSL#5663",),
    )
