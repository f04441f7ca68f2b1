"""No GPU, or no driver: said only where no more exact cause is known (GPD101, GPD119)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Case, Verdicts, check
from gpudoctor.finding import (
    AddContainerFlags,
    Evidence,
    Finding,
    LoadModule,
    Manual,
    NotJudged,
    Reboot,
    WayOut,
)
from gpudoctor.machine import Gpu
from gpudoctor.visibility import RESERVED

from .amdgpu import without_amdgpu
from .cards import called, finding
from .driver_library import beside_the_path, put_on_path
from .installed import (
    core_modules,
    cuda_status,
    driver_answers,
    for_running_kernel,
    install_driver,
    lists_no_card,
    nvml_status,
)
from .job import cpu_task
from .unanswered import refusing_runtime, unanswered
from .unserved import because, unserved

_TAKEN = (2, 46)
"""Answers of cuInit that speak of a card in use: no memory left, busy."""
_NO_CARD = 100
_NOT_LOADED = 9
"""NVML's code where the kernel module is not loaded."""


@check("GPD101", "no-gpu", "driver")
def no_gpu(case: Case) -> Verdicts:
    """There is no NVIDIA or AMD GPU that this environment can use.

    ## Why it matters
    A GPU build of torch does nothing here that a CPU build would not do.

    ## How it is judged
    By the PCI bus and what stands for it (KFD, WSL, Jetson). Without a GPU build of torch a machine without GPUs is
    healthy: a note. With one, or where a GPU is required, it is an error, unless another check knows the exact cause.
    Where the bus could not be read, nothing is said.

    ## Fix safety
    Replacing a GPU build by a CPU build is a way out only where no GPU is meant to be used. Where no GPU build is
    installed either, there is nothing to repair.
    """
    machine, vendor = case.machine, case.meant_for
    needed = vendor is not None or case.requires_card
    if case.usable or machine.assumed or _behind_windows(case):
        return
    if not machine.gpus and machine.buses.undecided:
        unknown_torch = case.environment is None or case.environment.torch.undecided
        why = f"the PCI bus could not be read ({machine.buses.why})"
        yield NotJudged(why=why, matters=needed or unknown_torch)
        return
    evidence = (Evidence.of("buses", machine.buses), *(Evidence("gpu", _why(case, gpu)) for gpu in machine.gpus[:4]))
    if not needed:
        if not machine.gpus:
            yield Finding(
                severity="note",
                message="This machine has no NVIDIA or AMD GPU that can compute.",
                saw="no GPU",
                subject="machine",
                evidence=evidence,
            )
        return
    if cpu_task(case):
        return
    name = {"nvidia": "NVIDIA", "amd": "AMD", None: "NVIDIA or AMD"}[vendor]
    reserved = [gpu for gpu in machine.gpus if gpu.driver.value in RESERVED]
    need = f"torch is built for {name} cards" if case.built_for else "A GPU is required"
    message = f"{need}, and " + (
        f"{reserved[0].name} is reserved for virtual machines ({reserved[0].driver.value})."
        if reserved
        else "none of this machine's cards can be used."
        if machine.gpus
        else "this machine has no GPU that can compute."
    )
    without = not case.requires_card  # then it may run on the CPU
    release = (
        f"Give the card back to the host: take its id out of the vfio-pci options (/etc/modprobe.d, kernel command "
        f"line), and reboot. It is {reserved[0].pci_id or reserved[0].name}."
        if reserved
        else f"Run this on a machine with an {name} GPU"
        + ("; or install the CPU build of torch, if it shall run here." if without else ".")
    )
    title = f"Use a machine with an {name} GPU" + (", or a CPU build" if without else "")
    title = "Give the card back to the host" if reserved else title
    yield Finding(
        severity="error",
        message=message,
        saw=reserved[0].driver.value or "" if reserved else "no usable GPU",
        want=f"an {name} GPU",
        subject="machine",
        confidence="certain" if not machine.gpus or reserved else "likely",
        evidence=evidence,
        ways_out=(WayOut(title, (Manual(release, risk="reboot" if reserved else "safe"),)),),
        fallback=True,
    )


def _behind_windows(case: Case) -> bool:
    """WSL with /dev/dxg: the card is Windows', and no file names it."""
    nodes = case.machine.nvidia.nodes.value or ()
    return case.machine.system.wsl.known and any(node.path == "/dev/dxg" and node.opened == "ok" for node in nodes)


def _why(case: Case, gpu: Gpu) -> str:
    standing = next((standing for standing in case.standings if standing.gpu is gpu), None)
    return f"{gpu.name}: {standing.why}" if standing and standing.why else gpu.name


@check("GPD119", "no-driver", "driver")
def no_driver(case: Case) -> Verdicts:
    """No kernel driver serves the card, or the driver does not answer.

    ## Why it matters
    Without its driver a card is only an entry on the bus.

    ## How it is judged
    The card is on the PCI bus, its vendor's kernel driver does not have it, and no more exact cause is known (another
    driver, a rule, Secure Boot, a missing build, a branch or flavour that refuses the card). Also where the module is
    loaded and libcuda was not installed; where nvidia-smi reaches no driver on a machine whose bus could not be read;
    and at level driver where CUDA, NVML or the ROCm runtime fail without a known cause; where they hang, crash or
    cannot be opened, whether they start is not judged. Cards reserved for virtual machines are left
    alone.

    ## Fix safety
    Installing a driver needs root and a reboot; the present one is replaced.
    """
    for severity, cards in because(case, "no-driver"):
        yield (
            without_amdgpu(case, severity, cards) if cards[0].vendor == "amd" else _nvidia_out(case, severity, cards)
        )
    if case.machine.of_vendor("nvidia") and not unserved(case, "nvidia"):
        yield from _without_libcuda(case)
        yield from _silent_driver(case)
    yield from refusing_runtime(case)
    yield from unanswered(case)
    unseen = not case.machine.gpus and case.machine.buses.undecided and case.built_for == "nvidia"
    if unseen and nvml_status(case) == _NOT_LOADED:
        yield _nobody_answers(case)


def _without_libcuda(case: Case) -> Iterator[Finding]:
    """The kernel module is loaded, and the half of the driver that programs load was not installed. Where nothing of
    that half is there, a recording may just not have it."""
    machine, path = case.machine, case.machine.load_path
    told = path.whole or path.first("libnvidia-ml.so.1") or path.beside or machine.level != "static"
    whole = path.complete.value and path.searched and told
    elsewhere = case.in_container or machine.system.wsl.known or machine.system.jetson.known
    if not whole or elsewhere or not machine.nvidia.module.known or case.meant_for != "nvidia":
        return
    if path.first("libcuda.so.1") or cuda_status(case) == 0:
        return
    version = machine.nvidia.module.value.version if machine.nvidia.module.value else ""
    branch = version.partition(".")[0] or "BRANCH"
    text = (
        f"Install them in the version of the kernel module{f' ({version})' if version else ''}. Ubuntu: `sudo apt-get"
        f" install libnvidia-compute-{branch}`; Debian: `sudo apt-get install libcuda1`; Fedora: `sudo dnf install "
        "xorg-x11-drv-nvidia-cuda`; Arch: `sudo pacman -S nvidia-utils`."
    )
    library = beside_the_path(case)
    install = WayOut("Install the driver's CUDA libraries", (Manual(text, risk="root"),))
    yield Finding(
        severity="error",
        message=f"The driver's CUDA library is here ({library.path}), and the loader does not look there."
        if library
        else "The NVIDIA kernel driver is loaded, but its CUDA library (libcuda.so.1) is not installed.",
        saw="no libcuda.so.1 on the load path",
        want=f"libcuda.so.1 of driver {version}" if version else "libcuda.so.1 of the driver",
        subject="NVIDIA driver",
        confidence="likely",
        evidence=(
            Evidence.of("nvidia.module", machine.nvidia.module),
            Evidence("load_path.searched", " ".join(path.searched), "load path"),
        ),
        ways_out=(put_on_path(case, library),) if library else (install,),
    )


def _said(case: Case, api: str) -> str:
    """What the interface printed when it failed."""
    facts = (case.machine.nvidia.cuda,) if api == "CUDA" else (case.machine.nvidia.nvml, case.machine.nvidia.smi)
    return next((fact.value.message for fact in facts if fact.value and fact.value.status), "")


def _nobody_answers(case: Case) -> Finding:
    """The driver's own tool finds no driver, on a machine whose cards nobody could list."""
    text = (
        "Install the NVIDIA driver, or load it (`sudo modprobe nvidia`); then `nvidia-smi` must list the card. "
        "Inside WSL it is the driver of Windows."
    )
    return Finding(
        severity="error",
        message="No NVIDIA driver answers: nvidia-smi cannot reach it.",
        saw="driver not loaded",
        want="a driver that answers",
        subject="NVIDIA driver",
        confidence="likely",
        evidence=driver_answers(case),
        ways_out=(WayOut("Install or load the NVIDIA driver", (Manual(text, risk="root"),)),),
    )


def _nvidia_out(case: Case, severity: str, cards: tuple[Gpu, ...]) -> Finding:
    machine = case.machine
    module = for_running_kernel(case, core_modules(case))
    loaded = machine.nvidia.module.known
    install = install_driver(case, cards)
    where = " on the host of this container" if case.in_container else ""
    state = "not loaded" if module and not loaded else "loaded, and has not taken the card" if loaded else "absent"
    if case.in_container or (module is None and not loaded):
        ways_out: tuple[WayOut, ...] = (install,)
    elif loaded:
        read = "Read why in the kernel log (`sudo dmesg | grep -i -e nvrm -e nvidia`), and reboot."
        look = Manual(read, risk="reboot")
        ways_out = (WayOut("Find out why the module leaves the card alone", (look,)), install)
    else:
        ways_out = (WayOut("Load the kernel module", (LoadModule("nvidia"),)), install)
    return finding(
        "note" if severity == "note" else "error",
        cards,
        message=f"No NVIDIA driver serves {called(cards)}{where}: the kernel module is {state}.",
        saw=f"kernel module {state}",
        want="the card bound to nvidia",
        evidence=(
            Evidence.of("gpu.driver", cards[0].driver),
            Evidence("nvidia.module", machine.nvidia.module.state, machine.nvidia.module.source),
            Evidence.of("nvidia.userland", machine.nvidia.userland),
        ),
        ways_out=ways_out,
        supersedes=("driver-lib-mismatch",),
    )


def _silent_driver(case: Case) -> Iterator[Finding]:
    """The card is bound, and NVML or CUDA fail for a reason that no other check knows."""
    status, nvml = cuda_status(case), nvml_status(case)
    lists_none = lists_no_card(case) and bool(case.usable_of("nvidia")) and not case.machine.system.jetson.known
    if any(_without_libcuda(case)):
        return
    failed = status not in (None, 0, _NO_CARD, *_TAKEN) or (status is None and nvml not in (None, 0, 4, 12))
    chosen = case.variable("CUDA_VISIBLE_DEVICES") is not None  # then its value may be the reason
    cards = [gpu for gpu in case.usable_of("nvidia") if gpu.nvml is None or gpu.nvml.compute_mode != "prohibited"]
    sees_none = status == _NO_CARD and bool(cards) and not chosen
    failed = failed or sees_none or (lists_none and status != 0)
    if not failed or cpu_task(case):
        return
    api, code = ("CUDA", status) if status else ("NVML", nvml)
    starts = code in (0, _NO_CARD)
    said = "does not find the card" if starts else f"does not start: {api} answers error {code}"
    text = "If it stays, read the kernel log: `sudo dmesg | grep -i -e nvrm -e nvidia`."
    on_host = Manual(f"If it stays: reboot the host. {text}", risk="reboot")
    yield Finding(
        severity="error",
        message=f"The NVIDIA driver is there and {said}.",
        saw=_said(case, api) or (f"{api} error {code}" if code else "No devices were found"),
        want=f"{api} that answers",
        subject="NVIDIA driver",
        confidence="likely",
        evidence=driver_answers(case),
        ways_out=(
            WayOut("Start the container anew; reboot its host", (AddContainerFlags("recreate"), on_host))
            if case.in_container
            else WayOut("Reboot", (Reboot(), Manual(text, risk="root"))),
            install_driver(case),
        ),
        supersedes=("no-gpu",),
        fallback=True,
    )
