"""Imports that are tried once, in a child of the examined interpreter, and the kernels that run there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.dependencies import closure, marker_environment
from gpudoctor.machine import (
    Fact,
    ImportTrial,
    Machine,
    ModuleImport,
    ProcessLimits,
    PythonEnvironment,
    Smoke,
    unknown,
)
from gpudoctor.probes.process_limits import process_limits
from gpudoctor.probes.variables import relevant_variables
from gpudoctor.situation.busy_gpus import why_busy
from gpudoctor.situation.usable_gpus import has_usable_gpu

if TYPE_CHECKING:
    from gpudoctor.host import Host
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.smoke.plan import Request
    from gpudoctor.smoke.session import Progress
    from gpudoctor.survey.probing import Probing


def start_torch(
    host: Host,
    machine: Machine,
    run: Smoke | None,
    request: Request | None,
    compiled_for_it: Iterable[str],
    progress: Progress | None,
    probing: Probing,
) -> Machine:
    """Import torch once, in a child of the examined interpreter, run the kernels of `run`'s level there, and import
    what is compiled for torch."""
    from gpudoctor.smoke import session

    chosen = request or session.Request(level=None)
    if run is not None:
        run = replace(run, gpu_asked=run.asked and chosen.gpu_asked, cpu_asked=run.asked and chosen.cpu_asked)
    environment = machine.examined
    if machine.torch is None:
        return machine if run is None else replace(machine, smoke=replace(run, why=_no_torch(machine)))
    beside = [one for name in compiled_for_it if (one := environment.distribution(name)) is not None]
    whole = replace(
        chosen,
        beside=tuple(one.name for one in beside),
        level=run.level if run else None,
        asked=run.asked if run else False,
        cpu_instead=not has_usable_gpu(machine),
        blocked={key: why for gpu in machine.gpus if (why := why_busy(gpu)) for key in (gpu.bdf, gpu.uuid) if key},
    )
    crashed = "the smoke session crashed"
    before = probing("limits", lambda: process_limits(host), ProcessLimits())
    performed = probing(
        "smoke" if run else "torch import",
        lambda: session.perform(host, environment, whole, progress or session.ignore),
        session.SessionResult(
            trial=unknown(crashed, "import torch"), smoke=replace(run, why=crashed) if run else None
        ),
    )
    trial = performed.trial
    if trial.value is not None and not trial.value.ok:
        trial = probing("failed import", lambda: _with_suspects(host, environment, trial, before), trial)
    machine = replace(machine.with_torch_facts(trial=trial), smoke=performed.smoke)
    imports = (
        ModuleImport(one.name, one.name, one.version, "torch", found)
        for one, found in zip(beside, performed.beside, strict=False)
    )
    machine = _with_imports(host, machine, imports, before, probing)
    if trial.value is not None and trial.value.variables:
        machine = replace(machine, variables=_as_started(machine.variables, trial.value))
    computed = any(kernel.status != "skipped" for kernel in performed.smoke.kernels) if performed.smoke else False
    return replace(machine, level=run.level) if run and computed else machine


def import_others(
    host: Host, matrix: Matrix, machine: Machine, probing: Probing, stage: Callable[[str], None]
) -> Machine:
    """Import each installed framework beside torch once, in a child of the examined interpreter."""
    environment = machine.examined
    if not environment.interpreter or not environment.distributions.value:
        return machine
    there = {one.name: one for one in environment.distributions.value if one.path}
    installed = [
        (row, there[next(name for name in row.packages if name in there)])
        for row in matrix.tables.frameworks
        if row.module and not there.keys().isdisjoint(row.packages)
    ]
    if not installed:
        return machine
    from gpudoctor.smoke.trial import try_module

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
    host: Host, machine: Machine, imports: Iterable[ModuleImport], before: ProcessLimits, probing: Probing
) -> Machine:
    """The machine with imports of modules beside torch, and the files that failed ones point at."""
    environment = machine.examined
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
    return machine.with_environment(after)


def with_emptied_files(host: Host, matrix: Matrix, machine: Machine, probing: Probing) -> Machine:
    """The machine with all files of its GPU packages, and of what they require, in which nothing is left."""
    environment = machine.examined
    if not environment.distributions.value:
        return machine
    from gpudoctor.probes.emptied_files import with_emptied_files

    roots = {name for row in matrix.tables.frameworks for name in row.packages} | matrix.gpu_packages
    markers = marker_environment(environment.python.value, machine.system.arch.value or "x86_64")
    required = {one.what.name for one in closure(sorted(roots), environment.distribution, markers)}
    find = partial(with_emptied_files, host, environment, roots | required)
    after = probing("emptied files", find, environment)
    return machine.with_environment(after)


def _as_started(variables: dict[str, str], trial: ImportTrial) -> dict[str, str]:
    """The variables that Python's start files leave to a program."""
    changed = {one.name: one.value for one in trial.variables}
    left = {name: value for name, value in variables.items() if changed.get(name, "") is not None}
    return {**left, **relevant_variables({name: value for name, value in changed.items() if value is not None})}


def _with_suspects(
    host: Host, environment: PythonEnvironment, trial: Fact[ImportTrial], before: ProcessLimits
) -> Fact[ImportTrial]:
    from gpudoctor.frameworks.torch.probes.import_failure import with_suspects

    assert trial.value is not None
    return replace(trial, value=with_suspects(host, environment, trial.value, before, process_limits(host)))


def _no_torch(machine: Machine) -> str:
    if not machine.environment.known:
        return "there is no Python environment to run them in"
    torch = machine.examined.torch
    return "no torch is installed" if torch.absent else f"torch could not be looked into: {torch.why}"


def compute_with(framework: str, devices: tuple[str, ...], host: Host, machine: Machine, probing: Probing) -> Machine:
    """A matrix product with a framework beside torch, if it is installed."""
    from gpudoctor.smoke.other_frameworks import compute

    crashed = Smoke(level="quick", why="the smoke program crashed", framework=framework)
    smoke = probing("smoke", lambda: compute(host, machine.examined, framework, devices), crashed)
    return replace(machine, smoke=smoke, level="quick" if smoke.kernels else machine.level)
