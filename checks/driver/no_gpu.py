"""No usable GPU: reported only if no more exact cause is known (GPD101)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, NotJudged, by_hand
from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import cpu_task
from gpudoctor.situation.device_nodes import dead_nodes
from gpudoctor.situation.gpu_groups import gpu_names, group_by


@check("GPD101", "no-gpu", "driver")
def no_gpu(situation: Situation) -> Verdicts:
    """There is no NVIDIA or AMD GPU that this environment can use.

    ## Why it matters
    Without a GPU, a GPU build of a framework does no more than a CPU build would.

    ## How it is judged
    The check reads the PCI bus and what replaces it (KFD, WSL, Jetson). Without a GPU build of a framework, a machine
    without GPUs, or with GPUs that nothing can use, is healthy: a note. With one, or if a GPU is required, it is an
    error, unless another check knows the exact cause; so it is beside usable GPUs of another vendor if a node of
    those that are needed fails to open. If the bus could not be read, the check reports nothing.

    ## Fix safety
    Replacing a GPU build by a CPU build is right only if no GPU should be used. If no GPU build is installed either,
    there is nothing to fix.
    """
    machine, vendor = situation.machine, situation.expected_vendor
    needed = vendor is not None or situation.requires_gpu
    dead = next(dead_nodes(situation, vendor), None)
    usable = situation.usable_of(vendor) if dead and vendor else situation.usable
    if usable or machine.assumed or _behind_windows(situation):
        return
    if not machine.gpus and machine.buses.undecided:
        unknown_torch = situation.environment is None or situation.environment.torch.undecided
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
    name = {"nvidia": "NVIDIA", "amd": "AMD", None: "NVIDIA or AMD"}[vendor]
    reserved = [gpu for gpu in machine.gpus if gpu.reserved and not dead and vendor in (None, gpu.vendor)]
    framework = situation.gpu_framework
    need = f"{framework.title} is built for {name} GPUs" if framework else "A GPU is required"
    message = f"{need}, but " + (
        f"{reserved[0].name} is reserved for virtual machines ({reserved[0].driver.value})."
        if reserved
        else f"{dead.path} does not open ({dead.opened}): the driver does not reach the GPU."
        if dead
        else "none of this machine's GPUs can be used."
        if machine.gpus
        else "this machine has no GPU that can compute."
    )
    cpu_is_enough = not situation.requires_gpu and framework is not None and framework.has_cpu_build
    release = (
        f"Return the GPU {reserved[0].pci_id or reserved[0].name} to the host: remove its id from the vfio-pci "
        "options (/etc/modprobe.d, kernel command line), and reboot."
        if reserved
        else f"Run this on a machine with an {name} GPU"
        + (f", or install the CPU build of {framework.title} to run here." if cpu_is_enough and framework else ".")
    )
    title = f"Use a machine with an {name} GPU" + (", or a CPU build" if cpu_is_enough else "")
    title = "Return the GPU to the host" if reserved else title
    if dead:
        read = "the kernel log (`sudo dmesg | grep -i -e nvrm -e amdgpu`) says why"
        release = f"Reboot{' the host, then start the container again' if situation.in_container else ''}; {read}."
        title = "Reboot, and read why the node does not open"
    yield Finding(
        severity="error",
        message=message,
        saw=reserved[0].driver.value or ""
        if reserved
        else f"{dead.path}: {dead.opened}"
        if dead
        else "no usable GPU",
        want=f"an {name} GPU",
        subject="machine",
        confidence="certain" if not machine.gpus or reserved else "likely",
        evidence=evidence,
        fixes=(by_hand(title, release, "reboot" if reserved or dead else "safe"),),
        fallback=True,
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


def _behind_windows(situation: Situation) -> bool:
    """Whether this is WSL with /dev/dxg: Windows has the GPU, and no file here names it."""
    nodes = situation.machine.nvidia.nodes.value or ()
    return situation.machine.system.wsl.known and any(
        node.path == "/dev/dxg" and node.opened == "ok" for node in nodes
    )


def _why(situation: Situation, gpu: Gpu) -> str:
    standing = next((standing for standing in situation.standings if standing.gpu.key == gpu.key), None)
    return f"{gpu.name}: {standing.why}" if standing and standing.why else gpu.name
