"""Where a machine comes from: probed here or below a root, recorded in a snapshot, described."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from gpudoctor.command_line.arguments import ExaminationOptions, ReportOptions
from gpudoctor.command_line.option_parser import words
from gpudoctor.command_line.options import REQUIRE, WHERE
from gpudoctor.command_line.project_settings import Settings, project_settings
from gpudoctor.host import Host, InputError, LiveHost
from gpudoctor.intake.description import Description
from gpudoctor.report import Subject
from gpudoctor.survey import Survey, survey

if TYPE_CHECKING:
    from gpudoctor.engine import Judgement
    from gpudoctor.machine import Level, Machine
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.smoke.plan import Request
    from gpudoctor.smoke.session import Progress


def host_of(root: str | None, variables: dict[str, str]) -> Host:
    """The running system, or the one below a root, with these variables. Raises InputError."""
    if root is None:
        return LiveHost(variables)
    from gpudoctor.host.recorded_host import RecordedHost

    return RecordedHost(root, variables)


class Sources(Struct, frozen=True):
    """What a machine is read from: probed, recorded, described; and what it is judged with."""

    examined: ExaminationOptions = ExaminationOptions()
    variables: dict[str, str] = field(default_factory=dict)
    snapshot: str | None = None
    description: Description = Description()
    overlays: tuple[str, ...] = ()
    require: tuple[str, ...] = ()

    @property
    def is_this_machine(self) -> bool:
        """Whether nothing was asked for but the running system itself."""
        return self.snapshot is None and self.examined.root is None and self.description.empty

    @property
    def options(self) -> tuple[str, ...]:
        """The options that name this machine and environment to another command."""
        given = {
            **to_builtins(self.description),
            "python": self.examined.python,
            "root": self.examined.root,
            "snapshot_file": self.snapshot,
            "variables": tuple(f"{name}={value}" for name, value in self.variables.items()),
            "overlays": self.overlays,
            "require": self.require,
        }
        return words((*WHERE, REQUIRE), given)


def examine(sources: Sources, matrix: Matrix, shown: ReportOptions) -> tuple[Survey, Subject]:
    """Probe this machine, or the one below the root, or read the recorded one. Where other GPUs are described, these
    ones are not asked."""
    if sources.snapshot is not None:
        return examine_quietly(sources, matrix)
    from gpudoctor.host.interrupts import interruptible
    from gpudoctor.render.progress import progress_line

    settings = project_settings() if sources.is_this_machine else Settings()
    with interruptible(), progress_line(shown.style, shown.quiet) as progress:
        return examine_quietly(sources, matrix, settings.level, progress, progress.stage)


def examine_quietly(
    sources: Sources,
    matrix: Matrix,
    default_level: str | None = None,
    progress: Progress | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[Survey, Subject]:
    """The same without progress on the screen, and without handling signals."""
    if sources.snapshot is not None:
        return _from_file(sources.snapshot, sources, matrix)
    examined, description, variables = sources.examined, sources.description, sources.variables
    root = examined.root
    host = host_of(root, variables)
    # Of a described machine the kernels can prove nothing but this torch, on the CPU: if a person asks for them.
    installed = not (description.torch or description.python_version)
    kernels = description.empty or (examined.level is not None and installed)
    asked = cast("Level | None", examined.level or default_level)
    starts_torch = asked not in ("static", "driver")
    request: Request | None = None
    if starts_torch and kernels and not description.empty:
        from gpudoctor.smoke.plan import Request

        request = Request(level=None, devices=("cpu",), named=False)
    # The environment is real beside described GPUs, too: it is imported, and the driver here is not asked.
    level = asked or ("static" if description.gpus and not installed else None)
    found = survey(
        host,
        matrix,
        python=examined.python,
        level=level,
        drivers=asked is not None or not description.gpus,
        kernels=kernels,
        request=request,
        progress=progress,
        stage=stage,
    )
    return found, Subject("machine", "this machine") if root is None else Subject("root", root)


def with_installers(survey: Survey, sources: Sources, matrix: Matrix, *, commands: bool = True) -> Survey:
    """The survey with what install commands meet in the examined environment. Only what fixes something asks this.
    Without `commands`, and at level static and driver, pip itself is not tried."""
    environment, examined, description = survey.machine.environment, sources.examined, sources.description
    if environment.value is None or description.torch or description.python_version:
        return survey
    from gpudoctor.probes.installers import probe_installers

    host = host_of(None if examined.python is not None else examined.root, sources.variables)
    commands = commands and examined.level not in ("static", "driver")
    found = probe_installers(host, environment.value, matrix.gpu_packages, commands=commands)
    known = replace(environment.value, installers=found)
    return replace(survey, machine=survey.machine.with_environment(known))


def with_questions_of_fixes(survey: Survey, sources: Sources, matrix: Matrix) -> Survey:
    """The survey with all that fixes ask: what every installed package requires, and what install commands meet. Of a
    recorded machine there is no more than the record."""
    if sources.snapshot is not None:
        return survey
    return with_installers(_with_requirements(survey, sources.examined), sources, matrix)


def _with_requirements(survey: Survey, examined: ExaminationOptions) -> Survey:
    """The survey with what every installed package requires: a fix asks which others need what it replaces."""
    environment = survey.machine.environment
    if environment.value is None:
        return survey
    from gpudoctor.probes.distributions import with_all_requirements

    host = host_of(None if examined.python is not None else examined.root, {})
    known = with_all_requirements(host, environment.value)
    return replace(survey, machine=survey.machine.with_environment(known))


def _from_file(path: str, sources: Sources, matrix: Matrix) -> tuple[Survey, Subject]:
    """The machine of a snapshot, a report or a pasted text; nothing is probed. Raises InputError."""
    from gpudoctor.intake.machine_file import read_machine

    if sources.examined != ExaminationOptions() or sources.variables:
        raise InputError(
            "--from reads a machine as it was recorded; --root, --python, --level and --env do not go with it"
        )
    machine, kind = read_machine(path, matrix)
    return Survey(machine, (), {}), Subject(kind=kind, label="stdin" if path == "-" else path)


def with_description(
    survey: Survey, description: Description, matrix: Matrix, judge: Callable[[Machine], Judgement]
) -> Survey:
    """The survey with what is described in the place of what was probed. `judge` tells whether an ambiguous name
    matters. Raises InputError."""
    if description.empty:
        return survey
    from gpudoctor.intake.described import described_machine
    from gpudoctor.intake.described_gpus import unambiguous

    def make(one: Description) -> Machine:
        return described_machine(survey.machine, one, matrix)

    machine = unambiguous(description, make, lambda machine: answer(judge(machine)))
    return replace(survey, machine=machine)


def answer(judgement: Judgement) -> object:
    """What two machines have in common that get the same answer: the verdict, the problems, and their fixes."""
    told = (finding for finding in judgement.findings if finding.severity != "note")
    return judgement.verdict, [(one.slug, one.severity, *(fix.title for fix in one.fixes[:1])) for one in told]
