"""No kernel driver, or one that does not answer: reported only if no more exact cause is known (GPD119)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import (
    AddContainerFlags,
    Evidence,
    Finding,
    Fix,
    LoadModule,
    Manual,
    NotJudged,
    Reboot,
    by_hand,
)
from gpudoctor.machine import VISIBILITY, Gpu, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.amdgpu_start import start_failures, start_fix, start_reason
from gpudoctor.situation.batch_job import cpu_task
from gpudoctor.situation.driver_library import beside_the_path, put_on_path
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.kernel_log import lines_about, lines_of, log_evidence
from gpudoctor.situation.kernel_modules import amds_driver, for_running_kernel, newer_kernel_with_amdgpu
from gpudoctor.situation.no_kernel_driver import because, loads_at_first_use
from gpudoctor.situation.nvidia_driver import answers_now, cuda_status, driver_answers, lists_no_gpu, nvml_status
from gpudoctor.situation.virtual_gpu import UNSUPPORTED, hosts_vgpus, more_address_space
from gpudoctor.situation.working_gpus import gpus_without_driver, worthwhile

_IN_USE = (2, 46)
"""Answers of cuInit about a GPU in use: no memory left, busy."""
_NO_GPU = 100
_INIT_FAILED = "nvidia-init-failed"
_NOT_LOADED = 9
"""NVML's error if the kernel module is not loaded."""
_LOADS_ITSELF = (
    "the kernel module nvidia is not loaded; the first CUDA program loads it, or fails (`--level driver` asks CUDA)"
)
_OF_L4T = (
    "Install nvidia-l4t-cuda, which has it for this L4T: `sudo apt-get install nvidia-l4t-cuda && sudo ldconfig`."
)


@check("GPD119", "no-driver", "driver")
def no_driver(situation: Situation) -> Verdicts:
    """No kernel driver has the GPU, or the driver does not answer.

    ## Why it matters
    Without its driver a GPU is only an entry on the bus.

    ## How it is judged
    The GPU is on the PCI bus, its vendor's kernel driver does not have it, and no more exact cause is known (another
    driver, a rule, Secure Boot, a missing build, a driver branch or flavour that does not support the GPU). The check
    also reports a loaded module without libcuda, and an nvidia-smi that reaches no driver if the bus could not be
    read. At level driver it reports CUDA, NVML or a ROCm runtime that fail without a known cause; if they hang, crash
    or cannot be opened, the result is unknown. GPUs reserved for virtual machines are not reported.

    ## Fix safety
    Installing a driver needs root and a reboot, and replaces the present driver.
    """
    for severity, gpus in because(situation, "no-driver"):
        if gpus[0].vendor == "nvidia" and loads_at_first_use(situation):
            yield NotJudged(_LOADS_ITSELF, matters=severity == "error")
            continue
        yield (
            _without_amdgpu(situation, severity, gpus)
            if gpus[0].vendor == "amd"
            else _without_nvidia(situation, severity, gpus)
        )
    if situation.machine.of_vendor("nvidia") and not gpus_without_driver(situation, "nvidia"):
        yield from _without_libcuda(situation)
        yield from _silent_driver(situation)
        yield from _not_started(situation)
    yield from _failing_runtime(situation)
    yield from _unanswered(situation)
    unseen = not situation.machine.gpus and situation.machine.buses.undecided
    if unseen and situation.framework_vendor == "nvidia" and nvml_status(situation) == _NOT_LOADED:
        yield _driver_unreachable(situation)


def _without_libcuda(situation: Situation) -> Iterator[Finding]:
    """The kernel module is loaded, but the driver's CUDA library was not installed. If no driver library is there at
    all, a recording may just lack them."""
    machine, path = situation.machine, situation.machine.load_path
    recorded = path.whole or path.first("libnvidia-ml.so.1") or path.beside or machine.level != "static"
    whole = path.complete.value and path.searched and recorded
    elsewhere, jetson = situation.in_container or situation.in_wsl, situation.on_jetson
    loaded = machine.nvidia.module.known or jetson
    if not whole or elsewhere or not loaded or situation.expected_vendor != "nvidia":
        return
    if hosts_vgpus(situation):
        return
    if path.first("libcuda.so.1") or cuda_status(situation) == 0:
        return
    version = machine.nvidia.module.value.version if machine.nvidia.module.value else ""
    branch = version.partition(".")[0] or "BRANCH"
    text = (
        f"Install them in the kernel module's version{f' ({version})' if version else ''}. Ubuntu: `sudo apt-get"
        f" install libnvidia-compute-{branch}`; Debian: `sudo apt-get install libcuda1`; Fedora: `sudo dnf install "
        "xorg-x11-drv-nvidia-cuda`; Arch: `sudo pacman -S nvidia-utils`."
    )
    library = beside_the_path(situation)
    install = by_hand("Install the driver's CUDA libraries", _OF_L4T if jetson else text, "root")
    yield Finding(
        severity="error",
        message=f"The loader does not look for the driver's CUDA library where it is ({library.path})."
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
        fixes=(put_on_path(situation, library),) if library else (install,),
    )


def _error_text(situation: Situation, api: str) -> str:
    """What the interface printed when it failed."""
    facts = (
        (situation.machine.nvidia.cuda,)
        if api == "CUDA"
        else (situation.machine.nvidia.nvml, situation.machine.nvidia.smi)
    )
    return next((fact.value.message for fact in facts if fact.value and fact.value.status), "")


def _driver_unreachable(situation: Situation) -> Finding:
    """The driver's own tool finds no driver, and gpudoctor could not list the machine's GPUs."""
    text = (
        "Install the NVIDIA driver, or load it (`sudo modprobe nvidia`); then `nvidia-smi` must list the GPU. "
        "Inside WSL, the driver is that of Windows."
    )
    return Finding(
        severity="error",
        message="No NVIDIA driver answers: nvidia-smi cannot reach it.",
        saw="driver not loaded",
        want="a driver that answers",
        subject="NVIDIA driver",
        confidence="likely",
        evidence=driver_answers(situation),
        fixes=(by_hand("Install or load the NVIDIA driver", text, "root"),),
    )


def _without_nvidia(situation: Situation, severity: str, gpus: tuple[Gpu, ...]) -> Finding:
    from gpudoctor.situation.driver_choice import install_driver

    machine = situation.machine
    module = for_running_kernel(situation)
    loaded = machine.nvidia.module.known
    install = install_driver(situation, gpus)
    where = " on the host of this container" if situation.in_container else ""
    state = "not loaded" if module and not loaded else "loaded but has not taken the GPU" if loaded else "missing"
    refused = lines_of(situation, gpus[0], (UNSUPPORTED,)) if loaded else ()
    if refused:
        state = "loaded and says that it does not support the GPU"
    if situation.in_container or (module is None and not loaded) or (refused and not gpus[0].arch.known):
        fixes: tuple[Fix, ...] = (install,)
    elif refused:
        title = "Switch the machine off completely and on again"
        text = (
            "This driver knows the GPU's chip, so the GPU may not have come up properly: take the machine off the "
            "mains for a minute. On a laptop, switch the GPU on in the firmware setup, and let nothing power it down."
        )
        fixes = (by_hand(title, text, "reboot"), install)
    elif loaded:
        read = "Read the reason in the kernel log (`sudo dmesg | grep -i -e nvrm -e nvidia`), and reboot."
        look = Manual(read, risk="reboot")
        fixes = (Fix("Find out why the module does not take the GPU", (look,)), install)
    else:
        fixes = (Fix("Load the kernel module", (LoadModule("nvidia"),)), install)
    return finding(
        "note" if severity == "note" else "error",
        gpus,
        message=f"{called(gpus)} has no NVIDIA driver{where}: the kernel module is {state}.",
        saw=f"kernel module {state}",
        want="the GPU bound to nvidia",
        evidence=(
            Evidence.of("gpu.driver", gpus[0].driver),
            Evidence("nvidia.module", machine.nvidia.module.state, machine.nvidia.module.source),
            Evidence.of("nvidia.userland", machine.nvidia.userland),
            *log_evidence(situation, refused),
        ),
        fixes=worthwhile(situation, gpus, fixes),
        supersedes=("driver-lib-mismatch",),
    )


def _silent_driver(situation: Situation) -> Iterator[Finding]:
    """The driver has the GPU, but NVML or CUDA fail for a reason that no other check knows."""
    status, nvml = cuda_status(situation), nvml_status(situation)
    lists_none = lists_no_gpu(situation) and bool(situation.usable_of("nvidia")) and not situation.on_jetson
    if any(_without_libcuda(situation)):
        return
    failed = status not in (None, 0, _NO_GPU, *_IN_USE) or (status is None and nvml not in (None, 0, 4, 12))
    chosen = situation.variable("CUDA_VISIBLE_DEVICES") is not None  # then its value may be the reason
    gpus = [gpu for gpu in situation.usable_of("nvidia") if gpu.asked.compute_mode != "prohibited"]
    sees_none = status == _NO_GPU and bool(gpus) and not chosen
    failed = failed or sees_none or (lists_none and status != 0)
    if not failed or cpu_task(situation):
        return
    from gpudoctor.situation.driver_choice import install_driver

    api, code = ("CUDA", status) if status else ("NVML", nvml)
    starts = code in (0, _NO_GPU)
    failure = "does not find the GPU" if starts else f"does not start: {api} answers error {code}"
    text = "If the problem remains, read the kernel log: `sudo dmesg | grep -i -e nvrm -e nvidia`."
    on_host = Manual(f"On the host: reboot. {text}", risk="reboot")
    yield Finding(
        severity="error",
        message=f"The NVIDIA driver is present but {failure}.",
        saw=_error_text(situation, api) or (f"{api} error {code}" if code else "No devices were found"),
        want=f"{api} that answers",
        subject="NVIDIA driver",
        confidence="likely",
        evidence=driver_answers(situation),
        fixes=(
            Fix(
                "Recreate the container; if the problem remains, reboot its host",
                (AddContainerFlags("recreate"), on_host),
            )
            if situation.in_container
            else Fix("Reboot", (Reboot(), Manual(text, risk="root"))),
            install_driver(situation),
        ),
        supersedes=("no-gpu",),
        fallback=True,
    )


def _not_started(situation: Situation) -> Iterator[Finding]:
    """NVIDIA GPUs that the driver could not start, by its own line in the kernel log, with a code that no row of the
    matrix explains."""
    for gpu in situation.machine.of_vendor("nvidia") if not situation.in_container else ():
        lines = lines_of(situation, gpu, (_INIT_FAILED,))
        waited = lines_about(gpu, situation.log_faults("nvidia-firmware-missing"))  # found later, or told there
        if not lines or waited or answers_now(situation, gpu):
            continue
        text = (
            "Read the lines before it (`sudo dmesg | grep -i nvrm`): they name what failed. Power-cycle the machine, "
            "and install the newest driver of a branch that supports the GPU. If that does not help, try the GPU in "
            "another slot or machine."
        )
        read_why = by_hand("Read why, and power-cycle the machine", text, "reboot")
        yield finding(
            "error",
            (gpu,),
            message=f"The NVIDIA driver could not start {gpu.name}: RmInitAdapter failed.",
            saw=lines[-1].line,
            want="a GPU that the driver can start",
            confidence="certain" if answers_now(situation, gpu) is False else "likely",
            evidence=log_evidence(situation, lines),
            fixes=(*((more_address_space(),) if situation.machine.system.virtual_machine.known else ()), read_why),
            supersedes=("no-gpu",),
            fallback=True,
        )


def _without_amdgpu(situation: Situation, severity: str, gpus: tuple[Gpu, ...]) -> Finding:
    """The finding `no-driver` about AMD GPUs of one name, with the reason if the kernel log gives one."""
    machine = situation.machine
    kernel, modules = machine.system.kernel.value, machine.amd.modules_installed.value or ()
    there = any(module.name == "amdgpu" and module.kernel == kernel for module in modules)
    old, lines = gpus[0].driver.value == "radeon", start_failures(situation, gpus[0])
    where = " on the host of this container" if situation.in_container else ""
    unloaded = machine.amd.modules_loaded.known and "amdgpu" not in (machine.amd.modules_loaded.value or ())
    state = start_reason(lines) or (
        "the kernel module amdgpu is not loaded"
        if unloaded
        else "amdgpu could not start it"
        if lines
        else "amdgpu does not drive it"
    )
    if old:
        text = "Use the CPU build of torch, or another GPU: ROCm never supported this one."
        fixes: tuple[Fix, ...] = (by_hand("Use another GPU, or the CPU", text, elsewhere=True),)
    elif situation.in_container:
        text = "On the host, outside this container: load amdgpu (`sudo modprobe amdgpu`), or install AMD's driver."
        fixes = (by_hand("Load amdgpu on the host", text, "root"),)
    else:
        install = amds_driver(situation, "Install the AMD kernel driver")
        if "amdgpu" in (machine.amd.modules_loaded.value or ()):
            fixes = (start_fix(lines), *install)
        else:
            load = Fix("Load the kernel module", (LoadModule("amdgpu"),))
            newer = newer_kernel_with_amdgpu(situation)
            why = f"kernel {newer} is newer than the running one, and has the module"
            fixes = (Fix(f"Reboot into kernel {newer}", (Reboot(why=why),)),) if newer else ()
            fixes += (load, *install) if there or not modules else (*install, load)
    return finding(
        "note" if severity == "note" else "error",
        gpus,
        message=f"{called(gpus)} uses the radeon driver: ROCm works only with amdgpu, and this GPU is too old for it."
        if old
        else f"{called(gpus)} has no AMD driver{where}: {state}.",
        saw=gpus[0].driver.value or "no driver",
        want="amdgpu",
        evidence=(
            Evidence.of("gpu.driver", gpus[0].driver),
            Evidence.of("amd.modules_loaded", machine.amd.modules_loaded),
            *log_evidence(situation, lines),
        ),
        fixes=worthwhile(situation, gpus, fixes),
        supersedes=("amd-kfd-missing",),
    )


_NOT_PROBED = "not probed"


def _unanswered(situation: Situation) -> Iterator[NotJudged]:
    """The driver hung, crashed or could not be opened when gpudoctor asked it about a GPU that should be used:
    whether it starts is unknown, whatever the files say."""
    if situation.machine.level == "static":
        return
    if _needed(situation, "nvidia"):
        cuda = situation.machine.nvidia.cuda
        half = cuda.value is not None and cuda.value.status == 0 and cuda.value.devices is None
        if half or (cuda.undecided and cuda.why != _NOT_PROBED):
            yield _unknown_start("NVIDIA driver", cuda.value.message if cuda.value else cuda.why)
    hsa = situation.machine.amd.hsa
    if _needed(situation, "amd") and hsa.undecided and hsa.why != _NOT_PROBED:
        yield _unknown_start("ROCm runtime", hsa.why)


def _unknown_start(who: str, why: str) -> NotJudged:
    return NotJudged(
        why=f"whether the {who} starts is not known ({why or 'it said nothing'})", matters=True, fallback=True
    )


def _needed(situation: Situation, vendor: Vendor) -> bool:
    """Whether a usable GPU of this vendor should work. Without torch another framework may use it."""
    needed = situation.expected_vendor == vendor or (
        situation.expected_vendor is None and (situation.requires_gpu or situation.torch is None)
    )
    return needed and bool(situation.usable_of(vendor))


def _failing_runtime(situation: Situation) -> Iterator[Finding]:
    """The device nodes of an AMD GPU open, but the HSA runtime does not start or finds no GPU."""
    hsa = situation.machine.amd.hsa.value
    if hsa is None or not situation.usable_of("amd") or situation.in_wsl:
        return
    limited = any(situation.variable(name) is not None for name in (*VISIBILITY, "GPU_DEVICE_ORDINAL"))
    if hsa.status == 0 and (hsa.lists_gpu or limited):
        return
    failure = f"does not start: hsa_init answers {hsa.status:#x}" if hsa.status else "finds no GPU"
    text = "Read the kernel log: `sudo dmesg | grep -i -e amdgpu -e kfd`; update the host's amdgpu driver or kernel."
    again = (AddContainerFlags("recreate"),) if situation.in_container else ()
    host = Manual(f"On the host: reboot if the problem remains. {text}", risk="reboot")
    yield Finding(
        severity="error",
        message=f"/dev/kfd opens, but the ROCm runtime {failure}{f' ({hsa.message})' if hsa.message else ''}.",
        saw=f"HSA status {hsa.status:#x}" if hsa.status else "no GPU agent",
        want="a GPU agent",
        subject="ROCm runtime",
        confidence="likely",
        evidence=(Evidence.of("amd.hsa", situation.machine.amd.hsa),),
        fixes=(
            Fix("Recreate the container, then check its host", (*again, host))
            if situation.in_container
            else Fix("Reboot", (Reboot(), Manual(text, risk="root"))),
        ),
        supersedes=("no-gpu",),
        fallback=True,
    )
