"""From the facts of a text to a Machine: what nobody said is healthy, as for a machine that is described."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.intake.described import empty_environment, healthy, with_driver, with_gpus
from gpudoctor.intake.described_log import with_logged_state
from gpudoctor.intake.described_system import named_os
from gpudoctor.intake.described_torch import python_for
from gpudoctor.intake.text.access import refused
from gpudoctor.intake.text.corroboration import borne_out
from gpudoctor.intake.text.dkms import with_trees
from gpudoctor.intake.text.facts import Facts, NamedGpu, Statement
from gpudoctor.intake.text.gpus import identified, unnamed_gpu
from gpudoctor.intake.text.kernel_drivers import with_kernel_driver, without_unused_modules
from gpudoctor.intake.text.kernel_log import logged
from gpudoctor.intake.text.lines import Line
from gpudoctor.intake.text.ranking import contradictions, decided, decided_with
from gpudoctor.intake.text.torch import is_rocm, pasted_torch, source, with_trial
from gpudoctor.machine import (
    BatchJob,
    DeviceNode,
    Distribution,
    Gpu,
    ImportTrial,
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
from gpudoctor.matrix.versions import figures
from gpudoctor.probes.wsl_jetson import is_wsl_kernel
from gpudoctor.situation.frameworks import installed_frameworks

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Identity, Matrix

_SILENT, _ASSUMED = "the text does not say", "assumed"
_FLAVOUR = " kernel module"
_OF_LINUX = re.compile(rf"NVIDIA driver \d.*|.*{_FLAVOUR}")
"""What is assumed of NVIDIA's driver for Linux: Windows and Jetson have another."""
_WHOLE_LIST = 15
"""Packages; the environment of a framework has more."""
_IMPORT_ERROR = re.compile(
    r"(?:ImportError|OSError|ModuleNotFoundError)\b.*(?:/torch/lib/|libtorch|libc10|lib(?:cu|nccl|nv|hsa|amdhip|roc|hip|MIOpen)\w*)"
)
"""An error that `import torch` ends with."""
_MISSING_LIBRARY = "late-library"
"""The row of error patterns for any missing library: the import of torch tells more about torch's own."""
_DISTRIBUTION = re.compile(r"(?:\d+(?:\.\d+){2,3}-\S+\s+)?(?P<name>[^(,]{2,60})")
"""Its name, behind the release of the kernel where somebody wrote both."""
_ANY_DRIVER = "580"
"""Where it is unknown which driver the GPU needs."""
_NO_GPU = re.compile(
    r"No CUDA GPUs|no NVIDIA driver|No HIP GPUs|no CUDA-capable device|No devices were found|libcuda\.so|hsa api call"
)
_GIVES_NODES = re.compile(r"--privileged|--device[= ]\S*(?:nvidia|dri)")
"""Options that need no toolkit on the host to have an effect."""
_GRANTS_GPUS = re.compile(
    r"--gpus\b|--runtime[= ]nvidia|--privileged|--device[= ]\S*(?:nvidia|dri)|NVIDIA_VISIBLE_DEVICES|/dev/dxg"
)
"""ROCm needs the nodes of /dev/dri besides /dev/kfd."""


def machine_of(facts: Facts, matrix: Matrix, machines: tuple[str, ...] = ()) -> Machine:
    """The machine that these facts are about; `machines` are all that the text tells of."""
    variables = {name: said.value for name, said in decided_with(facts, "variable ").items()}
    machine = healthy(variables)
    machine = replace(machine, system=_system(machine.system, facts, matrix))
    log = logged(facts, matrix)
    machine = replace(machine, kernel_log=known(log, log.source))
    found, unread = identified(facts, matrix)
    found = found or unnamed_gpu(facts, matrix, rocm=is_rocm(facts))
    machine = _with_gpus(machine, found, facts, matrix)
    machine = with_trees(machine, facts, matrix)
    machine = _with_answers(machine, facts)
    machine = _with_nodes(machine, facts)
    machine = _with_environment(machine, facts, matrix)
    if log.faults and machine.gpus:
        machine = with_logged_state(machine)
    machine = _with_errors(machine, facts, matrix)
    if foreign := _foreign(machine, facts):
        named = Os(name={"windows": "Windows", "macos": "macOS"}[foreign])
        system = replace(machine.system, os=known(named, "text"), kernel=unknown(_SILENT))
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
    environment, assumed = machine.environment.value, list(machine.assumed)
    if machine.system.kernel.source == _ASSUMED:
        assumed.insert(0, "kernel")
    if environment is not None and environment.torch.value is not None and environment.python.source == _ASSUMED:
        assumed.append(f"Python {environment.python.value}")
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
        system = replace(system, wsl=known("WSL2", source(wsl_said)), kernel=unknown(_SILENT, source(wsl_said)))
    if not told and (os := decided(facts, "os")) and (within := re.match(r"Linux (\d+\.\d+(?:\.\d+)?)\b", os.value)):
        system = replace(system, kernel=known(within[1], source(os)))
    if (os := decided(facts, "os")) and (name := _DISTRIBUTION.match(os.value)):
        if "aarch64" in os.value and not platform:
            system = replace(system, arch=known("aarch64", source(os)))
        try:
            system = replace(system, os=known(named_os(name["name"].strip(), matrix), source(os)))
        except InputError:
            system = replace(system, os=known(Os(name=os.value[:80]), source(os)))
    if (libc := decided(facts, "libc")) and (found := re.match(r"glibc-(\d\.\d+)", libc.value)):
        system = replace(system, libc=known(f"glibc {found[1]}", source(libc)))
    asked = [one for one in facts.said if one.what == "slurm job"]
    if asked and not any(one.value == "gpus" for one in asked):
        system = replace(system, job=known(BatchJob(kind="slurm"), source(asked[0])))
    if container := decided(facts, "container"):
        system = replace(system, container=known(container.value, source(container)))
    return system


# --- GPUs and drivers ------------------------------------------------------------------------------


def _with_gpus(
    machine: Machine, found: tuple[tuple[NamedGpu, Identity], ...], facts: Facts, matrix: Matrix
) -> Machine:
    identities = tuple(identity for _, identity in found)
    driver, assumed = _driver(facts, identities, matrix)
    version = driver.value if driver else ""
    faults = machine.kernel_log.value.faults if machine.kernel_log.value else ()
    if not found:
        machine = replace(machine, gpus=(), buses=unknown("the text names no GPU"))
        return replace(_with_version(machine, driver, matrix), assumed=(*machine.assumed, *assumed))
    nvidia = any(identity.vendor == "nvidia" for identity in identities)
    before = machine.assumed
    try:
        machine = with_gpus(machine, identities, version if nvidia else "", faults, matrix)
    except InputError:  # no one driver runs them all: whatever they have is not said
        machine = with_gpus(machine, identities, _ANY_DRIVER, faults, matrix)
        machine = replace(machine, assumed=(*before, f"NVIDIA driver {_ANY_DRIVER}"))
    listed_by_driver = facts.smi is not None and bool(facts.smi[0].devices)
    bound = {} if listed_by_driver else decided_with(facts, "bound ")
    if bound and (installed := decided(facts, "module nvidia")):
        machine = _with_module(machine, installed)
    gpus = tuple(
        _told(gpu, named, identity, bound.get(named.bdf))
        for gpu, (named, identity) in zip(machine.gpus, found, strict=True)
    )
    machine = replace(machine, gpus=gpus, assumed=(*machine.assumed, *assumed))
    if (l4t := decided(facts, "l4t")) and machine.system.jetson.value:
        jetson = replace(machine.system.jetson.value, l4t=l4t.value)
        machine = replace(machine, system=replace(machine.system, jetson=known(jetson, source(l4t))))
    if nvidia and driver is None and machine.nvidia.module.known:
        module = machine.nvidia.module
        machine = replace(machine, nvidia=replace(machine.nvidia, module=replace(module, source=_ASSUMED)))
    return _with_sources(without_unused_modules(machine, driver_named=driver is not None), driver)


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
    cuda = decided(facts, "driver cuda")
    version = matrix.bundled_driver(cuda.value) if cuda else None
    if cuda is None or version is None:
        return None, ()
    firsts = (matrix.first_driver(one.arch, one.chip) for one in identities if one.arch)
    serving = (first for first in firsts if first and matrix.cuda_served(first) == cuda.value)
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
    elif module and module.flavour:
        machine = replace(machine, assumed=(*machine.assumed, f"{module.flavour}{_FLAVOUR}"))
    if facts.smi is not None:
        answer, line = facts.smi
        if not (answer.status and facts.errors):  # its message tells more exactly what a failure means
            machine = _with_smi(machine, answer, f"text, line {line}")
    if facts.hsa is not None:
        answer_hsa, line = facts.hsa
        machine = replace(machine, amd=replace(machine.amd, hsa=known(answer_hsa, f"text, line {line}")))
    if facts.amd_smi is not None:
        gpus, line = facts.amd_smi
        machine = replace(machine, amd=replace(machine.amd, smi=known(gpus, f"text, line {line}")))
    return machine


def _with_smi(machine: Machine, answer: NvidiaApi, where: str) -> Machine:
    machine = replace(machine, nvidia=replace(machine.nvidia, smi=known(answer, where)))
    devices = {device.bdf or str(device.index): device for device in answer.devices or () if not device.lost}
    gpus = tuple(_with_device(gpu, devices) for gpu in machine.gpus)
    return replace(machine, gpus=gpus)


def _with_device(gpu: Gpu, devices: dict[str, NvmlDevice]) -> Gpu:
    device = devices.get(gpu.bdf or "") or devices.get(str(gpu.index))
    return replace(gpu, nvml=device) if gpu.vendor == "nvidia" and device else gpu


def _with_nodes(machine: Machine, facts: Facts) -> Machine:
    """Device nodes that a listing shows or misses, and a container that was started without GPUs."""
    missing = decided_with(facts, "no node ")
    where = next((source(said) for said in missing.values()), "")
    if any(name.startswith("/dev/kfd") for name in missing):
        gone = absent(where, "no such file")
        machine = replace(machine, amd=replace(machine.amd, kfd=gone, topology=unknown(_SILENT)))
    if "/dev/dri" in missing:
        machine = replace(machine, amd=replace(machine.amd, render_nodes=known((), where)))
    machine = _with_refusals(machine, facts)
    listed = {name: said for name, said in decided_with(facts, "node ").items() if name.startswith("/dev/nvidia")}
    if listed and "/dev/nvidia-uvm" not in listed:  # of `ls -l /dev/nvidia*`, which lists all
        missing = {**missing, "/dev/nvidia-uvm": next(iter(listed.values()))}
        where = where or source(missing["/dev/nvidia-uvm"])
    if "/dev/nvidia-uvm" in missing:
        nodes = tuple(node for node in machine.nvidia.nodes.value or () if "uvm" not in node.path)
        machine = replace(machine, nvidia=replace(machine.nvidia, nodes=known(nodes, where)))
    command = decided(facts, "container command")
    if command and not _GRANTS_GPUS.search(command.value) and _sees_no_gpu(facts):
        stack = replace(machine.nvidia, nodes=known(_without_gpus(machine.nvidia.nodes.value), source(command)))
        amd = machine.amd
        if machine.of_vendor("amd"):
            amd = replace(
                amd,
                kfd=amd.kfd if "/dev/kfd" in command.value else absent(source(command), "not given to the container"),
                render_nodes=known((), source(command)),
            )
        machine = replace(machine, nvidia=stack, amd=amd)
    return machine


def _with_refusals(machine: Machine, facts: Facts) -> Machine:
    """Nodes that this user may not open."""
    kfd = machine.amd.kfd
    if kfd.value is not None and (closed := refused(facts, kfd.value)):
        return replace(machine, amd=replace(machine.amd, kfd=known(closed[0], source(closed[1]))))
    return machine


def _without_gpus(nodes: tuple[DeviceNode, ...] | None) -> tuple[DeviceNode, ...]:
    return tuple(node for node in nodes or () if "nvidia" not in node.path)


def _sees_no_gpu(facts: Facts) -> bool:
    available = decided(facts, "available")
    return bool(available and available.value == "False") or any(_NO_GPU.search(line.text) for line in facts.errors)


# --- Python and torch ------------------------------------------------------------------------------


def _with_environment(machine: Machine, facts: Facts, matrix: Matrix) -> Machine:
    environment = empty_environment()
    environment = replace(environment, python=known(environment.python.value or "", _ASSUMED))
    torch, assumed = pasted_torch(facts, machine, matrix)
    available = decided(facts, "available")
    ours = len(machine.gpus)
    if torch is not None:
        torch = with_trial(torch, available, ours)
        environment = environment.with_torch(known(torch, torch.source))
        environment = replace(environment, python=known(python_for(torch, matrix, machine.system.platform), _ASSUMED))
    elif decided(facts, "torch missing") is None:
        environment = environment.with_torch(unknown(_SILENT))
    if python := decided(facts, "python"):
        environment = replace(environment, python=known(python.value, source(python)))
    packages = tuple(
        Distribution(name=name, version=said.value, path=source(said))
        for name, said in sorted(decided_with(facts, "package ").items())
        if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,80}", name) and re.fullmatch(r"\d[\w.+!-]{0,60}", said.value)
    )
    if torch is not None and not any(package.name == "torch" for package in packages):
        packages = (Distribution(name="torch", version=torch.version, path=torch.source), *packages)
    environment = replace(environment, distributions=known(packages, "text"))
    if not _lists_packages(facts):
        # A framework's GPU build is a package of its own: that nobody named it does not make it a CPU build.
        unsaid = [one for one in installed_frameworks(environment, matrix) if one.vendor is None and one.row]
        names = {name for one in unsaid if one.row for name in one.row.packages}
        packages = tuple(package for package in packages if package.name not in names)
        environment = replace(environment, distributions=known(packages, "text"))
    return replace(
        machine, environment=known(environment, "text"), assumed=tuple(dict.fromkeys((*machine.assumed, *assumed)))
    )


def _lists_packages(facts: Facts) -> bool:
    """Whether the text holds a whole list of packages, as pip and conda print it."""
    return sum(one.by == "list" and one.what.startswith("package ") for one in facts.said) >= _WHOLE_LIST


def _with_errors(machine: Machine, facts: Facts, matrix: Matrix) -> Machine:
    """The machine with its error messages; one that `import torch` ends with is the result of the import."""
    available, environment = decided(facts, "available"), machine.environment.value
    if available and available.value == "False" and machine.torch is None and not facts.errors:
        facts.errors.append(Line(available.line, "torch.cuda.is_available() is False"))
    facts.errors = facts.errors or facts.unexplained
    environment, torch = machine.environment.value, machine.torch
    faults = machine.kernel_log.value.faults if machine.kernel_log.value else ()
    told = {line.number for line in facts.log if any(fault.line in line.text for fault in faults)}
    facts.errors = [line for line in facts.errors if line.number not in told]
    errors = tuple(dict.fromkeys(line.text for line in facts.errors))
    for line in facts.errors:
        row = matrix.cause_seen(line.text, None)
        exact = row is not None and row.id != _MISSING_LIBRARY
        if environment and torch and not torch.trial.known and not exact and _IMPORT_ERROR.search(line.text):
            trial = known(ImportTrial(ok=False, error=line.text), f"text, line {line.number}")
            environment = environment.with_torch(known(replace(torch, trial=trial), torch.source))
            machine = replace(machine, environment=known(environment, "text"))
            errors = tuple(text for text in errors if text != line.text)
            break
    return replace(machine, errors=errors)


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
        unsaid.append("GPU's exact name")
    if decided(facts, "driver") is None and decided(facts, "driver cuda") is None and not machine.of_vendor("amd"):
        unsaid.append("driver")
    if machine.torch is None:
        unsaid.append("torch")
    driver_said = decided(facts, "driver") or decided(facts, "driver cuda")
    available = decided(facts, "available")
    works = source(available) if available and available.value == "True" else ""
    command = decided(facts, "container command")
    return PastedText(
        gpus_given=command is not None and bool(_GIVES_NODES.search(command.value)),
        unsaid=tuple(unsaid),
        contradictions=contradictions(facts),
        machines=machines,
        unread=unread,
        foreign=foreign,
        works=works,
        told=borne_out(facts, machine, matrix),
        wants_cpu=not machine.gpus and decided(facts, "wants cpu") is not None,
        vendor="amd" if decided(facts, "for amd") and not driver_said else None,
        error_lines=tuple(lines[text.strip()] for text in machine.errors),
    )


def _foreign(machine: Machine, facts: Facts) -> Literal["", "windows", "macos"]:
    """Windows or macOS, unless the text shows a Linux."""
    if machine.system.wsl.known or (decided(facts, "platform") and machine.system.kernel.source != "assumed"):
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
