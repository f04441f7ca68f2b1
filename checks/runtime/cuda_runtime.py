"""Does the driver run the CUDA or ROCm that torch brings (GPD301 to GPD303, GPD305, GPD309)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import (
    Device,
    Evidence,
    Finding,
    Fix,
    Manual,
    NotJudged,
    ReplaceTorch,
    gpu_subject,
)
from gpudoctor.frameworks.torch import NAME as TORCH
from gpudoctor.frameworks.torch.coverage import carries
from gpudoctor.frameworks.torch.gpu_coverage import better_torch
from gpudoctor.frameworks.torch.shadowed_libraries import library_evidence, out_of_the_cache, without_folder
from gpudoctor.machine import Gpu, Library, LibraryKind, NvidiaApi
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.installed_driver import (
    counts_otherwise,
    driver_for,
    driver_older_than,
    install_driver,
    is_vgpu,
)
from gpudoctor.situation.no_kernel_driver import because
from gpudoctor.situation.nvidia_driver import cuda_driver, driver_verdict

_LIBCUDA = "libcuda.so.1"


# --- driver and CUDA -------------------------------------------------------------------------------


@check("GPD301", "driver-too-old", "runtime")
def driver_too_old(situation: Situation) -> Verdicts:
    """The NVIDIA driver is older than the CUDA of this torch needs.

    ## Why it matters
    CUDA does not start: "The NVIDIA driver on your system is too old", or "CUDA driver version is insufficient for
    CUDA runtime version".

    ## How it is judged
    By the libcuda that a program loads: cuda-compat on the load path counts on GPUs that may use it. Below the
    oldest driver of the CUDA major it is an error; between that and the driver that the toolkit bundles it is
    minor-version compatibility, a note. Under WSL2 and on Jetson driver numbers mean something else: there the CUDA
    release that the driver names decides. A driver older than the GPU itself is an error too. Where torch has no
    code for the GPUs anyway, the build is the fault and not the driver.

    ## Fix safety
    A driver update needs root and a reboot, and stays within the last branch that runs all GPUs. The other way out
    replaces torch by a build for an older CUDA. Minor-version compatibility alone leaves nothing to repair.
    """
    gpus = situation.usable_of("nvidia")
    left_alone = (gpu for _, group in because(situation, "no-driver") for gpu in group if gpu.vendor == "nvidia")
    loaded = situation.machine.nvidia.module.known and not situation.in_container
    outdated = tuple(gpu for gpu in gpus or (left_alone if loaded else ()) if driver_older_than(situation, gpu))
    if outdated:
        yield _gpu_needs_newer(situation, outdated)
        return
    torch = situation.torch
    if torch is None or situation.built_for != "nvidia" or torch.cuda is None or not gpus:
        return
    if all(carries(situation.machine, situation.matrix, gpu).runs == "no" for gpu in gpus):
        return
    verdict = driver_verdict(situation.machine, situation.matrix, torch.cuda)
    if verdict == "unknown" and not situation.machine.system.jetson.known:
        yield NotJudged(
            why=f"whether the driver runs CUDA {torch.cuda} is not known: {_why_unknown(situation)}", matters=True
        )
    elif verdict == "too-old":
        yield _below_floor(situation, torch.cuda)
    elif verdict == "minor-version":
        bundled = situation.matrix.bundled_driver(torch.cuda)
        yield Finding(
            severity="note",
            message=(
                f"Driver {_driver_text(situation)} is older than the one that came with CUDA {torch.cuda}"
                f"{f' ({bundled})' if bundled else ''}. It runs this torch by CUDA minor-version compatibility."
            ),
            saw=_driver_text(situation),
            want=bundled or f"a driver for CUDA {torch.cuda}",
            subject="NVIDIA driver",
            framework=TORCH,
            evidence=_driver_evidence(situation),
        )


def _gpu_needs_newer(situation: Situation, gpus: tuple[Gpu, ...]) -> Finding:
    gpu = gpus[0]
    first = situation.matrix.first_driver(gpu.arch.value or "", gpu.chip) or ""
    return Finding(
        severity="error",
        message=f"Driver {_driver_text(situation)} is older than {gpu.name}: drivers know it from {first} on.",
        saw=_driver_text(situation),
        want=f"{first} or newer",
        subject=gpu_subject(gpu),
        devices=tuple(map(Device.of, gpus)),
        evidence=(*_driver_evidence(situation), Evidence.of("gpu.arch", gpu.arch)),
        fixes=(install_driver(situation, gpus),),
        supersedes=("no-driver",),
    )


def _below_floor(situation: Situation, cuda: str) -> Finding:
    # Before CUDA 11 there is no minor-version compatibility: the driver that the toolkit came with is the oldest.
    floor = situation.matrix.floor(cuda) or situation.matrix.bundled_driver(cuda) or ""
    served = next((api.value.cuda_version for api in situation.machine.nvidia.answered if api.value), None)
    needs = f"CUDA {cuda} needs a driver from {floor} on" if floor else f"CUDA {cuda} needs a newer driver"
    if counts_otherwise(situation) and served:
        needs = f"it serves CUDA up to {served}, torch was built with CUDA {cuda}"
    assert situation.torch is not None
    return Finding(
        severity="error",
        message=f"Driver {_driver_text(situation)} is too old for torch {situation.torch.version}: {needs}.",
        saw=_driver_text(situation),
        want=f"a driver for CUDA {cuda}" if counts_otherwise(situation) or not floor else f"{floor} or newer",
        subject="NVIDIA driver",
        framework=TORCH,
        evidence=(*_driver_evidence(situation), Evidence("torch.cuda", cuda, situation.torch.source)),
        fixes=_fixes(situation, floor),
        refs=("CUDA compatibility guide, minor version compatibility",),
    )


def _fixes(situation: Situation, floor: str) -> tuple[Fix, ...]:
    """A newer driver, and builds that run on the present one: first what can be done from here."""
    builds = tuple(
        fix for fix in better_torch(situation) if any(isinstance(remedy, ReplaceTorch) for remedy in fix.remedies[:1])
    )
    driver = _driver_fix(situation, floor)
    if driver is None:
        return builds or better_torch(situation)
    # Neither a container nor a guest with a vGPU has a driver of its own choice.
    lent = situation.in_container or any(map(is_vgpu, situation.usable_of("nvidia")))
    return (*builds, driver) if lent else (driver, *builds)


def _driver_fix(situation: Situation, floor: str) -> Fix | None:
    if situation.machine.system.wsl.known:
        text = "Update the NVIDIA driver in Windows (not in WSL), then run `wsl --shutdown`."
        return Fix("Update the NVIDIA driver in Windows", (Manual(text, risk="reboot"),))
    if situation.machine.system.jetson.known:
        return None
    remedy = driver_for(situation)
    if remedy is None or figures(remedy.branch)[:1] < figures(floor)[:1]:
        return None
    return install_driver(situation)


def _driver_text(situation: Situation) -> str:
    """The driver as a person knows it, with the compat libraries where those are loaded."""
    stack = situation.machine.nvidia
    loaded = cuda_driver(situation.machine)
    if loaded:
        return loaded
    for api in stack.answered:
        if api.value and api.value.driver_version:
            return api.value.driver_version
    return stack.module.value.version if stack.module.value else stack.userland.value or "of this machine"


def _why_unknown(situation: Situation) -> str:
    if situation.machine.system.wsl.known:
        return "under WSL2 only the driver itself tells (--level driver)"
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
    Forward compatibility (a newer libcuda on an older kernel driver) works on data-centre GPUs, some workstation
    GPUs and Jetson. On others CUDA ends with error 804, "forward compatibility was attempted on non supported HW",
    or 803.

    ## How it is judged
    The first libcuda.so.1 on the load path is cuda-compat's and a usable GPU is GeForce or TITAN; certain where the
    driver itself answered 803 or 804 (804 is said of nothing else, wherever the library lies). Which workstation
    GPUs are listed is not public: those are not judged from files.

    ## Fix safety
    Takes one folder out of LD_LIBRARY_PATH for this process; nothing is removed. Where the driver itself is too old
    for this torch, a newer driver or another build comes with it.
    """
    library, answer = situation.machine.load_path.first(_LIBCUDA), situation.machine.nvidia.cuda.value
    if library is None or library.kind != "compat":
        library = _unseen("compat", answer, 804)
    if library is None or situation.machine.system.jetson.known:
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
        message=(
            f"cuda-compat's libcuda{f' {library.version}' if library.version else ''} is loaded instead of the "
            f"driver's, and {gpu.name} does not support that: CUDA fails with error 804."
        ),
        saw=library.path,
        want="the driver's own libcuda.so.1",
        subject=gpu_subject(gpu),
        devices=tuple(map(Device.of, consumer or gpus)),
        evidence=(*library_evidence(situation, library), Evidence("gpu.name", gpu.name, gpu.source)),
        fixes=_without_compat(situation, library),
        refs=("CUDA compatibility guide, forward compatibility", "gpustack/gpustack#1254"),
        supersedes=("driver-too-old", "driver-lib-mismatch", "no-driver"),
    )


def _without_compat(situation: Situation, library: Library) -> tuple[Fix, ...]:
    """Without cuda-compat the driver itself must serve this torch; where it does not, that is mended with it."""
    off = _off_the_path(situation, library)
    cuda = situation.torch.cuda if situation.torch and situation.built_for == "nvidia" else None
    if cuda is None or driver_verdict(situation.machine, situation.matrix, cuda) != "too-old":
        return (off,)
    others = _fixes(situation, situation.matrix.floor(cuda) or "")
    return tuple(
        Fix(f"{off.title}, and {fix.title[0].lower()}{fix.title[1:]}", (*off.remedies, *fix.remedies))
        for fix in others
    ) or (off,)


@check("GPD303", "libcuda-stub", "runtime")
def libcuda_stub(situation: Situation) -> Verdicts:
    """The toolkit's stub libcuda is loaded instead of the driver's.

    ## Why it matters
    The stub is there to link against on machines without a driver. Loaded at run time it fails with "CUDA driver is
    a stub library" (error 34), and torch sees no GPU.

    ## How it is judged
    The first libcuda.so.1 on the load path lies in a folder of stubs, and an NVIDIA GPU could be used; at level
    driver also where CUDA itself says so (34).

    ## Fix safety
    Takes one folder out of LD_LIBRARY_PATH for this process. Nothing is removed.
    """
    library = situation.machine.load_path.first(_LIBCUDA)
    if library is None or library.kind != "stub":
        library = _unseen("stub", situation.machine.nvidia.cuda.value, 34)
    if library is None or not situation.usable_of("nvidia"):
        return
    yield Finding(
        severity="error",
        message=f"{library.path} is the CUDA toolkit's stub; it is found before the driver's libcuda and cannot run "
        "anything.",
        saw=library.path,
        want="the driver's own libcuda.so.1",
        subject="libcuda.so.1",
        evidence=library_evidence(situation, library),
        fixes=(_off_the_path(situation, library),),
        supersedes=("driver-too-old", "no-driver"),
    )


def _unseen(kind: LibraryKind, answer: NvidiaApi | None, status: int) -> Library | None:
    """The libcuda that CUDA itself names by its answer, though it was not met on the load path as such."""
    if answer is None or answer.status != status:
        return None
    return Library(name=_LIBCUDA, path=answer.library or _LIBCUDA, kind=kind, via="the loader")


def _off_the_path(situation: Situation, library: Library) -> Fix:
    if library.via == "the loader":
        what = "cuda-compat" if library.kind == "compat" else "the stubs folder of the CUDA toolkit"
        text = f"Take {what} off the load path (LD_LIBRARY_PATH, /etc/ld.so.conf.d, an RPATH of the program)."
        return Fix("Use the driver's own libcuda", (Manual(text),))
    return without_folder(situation, library, otherwise=out_of_the_cache(library))


@check("GPD309", "wsl-libcuda-symlink", "runtime")
def wsl_libcuda_symlink(situation: Situation) -> Verdicts:
    """Under WSL libcuda.so.1 is a file where ldconfig expects a link.

    ## Why it matters
    ldconfig prints "/usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link". The message is harmless.

    ## How it is judged
    The libcuda.so.1 of /usr/lib/wsl/lib is a regular file beside other copies of itself.

    ## Fix safety
    There is nothing to repair.
    """
    library = situation.machine.load_path.first(_LIBCUDA)
    copies = [
        found for found in situation.machine.load_path.found if found.kind == "wsl" and found.name == "libcuda.so"
    ]
    plain = library is not None and library.kind == "wsl" and library.path.endswith("/libcuda.so.1")
    if not situation.machine.system.wsl.known or library is None or not plain or not copies:
        return
    if copies[0].path == library.path:
        return
    yield Finding(
        severity="note",
        message=f"{library.path} is a file, not a link: ldconfig warns about it. That is harmless.",
        saw="a regular file",
        subject="libcuda.so.1",
        confidence="possible",
        evidence=(Evidence(library.name, "regular file", library.path),),
        refs=("microsoft/WSL#5663",),
    )
