"""Machines that somebody describes: GPUs, driver, kernel, distribution, torch, Python, variables.

A description either stands alone (`whatif`) or replaces facts of a probed machine (`check --gpu ...` in an image
build). What it leaves open is taken as healthy, and said in `Machine.assumed`.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.frameworks.torch.coverage import DEVICE_WHEEL
from gpudoctor.host import InputError
from gpudoctor.intake.described_gpus import SOURCE, identify, processor, usual_meanings, with_places
from gpudoctor.intake.described_system import assumed_kernel, described_log, described_system, driver_version
from gpudoctor.intake.described_torch import (
    USUAL_PYTHON,
    device_packages,
    packages_of,
    python_for,
    python_of,
    torch_of,
)
from gpudoctor.intake.description import Description
from gpudoctor.isa import capability
from gpudoctor.machine import (
    ASSUMED,
    AmdStack,
    DeviceNode,
    Distribution,
    FrameworkFiles,
    Frameworks,
    Gpu,
    ImportTrial,
    Jetson,
    KernelLog,
    Library,
    LoadPath,
    LogFault,
    Machine,
    NvidiaStack,
    Os,
    PastedText,
    PythonEnvironment,
    System,
    absent,
    known,
    unknown,
)
from gpudoctor.machine.system import JETSON_DRIVER
from gpudoctor.matrix.gpu_models import Identity
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.versions import figures
from gpudoctor.probes.batch_job import job_of
from gpudoctor.probes.load_path import DRIVER_OWN
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import (
    driver_needs,
    driver_options,
    driver_serving,
    flavours_serving,
    newest_release,
)
from gpudoctor.situation.frameworks import InstalledFramework, installed_frameworks
from gpudoctor.situation.healthy_driver import amd_stack, driver_libraries, nvidia_stack
from gpudoctor.situation.kernel_log import refusing_driver

_FIRST_OPEN = (515,)
"""The driver branch with the first open kernel modules."""

_IMPORT_ERROR = (
    r"(ImportError|OSError|ModuleNotFoundError)\b.*(torch|lib(c10|cu|nccl|nv|hsa|amdhip|roc|hip|MIOpen)\w*)"
)
"""An error that `import torch` ends with."""


def imagined_machine(description: Description, variables: dict[str, str], matrix: Matrix) -> Machine:
    """A machine of which only the description is known; all else is healthy."""
    if not description.gpus:
        raise InputError("describe at least one GPU: --gpu NAME (`gpudoctor matrix show nvidia_gpus` lists names)")
    machine = _with_description(healthy(variables), description, matrix)
    left: list[str] = []
    if not description.kernel:
        machine, left = _with_assumed_kernel(machine, description, matrix)
    if not description.python_version:
        left.append(f"Python {machine.examined.python.value or '?'}")
    if not description.torch:
        left.append("no torch")
    return replace(machine, assumed=(*left, *machine.assumed))


def healthy(variables: dict[str, str]) -> Machine:
    """A healthy machine: only these variables of it are known."""
    job = job_of(variables)
    return Machine(
        system=System(
            kernel=known("6.8.0", ASSUMED),
            arch=known("x86_64", ASSUMED),
            os=known(Os(), ASSUMED),
            cpu_flags=known(("avx", "avx2"), ASSUMED),
            wsl=absent(ASSUMED),
            jetson=absent(ASSUMED),
            virtual_machine=absent(ASSUMED),
            container=absent(ASSUMED),
            job=known(job, f"variable {job.source}") if job else absent(ASSUMED),
            secure_boot=known(False, ASSUMED),
            lockdown=known("none", ASSUMED),
            kernel_options=known((), ASSUMED),
            suspends=known(0, ASSUMED),
        ),
        environment=known(empty_environment(), ASSUMED),
        variables=variables,
        kernel_log=known(KernelLog(), ASSUMED),
    )


def described_machine(machine: Machine, description: Description, matrix: Matrix) -> Machine:
    """The machine with what is described in the place of what was probed. Described GPUs with a distribution are
    another machine's, which has its own kernel.

    Raises InputError for a GPU, version or name that means nothing or more than one thing.
    """
    machine = _with_description(machine, description, matrix)
    if description.gpus and description.os and not description.kernel and not machine.pasted:
        machine, left = _with_assumed_kernel(machine, description, matrix)
        machine = replace(machine, assumed=(*left, *machine.assumed))
    return machine


def _with_assumed_kernel(machine: Machine, description: Description, matrix: Matrix) -> tuple[Machine, list[str]]:
    """The machine with the kernel that its distribution suggests, and what that assumes. The distribution of a
    container suggests none."""
    os = None if description.container not in ("", "none") else machine.system.os.value
    kernel, said = assumed_kernel(machine, os or Os(), matrix)
    return replace(machine, system=replace(machine.system, kernel=kernel)), [said] if said else []


def _with_description(machine: Machine, description: Description, matrix: Matrix) -> Machine:
    machine = replace(machine, assumed=_still_assumed(machine.assumed, description))
    machine = replace(machine, system=described_system(machine.system, description, matrix))
    if (
        description.os
        and machine.system.os.value
        and not matrix.images.distribution_named(machine.system.os.value.id)
    ):
        machine = replace(machine, assumed=(*machine.assumed, f"nothing of the unknown system {description.os}"))
    if description.kernel_log:
        machine = replace(machine, kernel_log=described_log(description.kernel_log, matrix))
        _check_log_is_of_here(machine, description)
    elif description.gpus:  # a log of this machine is about other GPUs
        machine = replace(machine, kernel_log=known(KernelLog(), ASSUMED))
    if description.gpus:
        machine = _with_described_gpus(machine, description, matrix)
    elif description.driver:
        machine = with_driver(machine, description.driver, matrix)
    if description.python_version or description.torch or description.packages:
        machine = _with_environment(machine, description, matrix)
    if description.kernel_log and description.gpus:
        from gpudoctor.intake.described_log import with_logged_state

        machine = with_logged_state(machine)
    if machine.pasted:
        machine = replace(machine, pasted=_with_answers(machine.pasted, description))
    return _with_errors(machine, description.errors)


def _check_log_is_of_here(machine: Machine, description: Description) -> None:
    """Raise InputError for a log about a GPU where there is none: it is of another machine, or the GPU is gone."""
    path = description.kernel_log
    if machine.gpus or description.gpus or not any(fault.bdf or fault.xid for fault in machine.log_faults):
        return
    raise InputError(
        f"--kernel-log {path}: its lines are about a GPU, and none is here. `gpudoctor check --from {path}` judges "
        "the machine that wrote it; --gpu says which GPU that has"
    )


def _with_answers(text: PastedText, description: Description) -> PastedText:
    """The text, of which the description answers what it left open."""
    gpus = bool(description.gpus)
    told = {"GPU": gpus, "exact GPU": gpus, "driver": description.driver, "torch": description.torch}
    return replace(text, unsaid=tuple(one for one in text.unsaid if not told[one]))


def _still_assumed(assumed: tuple[str, ...], description: Description) -> tuple[str, ...]:
    """What is assumed of the machine, without that in whose place something is described."""
    described = {
        r"kernel$": description.kernel,
        r"NVIDIA driver |amdgpu driver|.* kernel modules?\b": description.driver or description.gpus,
        r"Python ": description.python_version or description.torch,
        r".*\btorch\b": description.torch,
    }
    gone = [pattern for pattern, given in described.items() if given]
    return tuple(one for one in assumed if not any(re.match(pattern, one) for pattern in gone))


# --- GPUs and drivers -------------------------------------------------------------------------------


def _with_described_gpus(machine: Machine, description: Description, matrix: Matrix) -> Machine:
    identities = identify(description.gpus, matrix)
    arch = processor(identities)
    if arch and description.platform and machine.system.arch.value != arch:
        raise InputError(f"--platform {description.platform}: {identities[0].name} comes with an {arch} processor")
    machine = replace(machine, assumed=(*machine.assumed, *usual_meanings(description.gpus, matrix)))
    faults = machine.log_faults if description.kernel_log else ()
    refusing = next(filter(None, (refusing_driver(fault.line) for fault in faults)), "")
    return with_gpus(machine, identities, description.driver or refusing, faults, matrix)


def with_gpus(
    machine: Machine, identities: tuple[Identity, ...], driver: str, faults: tuple[LogFault, ...], matrix: Matrix
) -> Machine:
    """The machine with these GPUs, and with this driver ("": a healthy one), in the place of its own. Raises
    InputError where no one driver runs them all."""
    system = machine.system
    if processor(identities) == "aarch64":
        system = replace(system, arch=known("aarch64", SOURCE))
    board = next((identity.name for identity in identities if identity.jetson), None)
    if board is not None:
        system = replace(system, jetson=known(Jetson(model=board), SOURCE))
    wsl = system.wsl.known
    gpus = with_places(identities, faults, wsl=wsl)
    nodes = known((DeviceNode(path="/dev/dxg", opened="ok"),), SOURCE) if wsl else absent(SOURCE)
    described_gpus = replace(
        machine,
        system=system,
        gpus=gpus,
        buses=known(True, SOURCE),
        nvidia=NvidiaStack(module=absent(SOURCE), modules_loaded=known((), SOURCE), nodes=nodes),
        amd=_amd_stack(gpus, driver, wsl=wsl),
        load_path=LoadPath(found=_stubs(machine)),
        level=machine.level if machine.smoke else "static",  # the driver here is not that machine's
    )
    described_gpus = _with_import_elsewhere(described_gpus)
    if any(gpu.vendor == "nvidia" for gpu in gpus):
        return with_driver(described_gpus, driver, matrix)
    left = () if driver or wsl else ("amdgpu driver",)
    return replace(described_gpus, assumed=(*machine.assumed, *left))


def _with_import_elsewhere(machine: Machine) -> Machine:
    """The machine with an import that ran beside other GPUs: the devices that torch counted are not the described
    ones, and a library of the driver comes with the driver."""
    torch = machine.torch
    trial = torch.trial.value if torch else None
    if torch is None or trial is None:
        return machine
    library = re.search(
        r"([\w.+-]{1,80}\.so[\w.]{0,40}): cannot open shared object file", f"{trial.root}\n{trial.error}"
    )
    if not trial.ok and library is not None and library[1].startswith(DRIVER_OWN):
        machine = replace(machine, assumed=(*machine.assumed, f"import torch (with the driver's {library[1]})"))
        return machine.with_torch_facts(trial=unknown(f"{library[1]} of the driver is not here"))
    return machine.with_torch_facts(trial=replace(torch.trial, value=replace(trial, device_count=None)))


def _stubs(machine: Machine) -> tuple[Library, ...]:
    """The toolkit's stubs in LD_LIBRARY_PATH: that goes with the environment, and comes before any driver."""
    return tuple(one for one in machine.load_path.found if (one.kind, one.via) == ("stub", "LD_LIBRARY_PATH"))


def with_driver(machine: Machine, driver: str, matrix: Matrix) -> Machine:
    """The machine with this NVIDIA driver, healthy in all else; the newest that runs its GPUs if none is given."""
    gpus = machine.of_vendor("nvidia")
    assumed: tuple[str, ...] = ()
    if driver:
        version = driver_version(driver, matrix)
        if release := matrix.nvidia.release_of_branch(version):
            # People name the branch alone. It stands for its releases, and is no version below all of them.
            assumed = (f"NVIDIA driver {release} (branch {version})",)
            version = release
        if machine.system.jetson.known:
            assumed = (f"the driver of Jetson Linux (its numbers are its own: --driver {driver} is not judged)",)
        running = tuple(gpu for gpu in gpus if _still_runs(matrix, version, gpu)) or gpus
        flavours = flavours_serving(matrix, running) if figures(version) >= _FIRST_OPEN else ()
        if running and not flavours and figures(version) >= _FIRST_OPEN:
            # No flavour drives them all: that of the newest GPU, which a person would not leave out.
            newest = max(running, key=lambda gpu: capability(gpu.arch.value) or ())
            flavours = flavours_serving(matrix, (newest,))
            assumed += tuple(
                f"{one} kernel modules, for {newest.name} (neither flavour supports all)" for one in flavours[:1]
            )
        flavour = flavours[0] if flavours else "proprietary"
    else:
        # A healthy driver is any that serves: not the one that this distribution happens to ship.
        anywhere = replace(machine.system, os=unknown("any distribution"))
        situation = Situation(replace(machine, system=anywhere), matrix)
        options = driver_options(situation, gpus)
        choice = driver_serving(situation, gpus) or (options[0][0] if options else None)
        if choice is None:
            needs = dict.fromkeys(f"{gpu.name} needs {driver_needs(matrix, gpu)}" for gpu in gpus)
            raise InputError(f"no driver is known for all these GPUs: {'; '.join(needs)}. Give --driver")
        version, flavour = newest_release(situation, choice), choice.flavour
        named = " and ".join(dict.fromkeys(gpu.name for gpu in options[0][1])) if options else ""
        assumed = (f"NVIDIA driver {version}" + (f" for {named} (no one driver supports all)" if named else ""),)
        if machine.system.jetson.known:
            assumed = (JETSON_DRIVER,)
    stack = nvidia_stack(machine, version, flavour, matrix, SOURCE)
    path = driver_libraries(machine, version, SOURCE)
    path = replace(path, found=(*_stubs(machine), *path.found))
    return replace(machine, nvidia=stack, load_path=path, assumed=(*machine.assumed, *assumed))


def _still_runs(matrix: Matrix, driver: str, gpu: Gpu) -> bool:
    last = matrix.nvidia.last_branch(gpu.arch.value)
    return last is None or figures(driver)[:1] <= figures(last)[:1]


def _amd_stack(gpus: tuple[Gpu, ...], driver: str, *, wsl: bool) -> AmdStack:
    ours = tuple(gpu for gpu in gpus if gpu.vendor == "amd")
    if not ours or wsl:
        return AmdStack(topology=absent(SOURCE), kfd=absent(SOURCE), modules_loaded=known((), SOURCE))
    only_amd = len(ours) == len(gpus)
    return amd_stack(ours, driver if driver and only_amd else "in-tree", SOURCE)


# --- Python, torch and what was seen ---------------------------------------------------------------------


def empty_environment() -> PythonEnvironment:
    """A healthy environment in which nothing is known to be installed."""
    return PythonEnvironment(
        prefix="",
        kind="venv",
        python=known(USUAL_PYTHON, SOURCE),
        distributions=known((), SOURCE),
        frameworks=Frameworks(torch=absent(SOURCE)),
        has_pip=True,
        source=SOURCE,
    )


def _with_environment(machine: Machine, description: Description, matrix: Matrix) -> Machine:
    environment = machine.environment.value or empty_environment()
    assumed: tuple[str, ...] = ()
    packages = packages_of(description.packages)
    if description.torch:
        torch, assumed = torch_of(description.torch, machine, matrix)
        environment = environment.with_torch(known(torch, SOURCE))
        if not any(one.name.startswith(DEVICE_WHEEL) for one in packages):
            devices = device_packages(torch, machine, matrix)
            packages = (*packages, *devices)
            assumed += tuple(f"torch's package for {one.name.removeprefix(DEVICE_WHEEL)}" for one in devices)
        # The package index's wheel has the local part in torch.__version__ alone: no index installs it by that name.
        version = torch.release if torch.origin == "pypi" else torch.version
        packages = (Distribution("torch", version, path=SOURCE), *packages)
        if environment.python.source in (SOURCE, ASSUMED):
            python = python_for(torch, matrix, machine.system.platform)
            if environment.python.source == ASSUMED and not description.python_version:
                assumed += (f"Python {python}",)
            environment = replace(environment, python=known(python, environment.python.source))
    if description.python_version:
        environment = replace(environment, python=known(python_of(description.python_version), SOURCE))
    if packages:
        names = {package.name for package in packages}
        others = (one for one in environment.packages if one.name not in names)
        environment = replace(environment, distributions=known((*others, *packages), SOURCE))
        environment = _with_named_frameworks(environment, matrix)
    return replace(machine, environment=known(environment, SOURCE), assumed=(*machine.assumed, *assumed))


def _with_named_frameworks(environment: PythonEnvironment, matrix: Matrix) -> PythonEnvironment:
    """The environment with those frameworks beside torch of which only the packages were named."""
    read = environment.frameworks
    names = {one.name for one in read.others}
    named = (one for one in installed_frameworks(environment, matrix) if one.name not in names)
    others = (*read.others, *(_as_named(one) for one in named))
    return replace(environment, frameworks=replace(read, others=others))


def _as_named(framework: InstalledFramework) -> FrameworkFiles:
    build = framework.build.package if framework.build else framework.unknown_build
    return FrameworkFiles(name=framework.name, version=framework.version, build=build)


def _with_errors(machine: Machine, errors: tuple[str, ...]) -> Machine:
    """The machine with the errors that were seen: one of the import where the import's own result would be."""
    torch = machine.torch
    for text in errors:
        if torch and not torch.trial.known and re.search(_IMPORT_ERROR, text):
            torch = replace(torch, trial=known(ImportTrial(ok=False, error=text.strip()), "--error"))
            machine = machine.with_environment(machine.examined.with_torch(known(torch, torch.source)))
        else:
            machine = replace(machine, errors=(*machine.errors, text))
    return machine
