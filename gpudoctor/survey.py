"""From a host to a Machine, to as deep a level as was asked for; and from there to a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import NotJudged
from gpudoctor.host.linux import require_linux
from gpudoctor.machine import Fact, Gpu, Level, Machine, PythonEnvironment, Smoke, unknown
from gpudoctor.situation.usable_gpus import standings, why_busy

if TYPE_CHECKING:
    from gpudoctor.host import Host
    from gpudoctor.machine import ImportTrial, ModuleImport, ProcessLimits, Program
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.probes.pci import PciDevice
    from gpudoctor.smoke.plan import Request, SmokeLevel
    from gpudoctor.smoke.session import Progress

T = TypeVar("T")

DRIVER_SECONDS = 20.0
COMPILED_FOR_TORCH = ("torchvision", "torchaudio", "torchcodec")
"""Packages whose import is tried beside that of torch."""
_DEPTH: tuple[Level, ...] = ("static", "driver", "quick", "standard", "full")


class Survey(Struct, frozen=True):
    """A probed machine, what its probes could not answer, and what each took (milliseconds)."""

    machine: Machine
    open_questions: tuple[NotJudged, ...]
    timings_ms: dict[str, float]


def _untold(_: str) -> None:
    """Nobody is told what begins."""


class _Probing:
    """Runs probes one after the other: a crash costs that probe's facts, never the run."""

    def __init__(self) -> None:
        self.open_questions: list[NotJudged] = []
        self.timings_ms: dict[str, float] = {}

    def __call__(self, name: str, probe: Callable[[], T], otherwise: T) -> T:
        from gpudoctor.host import InputError

        started = time.perf_counter()
        try:
            return probe()
        except InputError:
            raise
        except Exception as error:  # a probe's fault must not end the run
            why = f"the {name} probe crashed ({type(error).__name__}: {error}); this is a fault of gpudoctor"
            self.open_questions.append(NotJudged(id="GPD902", why=why, matters=True))
            return otherwise
        finally:
            self.timings_ms[name] = round((time.perf_counter() - started) * 1000, 1)


def survey(
    host: Host,
    matrix: Matrix,
    *,
    python: str | None = None,
    level: Level | None = None,
    drivers: bool = True,
    kernels: bool = True,
    imports: bool = True,
    request: Request | None = None,
    framework: str = "torch",
    progress: Progress | None = None,
    stage: Callable[[str], None] = _untold,
) -> Survey:
    """Probe a host. Without a level, `quick` where a usable GPU and a torch are, else `driver`, and torch
    is started once where there is one; a host that is not live is always read at level static.

    `drivers` false: no driver is asked. `kernels` false: no smoke kernel is run, however deep the level. `imports`
    false: where torch is imported, nothing else is. With another `framework` than torch, that one computes instead.
    `request` names kernels, devices and limits (the rest of it is filled in here); `progress` is told of each kernel,
    `stage` of what begins.
    Raises InputError on another system than Linux, if `python` is no Python environment, or for a device that torch
    does not see.
    """
    require_linux()
    probing = _Probing()
    stage("reading the machine's files")
    machine = _read_files(host, matrix, python, probing)
    if not host.live:
        machine = _with_recorded_answers(host, matrix, machine, probing)
        return Survey(machine, tuple(probing.open_questions), probing.timings_ms)
    depth = level or _default_level(machine)
    if drivers and _reaches(depth, "driver"):
        stage("asking the driver")
        machine = replace(_ask_drivers(host, matrix, machine, probing), level="driver")
    if framework != "torch":
        stage(f"computing with {framework}")
        devices = request.devices if request else ()
        machine = _compute_with(framework, devices, host, machine, probing)
    elif level is None or _reaches(depth, "quick"):
        asked = level is not None
        stage("importing torch")
        run = Smoke(level=cast("SmokeLevel", depth), asked=asked) if kernels and _reaches(depth, "quick") else None
        beside = COMPILED_FOR_TORCH if imports else ()
        machine = _start_torch(host, machine, run, request, beside, progress, probing)
        if imports:
            machine = _import_others(host, matrix, machine, probing, stage)
            machine = _with_emptied_files(host, matrix, machine, probing)
    return Survey(machine, tuple(probing.open_questions), probing.timings_ms)


def _reaches(level: Level, wanted: Level) -> bool:
    return _DEPTH.index(level) >= _DEPTH.index(wanted)


def _default_level(machine: Machine) -> Level:
    return "quick" if _usable(machine) and machine.torch is not None else "driver"


def _usable(machine: Machine) -> bool:
    return any(standing.usable for standing in standings(machine))


def _read_files(host: Host, matrix: Matrix, python: str | None, probing: _Probing) -> Machine:
    """Everything that level static reads: no command, no library opened."""
    from gpudoctor.host import LiveHost
    from gpudoctor.machine import AmdStack, LoadPath, Network, NvidiaStack, System
    from gpudoctor.probes.amd_files import probe_amd
    from gpudoctor.probes.frameworks import FrameworkRows
    from gpudoctor.probes.kernel_log import probe_kernel_log
    from gpudoctor.probes.load_path import driver_libraries, userland_version
    from gpudoctor.probes.network import probe_network
    from gpudoctor.probes.nvidia_files import probe_nvidia
    from gpudoctor.probes.pci import probe_pci
    from gpudoctor.probes.process_limits import probe_limits
    from gpudoctor.probes.programs import read_programs
    from gpudoctor.probes.python_environment import probe_environment
    from gpudoctor.probes.system import probe_system
    from gpudoctor.probes.variables import probe_variables

    system = probing("system", lambda: probe_system(host), System())
    no_variables: dict[str, str] = {}
    variables = probing("variables", lambda: probe_variables(host, matrix.variables), no_variables)
    network = probing("network", lambda: probe_network(host), Network())
    rdma, in_group = bool(network.rdma.value), system.container.known or system.job.known
    limits = probing("limits", lambda: probe_limits(host, rdma=rdma, in_group=in_group), unknown("the probe crashed"))
    load_path = probing("load path", lambda: driver_libraries(host, variables), LoadPath())
    pci = probing("pci", lambda: probe_pci(host), unknown("the PCI probe crashed"))
    nvidia = probing("nvidia", lambda: probe_nvidia(host, pci, system, load_path), NvidiaStack())
    userland = probing("nvidia libraries", lambda: userland_version(host, load_path), unknown("not read"))
    amd = probing("amd", lambda: probe_amd(host, pci, system), AmdStack())
    patterns = matrix.tables.log_patterns
    log = probing("kernel log", lambda: probe_kernel_log(host, patterns), unknown("the log probe crashed"))
    nothing: Fact[PythonEnvironment] = unknown("the environment probe crashed")
    rows, gpu_packages = matrix.tables, matrix.gpu_packages
    environment = probing(
        "python",
        lambda: probe_environment(
            host,
            python,
            variables,
            late=rows.late_libraries,
            packages=gpu_packages,
            modules=rows.imported_modules,
            version_files=rows.version_files,
            frameworks=FrameworkRows(rows.frameworks, rows.framework_builds),
        ),
        nothing,
    )
    environ = {**host.environ, **variables}
    no_programs: tuple[Program, ...] = ()
    programs = probing("programs", lambda: read_programs(host, rows.programs, environ, matrix.variables), no_programs)
    machine = Machine(
        system=replace(system, limits=limits),
        network=network,
        nvidia=replace(nvidia, userland=userland),
        amd=amd,
        load_path=load_path,
        environment=environment,
        programs=programs,
        variables=variables,
        kernel_log=log,
    )
    # `--python` is always a path of the running system, also where the host is a recording.
    place = host if python is None else LiveHost()
    machine = _with_torch_code(place, _with_gpus(host, matrix, machine, probing, pci), probing)
    return _with_extensions(place, machine, probing)


def _with_gpus(
    host: Host, matrix: Matrix, machine: Machine, probing: _Probing, pci: Fact[tuple[PciDevice, ...]] | None = None
) -> Machine:
    """The machine with its GPUs put together from the bus, KFD and the drivers' answers."""
    from gpudoctor.probes.gpus import assemble
    from gpudoctor.probes.pci import probe_pci

    bus = probe_pci(host) if pci is None else pci
    seen = machine.gpus, machine.buses
    gpus, buses = probing("gpus", lambda: assemble(bus, machine.amd, machine.nvidia, machine.system, matrix), seen)
    if not gpus and not bus.known and not machine.system.wsl.known:
        gpus, buses = probing("gpus in the log", lambda: _gpus_in_log(host, matrix, machine), (gpus, buses))
    return replace(machine, gpus=gpus, buses=buses)


def _gpus_in_log(host: Host, matrix: Matrix, machine: Machine) -> tuple[tuple[Gpu, ...], Fact[bool]]:
    """The GPUs that the kernel log names, and whether it names any."""
    from gpudoctor.probes.gpus import assemble
    from gpudoctor.probes.log_gpus import gpus_in_log

    named = gpus_in_log(host)
    if not named.known:
        return (), machine.buses
    return assemble(named, machine.amd, machine.nvidia, machine.system, matrix)


def _with_torch_code(host: Host, machine: Machine, probing: _Probing) -> Machine:
    """The architectures that torch's own libraries carry, where they lie there and can be read."""
    environment, torch = machine.environment.value, machine.torch
    if environment is None or torch is None or torch.has_cuda_libraries is not True:
        return machine
    from gpudoctor.frameworks.torch.probes.code import read_torch_code

    archs = probing("torch code", lambda: read_torch_code(host, environment, torch.path), torch.archs)
    return _with_torch(machine, archs=archs)


def _with_extensions(host: Host, machine: Machine, probing: _Probing) -> Machine:
    """The libraries of other packages that compute on GPUs."""
    environment = machine.environment.value
    if environment is None or not environment.distributions.value:
        return machine
    from gpudoctor.probes.extensions import read_extensions

    nothing = environment.extensions, environment.distributions.value
    extensions, distributions = probing(
        "extensions", lambda: read_extensions(host, environment, machine.variables), nothing
    )
    listing = replace(environment.distributions, value=distributions)
    found = replace(environment, extensions=extensions, distributions=listing)
    return replace(machine, environment=replace(machine.environment, value=found))


def _with_torch(machine: Machine, **facts: object) -> Machine:
    environment = machine.environment.value
    assert environment is not None
    assert environment.torch.value is not None
    torch = replace(environment.torch, value=replace(environment.torch.value, **facts))
    return replace(machine, environment=replace(machine.environment, value=environment.with_torch(torch)))


def _ask_drivers(host: Host, matrix: Matrix, machine: Machine, probing: _Probing) -> Machine:
    """Level driver: timed children that initialise NVML, libcuda and the HSA runtime."""
    from gpudoctor.probes.amd_answers import ask_hsa
    from gpudoctor.probes.nvidia_answers import ask_nvidia
    from gpudoctor.probes.platform import with_platform

    recorded = not host.live  # asking a recording costs nothing: what it has of the tools' output is read
    if recorded or _worth_asking_nvidia(machine):
        silent = unknown("not asked")
        nvml, cuda, smi = probing("nvidia driver", lambda: ask_nvidia(host, DRIVER_SECONDS), (silent, silent, silent))
        machine = replace(machine, nvidia=replace(machine.nvidia, nvml=nvml, cuda=cuda, smi=smi))
        machine = _with_gpus(host, matrix, machine, probing)
    if recorded or machine.of_vendor("amd") or machine.load_path.first("libhsa-runtime64.so.1"):
        path, torch = machine.load_path, machine.torch
        hsa = probing("hsa runtime", lambda: ask_hsa(host, path, DRIVER_SECONDS, torch=torch), unknown("not asked"))
        machine = replace(machine, amd=replace(machine.amd, hsa=hsa))
        machine = _with_gpus(host, matrix, machine, probing)
    return probing("platform", lambda: with_platform(host, machine), machine)


def _with_recorded_answers(host: Host, matrix: Matrix, machine: Machine, probing: _Probing) -> Machine:
    """What a recording kept of the drivers' tools (`commands` of gpudoctor-host.json)."""
    from gpudoctor.probes.amd_smi import recorded_smi

    smi = probing("smi", lambda: recorded_smi(host), unknown("the reader of rocm-smi crashed"))
    machine = replace(machine, amd=replace(machine.amd, smi=smi))
    return replace(_ask_drivers(host, matrix, machine, probing), level="static")


def _worth_asking_nvidia(machine: Machine) -> bool:
    libraries = any(machine.load_path.first(name) for name in ("libnvidia-ml.so.1", "libcuda.so.1"))
    return bool(libraries or machine.of_vendor("nvidia") or machine.nvidia.nodes.value)


def _start_torch(
    host: Host,
    machine: Machine,
    run: Smoke | None,
    request: Request | None,
    compiled_for_it: Iterable[str],
    progress: Progress | None,
    probing: _Probing,
) -> Machine:
    """Import torch once, in a child of the examined interpreter, run the kernels of `run`'s level there, and import
    what is compiled for torch."""
    from gpudoctor.machine import ModuleImport, ProcessLimits
    from gpudoctor.probes.process_limits import process_limits
    from gpudoctor.smoke import session

    chosen = request or session.Request(level=None)
    if run is not None:
        run = replace(run, gpu_asked=run.asked and chosen.gpu_asked)
    environment = machine.environment.value
    if environment is None or machine.torch is None:
        return machine if run is None else replace(machine, smoke=replace(run, why=_no_torch(machine)))
    beside = [one for name in compiled_for_it if (one := environment.distribution(name)) is not None]
    whole = replace(
        chosen,
        beside=tuple(one.name for one in beside),
        level=run.level if run else None,
        asked=run.asked if run else False,
        cpu_instead=not _usable(machine),
        blocked={key: why for gpu in machine.gpus if (why := why_busy(gpu)) for key in (gpu.bdf, gpu.uuid) if key},
    )
    crashed = "the smoke session crashed"
    before = probing("limits", lambda: process_limits(host), ProcessLimits())
    performed = probing(
        "smoke" if run else "torch import",
        lambda: session.perform(host, environment, whole, progress or session.ignore),
        session.Performed(trial=unknown(crashed, "import torch"), smoke=replace(run, why=crashed) if run else None),
    )
    trial = performed.trial
    if trial.value is not None and not trial.value.ok:
        trial = probing("failed import", lambda: _with_suspects(host, environment, trial, before), trial)
    machine = replace(_with_torch(machine, trial=trial), smoke=performed.smoke)
    imports = (
        ModuleImport(one.name, one.name, one.version, "torch", found)
        for one, found in zip(beside, performed.beside, strict=False)
    )
    machine = _with_imports(host, machine, imports, before, probing)
    if trial.value is not None and trial.value.variables:
        machine = replace(machine, variables=_as_started(machine.variables, trial.value))
    computed = any(kernel.status != "skipped" for kernel in performed.smoke.kernels) if performed.smoke else False
    return replace(machine, level=run.level) if run and computed else machine


def _import_others(
    host: Host, matrix: Matrix, machine: Machine, probing: _Probing, stage: Callable[[str], None]
) -> Machine:
    """Import each installed framework beside torch once, in a child of the examined interpreter."""
    environment = machine.environment.value
    if environment is None or not environment.interpreter or not environment.distributions.value:
        return machine
    there = {one.name: one for one in environment.distributions.value if one.path}
    installed = [
        (row, there[next(name for name in row.packages if name in there)])
        for row in matrix.tables.frameworks
        if row.module and not there.keys().isdisjoint(row.packages)
    ]
    if not installed:
        return machine
    from gpudoctor.machine import ModuleImport, ProcessLimits
    from gpudoctor.probes.process_limits import process_limits
    from gpudoctor.smoke.imports import try_module

    before = probing("limits", lambda: process_limits(host), ProcessLimits())
    imports = []
    for row, one in installed:
        stage(f"importing {row.module}")
        crashed: Fact[ImportTrial] = unknown("the import crashed", f"import {row.module}")
        attempt = partial(try_module, host, environment.interpreter, row.module)
        found = probing(f"{row.module} import", attempt, crashed)
        imports.append(ModuleImport(row.module, one.name, one.version, row.framework, found))
    return _with_imports(host, machine, imports, before, probing)


def _with_imports(
    host: Host, machine: Machine, imports: Iterable[ModuleImport], before: ProcessLimits, probing: _Probing
) -> Machine:
    """The machine with imports of modules beside torch, and the files that failed ones point at."""
    environment = machine.environment.value
    assert environment is not None
    whole = []
    for one in imports:
        trial = one.trial
        if trial.value is not None and not trial.value.ok:
            trial = probing("failed import", partial(_with_suspects, host, environment, trial, before), trial)
        whole.append(replace(one, trial=trial))
    if not whole:
        return machine
    frameworks = replace(environment.frameworks, imports=(*environment.frameworks.imports, *whole))
    after = replace(environment, frameworks=frameworks)
    return replace(machine, environment=replace(machine.environment, value=after))


def _with_emptied_files(host: Host, matrix: Matrix, machine: Machine, probing: _Probing) -> Machine:
    """The machine with all files of its GPU packages, and of what they require, in which nothing is left."""
    environment = machine.environment.value
    if environment is None or not environment.distributions.value:
        return machine
    from gpudoctor.dependencies import closure, marker_environment
    from gpudoctor.probes.emptied_files import with_emptied_files

    roots = {name for row in matrix.tables.frameworks for name in row.packages} | matrix.gpu_packages
    markers = marker_environment(environment.python.value, machine.system.arch.value or "x86_64")
    required = {one.what.name for one in closure(sorted(roots), environment.distribution, markers)}
    find = partial(with_emptied_files, host, environment, roots | required)
    after = probing("emptied files", find, environment)
    return replace(machine, environment=replace(machine.environment, value=after))


def _as_started(variables: dict[str, str], trial: ImportTrial) -> dict[str, str]:
    """The variables that Python's start files leave to a program."""
    from gpudoctor.probes.variables import relevant_variables

    changed = {one.name: one.value for one in trial.variables}
    left = {name: value for name, value in variables.items() if changed.get(name, "") is not None}
    return {**left, **relevant_variables({name: value for name, value in changed.items() if value is not None})}


def _compute_with(
    framework: str, devices: tuple[str, ...], host: Host, machine: Machine, probing: _Probing
) -> Machine:
    """A matrix product with a framework beside torch, if it is installed."""
    from gpudoctor.smoke.other_frameworks import compute

    environment = machine.environment.value
    crashed = Smoke(level="quick", why="the smoke program crashed", framework=framework)
    smoke = probing("smoke", lambda: compute(host, environment, framework, devices), crashed)
    return replace(machine, smoke=smoke, level="quick" if smoke.kernels else machine.level)


def _with_suspects(
    host: Host, environment: PythonEnvironment, trial: Fact[ImportTrial], before: ProcessLimits
) -> Fact[ImportTrial]:
    from gpudoctor.frameworks.torch.probes.import_failure import with_suspects
    from gpudoctor.probes.process_limits import process_limits

    assert trial.value is not None
    return replace(trial, value=with_suspects(host, environment, trial.value, before, process_limits(host)))


def _no_torch(machine: Machine) -> str:
    if machine.environment.value is None:
        return "there is no Python environment to run them in"
    torch = machine.environment.value.torch
    return "no torch is installed" if torch.absent else f"torch could not be looked into: {torch.why}"
