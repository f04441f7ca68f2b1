"""No usable GPU: reported only if no more exact cause is known (GPD101)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AddContainerFlags, Device, Evidence, Finding, Fix, Manual, NotJudged, by_hand
from gpudoctor.machine import DeviceNode, Gpu
from gpudoctor.plain_text import NO_USABLE_GPU
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import cpu_task, run_in_a_job, submits_to
from gpudoctor.situation.device_nodes import dead_nodes
from gpudoctor.situation.gpu_groups import gpu_names, group_by
from gpudoctor.situation.usable_gpus import is_excluded


@check("GPD101", "no-gpu", "driver")
def no_gpu(situation: Situation) -> Verdicts:
    """There is no NVIDIA or AMD GPU that this environment can use.

    ## Why it matters
    Without a GPU, a GPU build of a framework does no more than a CPU build would.

    ## How it is judged
    The check reads the PCI bus and what replaces it (KFD, WSL, Jetson). Without a GPU build of a framework, a machine
    without GPUs, or with GPUs that nothing can use, is healthy: a note. With one, or if a GPU is required, it is an
    error, unless another check knows the exact cause; so it is beside usable GPUs of another vendor if a node of
    those that are needed fails to open. Where smoke kernels were asked for on the CPU alone, a GPU build needs none.
    If the bus could not be read, the check reports nothing. A login node, from which jobs are submitted and where no
    driver is installed, is told to run it in a job.

    ## Fix safety
    Replacing a GPU build by a CPU build is right only if no GPU should be used. If no GPU build is installed either,
    there is nothing to fix.
    """
    machine, vendor = situation.machine, situation.expected_vendor
    on_the_cpu = machine.smoke is not None and machine.smoke.cpu_asked
    needed = situation.requires_gpu or (vendor is not None and not on_the_cpu)
    dead = next(dead_nodes(situation, vendor), None)
    usable = situation.usable_of(vendor) if dead and vendor else situation.usable
    if usable or machine.assumed or _behind_windows(situation) or _awaits_its_driver(situation):
        return
    if not machine.gpus and machine.buses.undecided:
        unknown_torch = situation.environment.torch.undecided
        why = f"the PCI bus could not be read ({machine.buses.why})"
        yield NotJudged(why=why, matters=needed or unknown_torch)
        return
    evidence = (
        Evidence.of("buses", machine.buses),
        *(Evidence("gpu", _why(situation, gpu)) for gpu in machine.gpus[:4]),
    )
    if not needed:
        if not machine.gpus:
            yield Finding(
                severity="note",
                message="This machine has no NVIDIA or AMD GPU that can compute.",
                saw="no GPU",
                subject="machine",
                evidence=evidence,
            )
        yield from _kept_from_use(situation)
        return
    if cpu_task(situation):
        return
    known = _failing(situation, dead) or _reserved(situation) or _excluded(situation) or _in_docker_desktop(situation)
    lack = known or _none(situation)
    framework, wanted = situation.gpu_framework, _wanted(situation)
    need = f"{framework.title} is built for {wanted} GPUs" if framework else "A GPU is required"
    yield Finding(
        severity="error",
        message=f"{need}, but {lack.but}",
        saw=lack.saw,
        want=f"an {wanted} GPU",
        subject="machine",
        confidence="certain" if lack.certain else "likely",
        evidence=evidence,
        fixes=(lack.fix,),
        fallback=True,
    )


class _Lack(Struct, frozen=True):
    """Why there is no GPU to compute on, and what a person does about it."""

    but: str
    saw: str
    fix: Fix
    certain: bool = False


def _wanted(situation: Situation) -> str:
    return {"nvidia": "NVIDIA", "amd": "AMD", None: "NVIDIA or AMD"}[situation.expected_vendor]


def _reserved(situation: Situation) -> _Lack | None:
    """A GPU that virtual machines have."""
    vendor = situation.expected_vendor
    gpu = next((gpu for gpu in situation.machine.gpus if gpu.reserved and vendor in (None, gpu.vendor)), None)
    if gpu is None:
        return None
    text = (
        f"Return the GPU {gpu.pci_id or gpu.name} to the host: remove its id from the vfio-pci options "
        "(/etc/modprobe.d, kernel command line), and reboot."
    )
    return _Lack(
        but=f"{gpu.name} is reserved for virtual machines ({gpu.driver.value}).",
        saw=gpu.driver.value or "",
        fix=by_hand("Return the GPU to the host", text, "reboot"),
        certain=True,
    )


def _excluded(situation: Situation) -> _Lack | None:
    """A GPU that the driver leaves out as it was told."""
    gpu = next((gpu for gpu in situation.machine.gpus if is_excluded(situation.machine, gpu)), None)
    if gpu is None or situation.expected_vendor == "amd":
        return None
    text = (
        "Remove its UUID from the option NVreg_ExcludedGpus of the module nvidia (/etc/modprobe.d, kernel command "
        "line), build the initial ramdisk again, and reboot."
    )
    return _Lack(
        but=f"the driver was told to leave {gpu.name} out.",
        saw="GPU Excluded: Yes",
        fix=by_hand("Give the GPU back to the driver's programs", text, "reboot"),
        certain=True,
    )


def _failing(situation: Situation, node: DeviceNode | None) -> _Lack | None:
    """A node that is there and does not open."""
    if node is None:
        return None
    log = "the kernel log (`sudo dmesg | grep -i -e nvrm -e amdgpu`) says why."
    fix = by_hand("Reboot, and read why the node does not open", f"Reboot; {log}", "reboot")
    if situation.in_container:
        again = AddContainerFlags("recreate", why="its node may be one of before the driver was loaded again")
        host = Manual(f"If it does not open then either: reboot the host; {log}", risk="reboot")
        fix = Fix("Recreate the container; if the problem remains, reboot its host", (again, host))
    return _Lack(
        but=f"{node.path} does not open ({node.opened}): the driver does not reach the GPU.",
        saw=f"{node.path}: {node.opened}",
        fix=fix,
        certain=not situation.machine.gpus,
    )


def _in_docker_desktop(situation: Situation) -> _Lack | None:
    """A container of Docker Desktop, which runs them in a virtual machine of its own; on Windows that is WSL."""
    if not situation.in_container:
        return None
    from gpudoctor.situation.circumstances import circumstance

    kernel = situation.machine.system.kernel.value or ""
    row = circumstance(situation, "docker-desktop-of-linux")
    if row is None or not re.search(row.pattern, kernel):
        return None
    return _Lack(
        but=f"{row.meaning}.",
        saw=f"kernel {kernel}",
        fix=by_hand("Start the container with Docker Engine", row.workaround, elsewhere=True),
        certain=not situation.machine.gpus,
    )


def _none(situation: Situation) -> _Lack:
    """No GPU, or none of which anything is known."""
    gpus, framework = situation.machine.gpus, situation.gpu_framework
    if batch_system := submits_to(situation.machine):
        return _Lack(
            but="this machine has none: it submits jobs to machines that may have one.",
            saw=f"no GPU; jobs are submitted here ({batch_system})",
            fix=run_in_a_job(batch_system),
            certain=True,
        )
    cpu_is_enough = not situation.requires_gpu and framework is not None and framework.has_cpu_build
    instead = f", or install the CPU build of {framework.title} to run here" if framework and cpu_is_enough else ""
    other = f"a machine with an {_wanted(situation)} GPU"
    text = f"Run this on {other}{instead}"
    return _Lack(
        but="none of this machine's GPUs can be used." if gpus else "this machine has no NVIDIA or AMD GPU.",
        saw=NO_USABLE_GPU,
        fix=by_hand(text, f"{text}."),
        certain=not gpus,
    )


def _kept_from_use(situation: Situation) -> Iterator[Finding]:
    """GPUs that nothing here needs and that something keeps from use, unless another check says it."""
    for why, standings in group_by(situation.standings, lambda standing: standing.why).items():
        gpus = tuple(standing.gpu for standing in standings)
        names = gpu_names(gpus)
        yield Finding(
            severity="note",
            message=f"{names} cannot be used here: {why}.",
            saw=why,
            want="a usable GPU",
            subject="machine",
            devices=tuple(Device.of(gpu) for gpu in gpus),
            evidence=tuple(Evidence("gpu", _why(situation, gpu), gpu.source) for gpu in gpus[:4]),
            fallback=True,
        )


def _awaits_its_driver(situation: Situation) -> bool:
    """Whether the first CUDA program brings the GPU's driver with it."""
    if not situation.machine.of_vendor("nvidia"):
        return False
    from gpudoctor.situation.no_kernel_driver import loads_at_first_use

    return loads_at_first_use(situation)


def _behind_windows(situation: Situation) -> bool:
    """Whether this is WSL with /dev/dxg: Windows has the GPU, and no file here names it."""
    nodes = situation.machine.nvidia.nodes.value or ()
    return situation.in_wsl and any(node.path == "/dev/dxg" and node.opened == "ok" for node in nodes)


def _why(situation: Situation, gpu: Gpu) -> str:
    standing = next((standing for standing in situation.standings if standing.gpu.key == gpu.key), None)
    return f"{gpu.name}: {standing.why}" if standing and standing.why else gpu.name
