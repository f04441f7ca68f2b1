"""Makes a Machine of the facts of a text: what nobody said is healthy, as for a described machine."""

from __future__ import annotations

import re
from typing import Literal

from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.intake.described import healthy, with_driver, with_gpus
from gpudoctor.intake.described_log import with_logged_state
from gpudoctor.intake.described_system import named_os
from gpudoctor.intake.text.corroboration import borne_out
from gpudoctor.intake.text.device_nodes import with_nodes
from gpudoctor.intake.text.dkms import with_trees
from gpudoctor.intake.text.environment import with_environment, with_errors
from gpudoctor.intake.text.facts import SILENT, Facts, NamedGpu, Statement
from gpudoctor.intake.text.gpus import identify, unnamed_gpu
from gpudoctor.intake.text.kernel_drivers import (
    taken_by,
    with_amds_driver,
    with_kernel_driver,
    without_unused_modules,
)
from gpudoctor.intake.text.kernel_log import logged
from gpudoctor.intake.text.ranking import contradictions, decided, decided_with
from gpudoctor.intake.text.torch import is_rocm, source
from gpudoctor.intake.text.visibility import without_other_gpus
from gpudoctor.late_regex import late
from gpudoctor.machine import (
    ASSUMED,
    BatchJob,
    Gpu,
    InstalledModule,
    Machine,
    NvidiaApi,
    NvmlDevice,
    Os,
    PastedText,
    System,
    absent,
    known,
    unknown,
)
from gpudoctor.machine.pasted_text import DOCKER_DESKTOP
from gpudoctor.matrix.gpu_models import Identity
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.versions import figures
from gpudoctor.privacy import without_secrets
from gpudoctor.probes.wsl_jetson import is_wsl_kernel
from gpudoctor.situation.frameworks import installed_frameworks

_FLAVOUR = " kernel module"
_OF_LINUX = late(rf"NVIDIA driver \d.*|.*{_FLAVOUR}")
"""What is assumed of NVIDIA's driver for Linux: Windows and Jetson have another."""
_DISTRIBUTION = late(r"(?:\d+(?:\.\d+){2,3}-\S+\s+)?(?P<name>[^(,]{2,60})")
"""Its name, behind the release of the kernel where somebody wrote both."""
_ANY_DRIVER = "580"
"""Where it is unknown which driver the GPU needs."""
_ASKS_FOR_GPUS = late(r"--(?:gpus|device|runtime|privileged|hooks-dir)\b|NVIDIA_VISIBLE_DEVICES|/dev/")
"""A command for a container that gives it GPUs in some way."""
_GIVES_NODES = late(r"--privileged|--device[= ]\S*(?:nvidia|dri)")
"""Options that need no toolkit on the host to have an effect."""
_BRINGS_LIBRARIES = late(
    r"--gpus\b|--runtime\b|--hooks-dir\b|NVIDIA_VISIBLE_DEVICES|--device[= ]nvidia\.com/|/dev/(?:dxg|kfd|dri)"
    r"|(?:-v|--volume|--mount)[= ]\S*(?:nvidia|cuda|/lib)"
)
_LACKS_LIBRARIES = "Found no NVIDIA driver"
"""What torch says where the driver's library is not there: device nodes alone do not bring it into a container."""
_WITH_GPUS = " with GPUs"
_NODE_ASKED_FOR = 'adding custom device "/dev/'
"""In what Docker says of a node that it was to give a container."""


def machine_of(facts: Facts, matrix: Matrix, machines: tuple[str, ...] = ()) -> Machine:
    """The machine that these facts are about; `machines` are all that the text tells of."""
    variables = {name: said.value for name, said in decided_with(facts, "variable ").items()}
    machine = healthy(variables)
    machine = replace(machine, system=_system(machine.system, facts, matrix))
    log = logged(facts, matrix)
    machine = replace(machine, kernel_log=known(log, log.source))
    found, unread = identify(facts, matrix)
    found = found or unnamed_gpu(facts, matrix, rocm=is_rocm(facts))
    machine = _with_gpus(machine, found, facts, matrix)
    if own := decided(facts, "amd's driver"):
        machine = with_amds_driver(machine, own)
    machine = with_trees(machine, facts, matrix)
    machine = _with_answers(machine, facts)
    machine = with_nodes(machine, facts)
    machine = with_environment(machine, facts, matrix)
    if log.faults and machine.gpus:
        machine = with_logged_state(machine)
    machine = without_other_gpus(with_errors(machine, facts, matrix), facts, matrix)
    if foreign := _foreign(machine, facts):
        named = Os(name={"windows": "Windows", "macos": "macOS"}[foreign])
        system = replace(machine.system, os=known(named, "text"), kernel=unknown(SILENT))
        said = decided(facts, "os")
        if said and "arm64" in said.value:
            system = replace(system, arch=known("arm64", source(said)))
        machine = replace(machine, system=system)
    if foreign or machine.system.jetson.known:
        machine = _without_linux_driver(machine)
    return replace(
        machine, pasted=_pasted(machine, facts, matrix, unread, machines, foreign), assumed=_assumed(machine)
    )


def _without_linux_driver(machine: Machine) -> Machine:
    """The machine without what was assumed of a driver that it does not have."""
    stack, module = machine.nvidia, machine.nvidia.module
    if module.value and module.value.flavour:
        stack = replace(stack, module=replace(module, value=replace(module.value, flavour=None)))
    assumed = tuple(one for one in machine.assumed if not _OF_LINUX.fullmatch(one))
    return replace(machine, nvidia=stack, assumed=assumed)


def _assumed(machine: Machine) -> tuple[str, ...]:
    """What the text does not say and is assumed, besides what the builders of the parts named."""
    python, assumed = machine.examined.python, list(machine.assumed)
    if machine.system.kernel.source == ASSUMED:
        assumed.insert(0, "kernel")
    if machine.torch is not None and python.source == ASSUMED:
        assumed.append(f"Python {python.value}")
    return tuple(dict.fromkeys(assumed)) or ("healthy hardware",)


# --- the system ------------------------------------------------------------------------------------


def _system(system: System, facts: Facts, matrix: Matrix) -> System:
    platform, kernel = decided(facts, "platform"), decided(facts, "kernel")
    release, arch = kernel.value if kernel else "", decided(facts, "arch")
    told = kernel
    if platform and (found := re.match(r"Linux-(.+?)-(x86_64|aarch64)", platform.value)):
        release, told = found[1], platform
        system = replace(system, arch=known(found[2], source(platform)))
    elif arch:
        system = replace(system, arch=known(arch.value, source(arch)))
    if told and re.match(r"\d+\.\d+", release):
        wsl = known(release, source(told)) if is_wsl_kernel(release) else absent(source(told), "no kernel of WSL")
        system = replace(system, kernel=known(release, source(told)), wsl=wsl)
    elif wsl_said := decided(facts, "system wsl"):
        system = replace(system, wsl=known("WSL2", source(wsl_said)), kernel=unknown(SILENT, source(wsl_said)))
    if not told and (os := decided(facts, "os")) and (within := re.match(r"Linux (\d+\.\d+(?:\.\d+)?)\b", os.value)):
        system = replace(system, kernel=known(within[1], source(os)))
    os = decided(facts, "os") or _of_kernel(system, told or platform)
    if os and (name := _DISTRIBUTION.match(os.value)):
        if "aarch64" in os.value and not platform:
            system = replace(system, arch=known("aarch64", source(os)))
        try:
            system = replace(system, os=known(named_os(name["name"].strip(), matrix), source(os)))
        except InputError:
            system = replace(system, os=known(Os(name=os.value[:80]), source(os)))
    if (libc := decided(facts, "libc")) and (found := re.match(r"glibc-(\d\.\d+)", libc.value)):
        system = replace(system, libc=known(f"glibc {found[1]}", source(libc)))
    # What `salloc` was given says nothing of a job that was submitted beside it.
    jobs = [one for one in facts.said if one.what == "job"]
    if asked := jobs or [one for one in facts.said if one.what == "job allocation"]:
        with_gpus = [one for one in asked if one.value.endswith(_WITH_GPUS)]
        first = (with_gpus or asked)[0]
        job = BatchJob(kind=first.value.removesuffix(_WITH_GPUS), gpus=1 if with_gpus else None)
        system = replace(system, job=known(job, source(first)))
    if hypervisor := decided(facts, "hypervisor"):
        system = replace(system, virtual_machine=known(hypervisor.value, source(hypervisor)))
    if container := decided(facts, "container"):
        system = replace(system, container=known(container.value, source(container)))
    return system


_KERNELS = (
    (late(r"\.fc(\d\d)\b"), r"Fedora \1"),
    (late(r"\.el(\d{1,2})(?:_\d|\b)"), r"RHEL \1"),
    (late(r"\+deb(\d\d)\b"), r"Debian \1"),
    (late(r"-cachyos\b"), "CachyOS"),
    (late(r"-(?:arch|zen|hardened)\d|-\d{1,2}-lts\b"), "Arch"),
    (late(r"-\d{8}-generic\b"), "Pop!_OS"),
    (late(r"-\d{1,3}-(?:generic|lowlatency)\b"), "Ubuntu"),
)
"""How distributions end the releases of the kernels that they build."""


def _of_kernel(system: System, told: Statement | None) -> Statement | None:
    """The distribution of a text that tells its kernel alone."""
    release = system.kernel.value or ""
    found = ((match, name) for pattern, name in _KERNELS if (match := pattern.search(release)))
    match, name = next(found, (None, ""))
    return Statement("os", match.expand(name), told.line, "prose") if match and told else None


# --- GPUs and drivers ------------------------------------------------------------------------------


def _with_gpus(
    machine: Machine, found: tuple[tuple[NamedGpu, Identity], ...], facts: Facts, matrix: Matrix
) -> Machine:
    identities = tuple(identity for _, identity in found)
    driver, assumed = _driver(facts, identities, matrix)
    version = driver.value if driver else ""
    if not found:
        machine = replace(machine, gpus=(), buses=unknown(_why_no_gpu(facts)))
        return replace(_with_version(machine, driver, matrix), assumed=(*machine.assumed, *assumed))
    nvidia = any(identity.vendor == "nvidia" for identity in identities)
    before = machine.assumed
    try:
        machine = with_gpus(machine, identities, version if nvidia else "", machine.log_faults, matrix)
    except InputError:  # no one driver runs them all: whatever they have is not said
        machine = with_gpus(machine, identities, _ANY_DRIVER, machine.log_faults, matrix)
        machine = replace(machine, assumed=(*before, f"NVIDIA driver {_ANY_DRIVER}"))
    listed_by_driver = facts.smi is not None and bool(facts.smi[0].devices)
    bound = {} if listed_by_driver else decided_with(facts, "bound ")
    if bound and (installed := decided(facts, "module nvidia")):
        machine = _with_module(machine, installed)
    taken = None if listed_by_driver else taken_by(facts)
    gpus = tuple(
        _told(gpu, named, identity, bound.get(named.bdf) or (taken if identity.vendor == "nvidia" else None))
        for gpu, (named, identity) in zip(machine.gpus, found, strict=True)
    )
    machine = replace(machine, gpus=gpus, assumed=(*machine.assumed, *assumed))
    if (l4t := decided(facts, "l4t")) and machine.system.jetson.value:
        jetson = replace(machine.system.jetson.value, l4t=l4t.value)
        machine = replace(machine, system=replace(machine.system, jetson=known(jetson, source(l4t))))
    if nvidia and driver is None and machine.nvidia.module.known:
        module = machine.nvidia.module
        machine = replace(machine, nvidia=replace(machine.nvidia, module=replace(module, source=ASSUMED)))
    return _with_sources(without_unused_modules(machine, driver_named=driver is not None), driver)


def _why_no_gpu(facts: Facts) -> str:
    names = list(dict.fromkeys(gpu.name or gpu.arch for gpu in facts.gpus if not gpu.vendor_only))
    several = f"the text names {', '.join(names[:3])}{', ...' * (len(names) > 3)}, and not which of them it is about"
    return several if len(names) > 1 else "the text names no GPU"


def _with_module(machine: Machine, said: Statement) -> Machine:
    """NVIDIA's module lies there for the running kernel, whichever driver has the GPU."""
    module = InstalledModule(name="nvidia", kernel=machine.system.kernel.value or "", path=source(said))
    return replace(machine, nvidia=replace(machine.nvidia, modules_installed=known((module,), source(said))))


def _told(gpu: Gpu, named: NamedGpu, identity: Identity, bound: Statement | None) -> Gpu:
    """The GPU as the text names it; `bound` is the kernel driver that lspci names for it, or that it names none."""
    where = f"text, line {named.line}"
    arch = known(identity.arch, where) if identity.arch else unknown("its name does not tell", where)
    gpu = replace(gpu, arch=arch, source=where, name=identity.name)
    if named.bdf:
        gpu = replace(gpu, bdf=named.bdf)
    if named.memory:
        gpu = replace(gpu, memory=known(named.memory, where))
    return with_kernel_driver(gpu, bound) if bound else gpu


def _driver(
    facts: Facts, identities: tuple[Identity, ...], matrix: Matrix
) -> tuple[Statement | None, tuple[str, ...]]:
    """The NVIDIA driver; where only the CUDA is told that it serves, the one that came with that, or the first one
    for these GPUs that serves no more."""
    driver = decided(facts, "driver")
    if driver is not None:
        return driver, ()
    cuda, branch = decided(facts, "driver cuda"), decided(facts, "driver branch")
    version = matrix.nvidia.bundled_driver(cuda.value) if cuda else None
    if cuda is None or version is None:
        return (branch if branch and matrix.nvidia.release_of_branch(branch.value) else None), ()
    firsts = (matrix.nvidia.first_driver(one.arch, one.chip, one.pci_id) for one in identities if one.arch)
    serving = (first for first in firsts if first and matrix.nvidia.cuda_served(first) == cuda.value)
    version = max((version, *serving), key=figures)
    return Statement("driver", version, cuda.line, cuda.by), (f"NVIDIA driver {version} (serves CUDA {cuda.value})",)


def _with_version(machine: Machine, driver: Statement | None, matrix: Matrix) -> Machine:
    """A driver without a GPU that anybody named."""
    if driver is None:
        return machine
    return _with_sources(with_driver(machine, driver.value, matrix), driver)


def _with_sources(machine: Machine, driver: Statement | None) -> Machine:
    module = machine.nvidia.module
    if driver is None or not module.known:
        return machine
    where = source(driver)
    stack = replace(machine.nvidia, module=replace(module, source=where))
    if stack.userland.known:
        stack = replace(stack, userland=replace(stack.userland, source=where))
    return replace(machine, nvidia=stack)


def _with_answers(machine: Machine, facts: Facts) -> Machine:
    """What the drivers and their tools answered, in the place of what was assumed."""
    module = machine.nvidia.module.value
    flavour = decided_with(facts, "flavour ").get(module.version) if module else None
    if module and flavour:
        own = replace(module, flavour="open" if flavour.value == "open" else "proprietary")
        machine = replace(machine, nvidia=replace(machine.nvidia, module=known(own, source(flavour))))
    elif module and module.flavour and decided(facts, "open modules") is None:
        machine = replace(machine, assumed=(*machine.assumed, f"{module.flavour}{_FLAVOUR}"))
    if facts.smi is not None:
        answer, line = facts.smi
        if not (answer.status and facts.errors):  # its message tells more exactly what a failure means
            machine = _with_smi(machine, answer, f"text, line {line}")
    if facts.hsa is not None:
        answer_hsa, line = facts.hsa
        machine = replace(machine, amd=replace(machine.amd, hsa=known(answer_hsa, f"text, line {line}")))
    if firmware := decided(facts, "amd firmware"):
        machine = replace(machine, amd=replace(machine.amd, firmware_package=known(firmware.value, source(firmware))))
    if facts.amd_smi is not None:
        gpus, line = facts.amd_smi
        machine = replace(machine, amd=replace(machine.amd, smi=known(gpus, f"text, line {line}")))
    return machine


def _with_smi(machine: Machine, answer: NvidiaApi, where: str) -> Machine:
    machine = replace(machine, nvidia=replace(machine.nvidia, smi=known(answer, where)))
    devices = {device.bdf or str(device.index): device for device in answer.devices or ()}
    gpus = tuple(_with_device(gpu, devices) for gpu in machine.gpus)
    return replace(machine, gpus=gpus)


def _with_device(gpu: Gpu, devices: dict[str, NvmlDevice]) -> Gpu:
    device = devices.get(gpu.bdf or "") or devices.get(str(gpu.index))
    return replace(gpu, nvml=device) if gpu.vendor == "nvidia" and device else gpu


# --- what the text leaves open ---------------------------------------------------------------------


def _pasted(
    machine: Machine,
    facts: Facts,
    matrix: Matrix,
    unread: tuple[str, ...],
    machines: tuple[str, ...],
    foreign: Literal["", "windows", "macos"],
) -> PastedText:
    lines = {line.text.strip(): line.number for line in facts.errors}
    unsaid = []
    if not machine.gpus:
        unsaid.append("GPU")
    elif any(gpu.arch.undecided for gpu in machine.gpus):
        unsaid.append("exact GPU")
    driver_said = _driver_said(facts)
    if driver_said is None and not machine.of_vendor("amd"):
        unsaid.append("driver")
    if machine.torch is None:
        others = installed_frameworks(machine.examined, matrix)
        if not any(one.vendor for one in others):
            unsaid.append("torch")
    available = decided(facts, "available")
    works = source(available) if available and available.value == "True" else ""
    begun = decided(facts, "gpu started")
    if begun and begun.by == "prose" and available and not works:
        begun = None
    command, told = decided(facts, "container command"), borne_out(facts, machine, matrix)
    in_desktop = any(one.circumstance == DOCKER_DESKTOP for one in told)  # the nodes are of its virtual machine
    given = command is not None and bool(_GIVES_NODES.search(command.value))
    given, engine = given or any(_NODE_ASKED_FOR in line.text for line in facts.errors), decided(facts, "container")
    asks = command is None or _ASKS_FOR_GPUS.search(command.value) is not None
    if command and any(_LACKS_LIBRARIES in line.text for line in facts.errors):
        asks = _BRINGS_LIBRARIES.search(command.value) is not None
        given = given and asks
    started = f"{engine.value} run {without_secrets(command.value)}" if command and engine and not asks else ""
    complaint = decided(facts, "complaint")
    return PastedText(
        complaint=source(complaint) if complaint else "",
        gpus_given=given and not in_desktop,
        container_command="" if in_desktop else started,
        unsaid=tuple(unsaid),
        contradictions=contradictions(facts),
        machines=machines,
        unread=unread,
        foreign=foreign,
        works=works,
        started=source(begun) if begun else "",
        about=facts.about,
        names_torch=facts.names_torch,
        told=told,
        off_topic="no error" if facts.off_topic and machine.gpus else facts.off_topic,
        wants_cpu=decided(facts, "wants cpu") is not None,
        vendor="amd" if decided(facts, "for amd") and not driver_said else None,
        error_lines=tuple(lines[text.strip()] for text in machine.errors),
    )


def _driver_said(facts: Facts) -> Statement | None:
    """What is said of NVIDIA's driver: its release, the CUDA that it serves, its branch."""
    return next(filter(None, (decided(facts, what) for what in ("driver", "driver cuda", "driver branch"))), None)


def _foreign(machine: Machine, facts: Facts) -> Literal["", "windows", "macos"]:
    """Windows or macOS, unless the text shows a Linux."""
    if machine.system.wsl.known or (decided(facts, "platform") and machine.system.kernel.source != ASSUMED):
        return ""
    os = decided(facts, "os")
    if os and re.search(r"(?i)windows|\bwin1[01]\b", os.value):
        return "windows"
    if os and re.search(r"(?i)mac ?os|darwin|os ?x", os.value):
        return "macos"
    if os:
        return ""
    if facts.log or re.search(r"/(?:home|usr|root|opt)/", " ".join(line.text for line in facts.errors)):
        return ""
    if decided(facts, "system windows"):
        return "windows"
    return "macos" if decided(facts, "system macos") else ""
